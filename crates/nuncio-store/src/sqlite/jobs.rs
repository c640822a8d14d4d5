//! Jobs, and the claims of the incarnations that run them.

use async_trait::async_trait;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{
    ClaimedJob, Conflict, Job, JobChange, JobClaim, JobClaimRequest, JobKind, JobLane, JobSelection, JobStore,
    JobTimes, StoreError,
};
use rusqlite::types::ToSql;
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, all, execute_or, exists, first, run, to_integer, to_json, to_limit};

pub(super) fn apply(connection: &Connection, change: &JobChange) -> Result<(), SqlError> {
    match change {
        JobChange::Put(job) => put(connection, job),
        JobChange::End(claim) => end(connection, claim),
        JobChange::Delay { claim, due, attempts } => change_claimed(
            connection,
            claim,
            "UPDATE jobs SET due = ?5, attempts = ?6, claimed_by = NULL, claimed_until = NULL",
            &[&due.as_millis(), attempts],
        ),
        JobChange::Renew { claim, now, lasts } => {
            let until = now.after(*lasts).as_millis();
            change_claimed(connection, claim, "UPDATE jobs SET claimed_until = ?5", &[&until])
        }
        JobChange::Hasten { kind, jobs, due } => {
            let (kind, due) = (kind.as_str(), due.as_millis());
            let sql = "UPDATE jobs SET due = ?2 WHERE kind = ?1 AND is_first = 1 AND due > ?2";
            match jobs {
                JobSelection::All => run(connection, sql, params![kind, due]),
                JobSelection::Key(key) => run(connection, &format!("{sql} AND key = ?3"), params![kind, due, key]),
                JobSelection::Receiver(receiver) => {
                    run(connection, &format!("{sql} AND receiver = ?3"), params![kind, due, receiver])
                }
            }
        }
        JobChange::Release(incarnation) => run(
            connection,
            "UPDATE jobs SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = ?1",
            [incarnation.as_str()],
        ),
    }
}

pub(super) fn remove_all(connection: &Connection, kind: JobKind, receiver: &str) -> Result<(), SqlError> {
    run(connection, "DELETE FROM jobs WHERE kind = ?1 AND receiver = ?2", params![kind.as_str(), receiver])
}

pub(super) fn put(connection: &Connection, job: &Job) -> Result<(), SqlError> {
    let (lane, seq) = match &job.lane {
        Some(lane) => (Some(&lane.name), to_integer(lane.seq)?),
        None => (None, 0),
    };
    run(
        connection,
        "INSERT INTO jobs (kind, key, receiver, lane, seq, is_first, due, attempts, term)
         VALUES (?1, ?2, ?3, ?4, ?5,
             NOT EXISTS (SELECT 1 FROM jobs WHERE kind = ?1 AND receiver = ?3 AND lane = ?4), ?6, ?7, 0)
         ON CONFLICT (kind, key) DO UPDATE
         SET receiver = excluded.receiver, due = excluded.due, attempts = excluded.attempts",
        params![job.kind.as_str(), job.key, job.receiver, lane, seq, job.due.as_millis(), job.attempts],
    )
}

fn end(connection: &Connection, claim: &JobClaim) -> Result<(), SqlError> {
    let sql =
        "DELETE FROM jobs WHERE kind = ?1 AND key = ?2 AND claimed_by = ?3 AND term = ?4 RETURNING receiver, lane";
    let of = params![claim.kind.as_str(), claim.key, claim.by.as_str(), to_integer(claim.term)?];
    let ended: Option<(String, Option<String>)> = first(connection, sql, of, |row| Ok((row.get(0)?, row.get(1)?)))?;
    match ended {
        None => Err(Conflict::Moved.into()),
        Some((_, None)) => Ok(()),
        Some((receiver, Some(lane))) => {
            let sql = "UPDATE jobs SET is_first = 1 WHERE kind = ?1 AND receiver = ?2 AND lane = ?3
                 AND seq = (SELECT min(seq) FROM jobs WHERE kind = ?1 AND receiver = ?2 AND lane = ?3)";
            run(connection, sql, params![claim.kind.as_str(), receiver, lane])
        }
    }
}

