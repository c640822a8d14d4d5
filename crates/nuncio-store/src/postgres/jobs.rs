//! Jobs, and the claims of the incarnations that run them.

use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{
    ClaimedJob, Conflict, Job, JobChange, JobClaim, JobClaimRequest, JobKind, JobLane, JobSelection, JobStore,
    JobTimes, StoreError,
};
use tokio_postgres::Row;

use super::connection::Session;
use super::problem::SqlError;
use super::rows::{self, to_integer, to_limit};
use super::writes::{Refusal, SqlWrite, Translated, Writes, database_now, params};
use super::{PostgresStore, nodes};

/// SQL condition for a row `job` that it is the first of its lane. It is computed, because two transactions that change
/// the same lane do not see each other.
macro_rules! is_first {
    () => {
        "NOT EXISTS (SELECT 1 FROM jobs AS before WHERE before.kind = job.kind AND before.receiver = job.receiver
                     AND before.lane = job.lane AND before.seq < job.seq)"
    };
}
pub(super) use is_first;

/// SQL condition for a job that nobody has claimed. Claims are measured with the clock of the database, so that nodes whose
/// clocks differ agree.
macro_rules! is_free {
    () => {
        concat!("(claimed_until IS NULL OR claimed_until <= ", database_now!(), ")")
    };
}

/// The jobs of a receiver are numbered in the order in which they are due, so that no more are claimed than it has free
/// places. Rows that another transaction claims are skipped.
const CLAIM: &str = concat!(
    "WITH numbered AS (
         SELECT key, receiver, due, row_number() OVER (PARTITION BY receiver ORDER BY due, seq, key) AS place
         FROM jobs AS job WHERE kind = $1 AND due <= $3 AND ",
    is_free!(),
    " AND key <> ALL($7) AND ",
    is_first!(),
    "),
       chosen AS (
         SELECT key FROM numbered
         WHERE place <= $6::BIGINT - (SELECT count(*) FROM unnest($8::TEXT[]) AS busy WHERE busy = receiver)
         ORDER BY due, key LIMIT $5),
       locked AS (
         SELECT key FROM jobs WHERE kind = $1 AND key IN (SELECT key FROM chosen) AND ",
    is_free!(),
    " FOR UPDATE SKIP LOCKED)
     UPDATE jobs SET claimed_by = $2, claimed_until = $4 + ",
    database_now!(),
    ", term = term + 1
     WHERE kind = $1 AND key IN (SELECT key FROM locked)
     RETURNING key, receiver, lane, seq, due, attempts, term"
);

pub(super) fn translate(change: &JobChange, out: &mut Writes) -> Translated {
    out.push(match change {
        JobChange::Put(job) => put(job)?,
        JobChange::End(claim) => SqlWrite::one_or(
            Conflict::Moved,
            "DELETE FROM jobs WHERE kind = $1 AND key = $2 AND claimed_by = $3 AND term = $4",
            params![claim.kind.as_str(), &claim.key, claim.by.as_str(), to_integer(claim.term)?],
        ),
        JobChange::Delay { claim, due, attempts } => SqlWrite::one_or(
            Conflict::Moved,
            "UPDATE jobs SET due = $5, attempts = $6, claimed_by = NULL, claimed_until = NULL
             WHERE kind = $1 AND key = $2 AND claimed_by = $3 AND term = $4",
            params![claim.kind.as_str(), &claim.key, claim.by.as_str(), to_integer(claim.term)?, *due, *attempts],
        ),
        JobChange::Renew { claim, lasts, .. } => SqlWrite::one_or(
            Conflict::Moved,
            concat!(
                "UPDATE jobs SET claimed_until = $5 + ",
                database_now!(),
                " WHERE kind = $1 AND key = $2 AND claimed_by = $3 AND term = $4"
            ),
            params![claim.kind.as_str(), &claim.key, claim.by.as_str(), to_integer(claim.term)?, millis(*lasts)],
        ),
        JobChange::Hasten { kind, jobs, due } => match jobs {
            JobSelection::All => {
                let sql = "UPDATE jobs SET due = $2 WHERE kind = $1 AND due > $2";
                SqlWrite::any(sql, params![kind.as_str(), *due])
            }
            JobSelection::Key(key) => {
                let sql = "UPDATE jobs SET due = $2 WHERE kind = $1 AND due > $2 AND key = $3";
                SqlWrite::any(sql, params![kind.as_str(), *due, key])
            }
            JobSelection::Receiver(receiver) => {
                let sql = "UPDATE jobs SET due = $2 WHERE kind = $1 AND due > $2 AND receiver = $3";
                SqlWrite::any(sql, params![kind.as_str(), *due, receiver])
            }
        },
        JobChange::Release(incarnation) => SqlWrite::any(
            "UPDATE jobs SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = $1",
            params![incarnation.as_str()],
        ),
    });
    Ok(())
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn put(job: &Job) -> Result<SqlWrite, SqlError> {
    let lane = job.lane.as_ref();
    let seq = lane.map_or(Ok(0), |lane| to_integer(lane.seq))?;
    Ok(SqlWrite::any(
        "INSERT INTO jobs (kind, key, receiver, lane, seq, due, attempts, term) VALUES ($1, $2, $3, $4, $5, $6, $7, 0)
         ON CONFLICT (kind, key) DO UPDATE
         SET receiver = excluded.receiver, due = excluded.due, attempts = excluded.attempts",
        params![job.kind.as_str(), &job.key, &job.receiver, lane.map(|lane| &lane.name), seq, job.due, job.attempts],
    ))
}

/// Claims jobs in a transaction of its own. A claim whose confirmation is lost expires like any other.
async fn claim(
    session: &Session,
    fence: Option<&Incarnation>,
    request: &JobClaimRequest,
) -> Result<Vec<ClaimedJob>, StoreError> {
    session.execute("BEGIN", []).await?;
    let claimed = claim_in_transaction(session, fence, request).await;
    session.execute(if claimed.is_ok() { "COMMIT" } else { "ROLLBACK" }, []).await?;
    claimed
}

async fn claim_in_transaction(
    session: &Session,
    fence: Option<&Incarnation>,
    request: &JobClaimRequest,
) -> Result<Vec<ClaimedJob>, StoreError> {
    for check in fence.into_iter().flat_map(nodes::check_alive) {
        if session.execute(check.sql, &check.params).await? == 0 && matches!(check.refusal, Some(Refusal::Fenced)) {
            return Err(StoreError::Fenced);
        }
    }
    let (keys, receivers): (Vec<_>, Vec<_>) = request.running.iter().cloned().unzip();
    let params = params![
        request.kind.as_str(),
        request.by.as_str(),
        request.now,
        millis(request.lasts),
        to_limit(request.limit),
        to_limit(request.per_receiver),
        keys,
        receivers
    ];
    let found = session.rows(CLAIM, params).await?;
    let mut claimed = found
        .iter()
        .map(|row| {
            let job = read(row, request.kind)?;
            let claim = JobClaim {
                kind: request.kind,
                key: job.key.clone(),
                by: request.by.clone(),
                term: rows::number(row, 6)?,
            };
            Ok(ClaimedJob { job, claim })
        })
        .collect::<Result<Vec<_>, SqlError>>()?;
    // The rows of RETURNING have no order.
    claimed.sort_by(|a, b| (a.job.due, &a.job.key).cmp(&(b.job.due, &b.job.key)));
    Ok(claimed)
}

#[async_trait]
impl JobStore for PostgresStore {
    async fn claim_jobs(&self, request: JobClaimRequest) -> Result<Vec<ClaimedJob>, StoreError> {
        let mut current = self.claims.lock().await;
        let session = match current.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => self.connector.connect().await?,
        };
        let claimed = claim(&session, self.lanes.fenced(), &request).await?;
        *current = Some(session);
        Ok(claimed)
    }

    async fn job_times(&self, kinds: &[JobKind], now: Timestamp) -> Result<Vec<JobTimes>, StoreError> {
        let due = concat!(
            "SELECT 1 FROM jobs AS job WHERE kind = $1 AND due <= $2 AND ",
            is_free!(),
            " AND ",
            is_first!(),
            " LIMIT 1"
        );
        let next = concat!(
            "SELECT due FROM jobs AS job WHERE kind = $1 AND due > $2 AND ",
            is_first!(),
            " ORDER BY due LIMIT 1"
        );
        let mut times = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let of = || params![kind.as_str(), now];
            let next = self.readers.first(next, of(), |row| rows::moment(row, 0)).await?;
            times.push(JobTimes { kind: *kind, is_due: self.readers.exists(due, of()).await?, next });
        }
        Ok(times)
    }

    async fn next_jobs(&self, kind: JobKind, limit: usize) -> Result<Vec<Job>, StoreError> {
        let sql = concat!(
            "SELECT key, receiver, lane, seq, due, attempts FROM jobs AS job WHERE kind = $1 AND ",
            is_first!(),
            " ORDER BY due, key LIMIT $2"
        );
        self.readers.all(sql, params![kind.as_str(), to_limit(limit)], |row| read(row, kind)).await
    }
}

/// Reads the columns `key, receiver, lane, seq, due, attempts`.
fn read(row: &Row, kind: JobKind) -> Result<Job, SqlError> {
    let name: Option<String> = rows::get(row, 2)?;
    let seq = rows::number(row, 3)?;
    Ok(Job {
        kind,
        key: rows::get(row, 0)?,
        receiver: rows::get(row, 1)?,
        lane: name.map(|name| JobLane { name, seq }),
        due: rows::moment(row, 4)?,
        attempts: rows::small(row, 5)?,
    })
}