/// Runs an update of a claimed job, or fails with `Moved` unless the claim holds.
fn change_claimed(
    connection: &Connection,
    claim: &JobClaim,
    update: &str,
    values: &[&dyn ToSql],
) -> Result<(), SqlError> {
    let sql = format!("{update} WHERE kind = ?1 AND key = ?2 AND claimed_by = ?3 AND term = ?4");
    let (kind, by, term) = (claim.kind.as_str(), claim.by.as_str(), to_integer(claim.term)?);
    let mut params: Vec<&dyn ToSql> = vec![&kind, &claim.key, &by, &term];
    params.extend(values);
    execute_or(Conflict::Moved, connection, &sql, &params[..])
}

/// Claims jobs in the open transaction. The jobs of a receiver are numbered in the order in which they are due, so that
/// no more are claimed than it has free places.
pub(super) fn claim(connection: &Connection, request: &JobClaimRequest) -> Result<Vec<ClaimedJob>, SqlError> {
    let (kind, by) = (request.kind, &request.by);
    let mut claimed = all(
        connection,
        "UPDATE jobs SET claimed_by = ?2, claimed_until = ?4, term = term + 1
         WHERE kind = ?1 AND key IN (
             SELECT key FROM (
                 SELECT key, receiver, due, row_number() OVER (PARTITION BY receiver ORDER BY due, seq, key) AS place
                 FROM jobs WHERE kind = ?1 AND is_first = 1 AND due <= ?3
                 AND (claimed_until IS NULL OR claimed_until <= ?3)
                 AND key NOT IN (SELECT value ->> 0 FROM json_each(?7)))
             WHERE place <= ?6 - (SELECT count(*) FROM json_each(?7) WHERE value ->> 1 = receiver)
             ORDER BY due, key LIMIT ?5)
         RETURNING key, receiver, lane, seq, due, attempts, term",
        params![
            kind.as_str(),
            by.as_str(),
            request.now.as_millis(),
            request.now.after(request.lasts).as_millis(),
            to_limit(request.limit),
            to_limit(request.per_receiver),
            to_json(&request.running)?,
        ],
        |row| {
            let job = read(row, kind)?;
            let claim = JobClaim { kind, key: job.key.clone(), by: by.clone(), term: rows::number(row, 6)? };
            Ok(ClaimedJob { job, claim })
        },
    )?;
    // The rows of RETURNING have no order.
    claimed.sort_by(|a, b| (a.job.due, &a.job.key).cmp(&(b.job.due, &b.job.key)));
    Ok(claimed)
}

#[async_trait]
impl JobStore for SqliteStore {
    async fn claim_jobs(&self, request: JobClaimRequest) -> Result<Vec<ClaimedJob>, StoreError> {
        self.writer.claim(request).await
    }

    async fn job_times(&self, kinds: &[JobKind], now: Timestamp) -> Result<Vec<JobTimes>, StoreError> {
        self.readers.point(|connection| kinds.iter().map(|kind| times(connection, *kind, now)).collect())
    }

    async fn next_jobs(&self, kind: JobKind, limit: usize) -> Result<Vec<Job>, StoreError> {
        let sql = "SELECT key, receiver, lane, seq, due, attempts FROM jobs WHERE kind = ?1 AND is_first = 1
             ORDER BY due, key LIMIT ?2";
        self.readers
            .list(move |connection| all(connection, sql, (kind.as_str(), to_limit(limit)), |row| read(row, kind)))
            .await
    }
}

fn times(connection: &Connection, kind: JobKind, now: Timestamp) -> Result<JobTimes, SqlError> {
    let (name, now) = (kind.as_str(), now.as_millis());
    let due = "SELECT 1 FROM jobs WHERE kind = ?1 AND is_first = 1 AND due <= ?2
         AND (claimed_until IS NULL OR claimed_until <= ?2) LIMIT 1";
    let next = "SELECT due FROM jobs WHERE kind = ?1 AND is_first = 1 AND due > ?2 ORDER BY due LIMIT 1";
    Ok(JobTimes {
        kind,
        is_due: exists(connection, due, params![name, now])?,
        next: first(connection, next, params![name, now], |row| rows::moment(row, 0))?,
    })
}

/// Reads the columns `key, receiver, lane, seq, due, attempts`.
fn read(row: &Row<'_>, kind: JobKind) -> Result<Job, SqlError> {
    let name: Option<String> = row.get(2)?;
    let seq = rows::number(row, 3)?;
    Ok(Job {
        kind,
        key: row.get(0)?,
        receiver: row.get(1)?,
        lane: name.map(|name| JobLane { name, seq }),
        due: rows::moment(row, 4)?,
        attempts: row.get(5)?,
    })
}
