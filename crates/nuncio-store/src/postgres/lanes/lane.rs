//! A writer lane: it repeats transactions until each commit has its true outcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nuncio_core::audit::AuditChainId;
use nuncio_engine::ports::store::info::{REWOUND_AT, SIGNATURES_SINCE};
use nuncio_engine::ports::store::{Change, StoreError};
use tokio::sync::mpsc;

use super::super::audit::LaneAuditHead;
use super::super::connection::{OUTAGE_LIMIT, Session, is_outage};
use super::super::problem::SqlError;
use super::super::rows;
use super::super::writes::params;
use super::transaction::{Transaction, TransactionFailure, is_alone};
use super::{CommitResult, MAX_GROUP, QueuedCommit, SharedState, is_audit_record};

/// Number of times that a group is repeated without its failed commits, before its commits are repeated one by one.
const MAX_REPETITIONS: usize = 3;

/// Pause before a transaction is repeated, while the server is away or other transactions are in the way.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Lane {
    /// Name of the lane in the table `commits`.
    name: String,
    number: u32,
    state: Arc<SharedState>,
    session: Option<Session>,
    /// Number of the last transaction that was committed; `None` before the first connection.
    committed: Option<i64>,
    head: LaneAuditHead,
}

/// End of one transaction for all commits of its group.
enum GroupOutcome {
    Committed,
    /// The commits at these positions are to be repeated alone.
    Rejected(Vec<usize>),
    Failed(StoreError),
}

impl Lane {
    pub(super) fn new(number: u32, state: Arc<SharedState>) -> Self {
        let name = format!("{}/{number}", state.process);
        Self { name, number, state, session: None, committed: None, head: LaneAuditHead::unknown(AuditChainId(number)) }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<QueuedCommit>) {
        let mut units = Vec::with_capacity(MAX_GROUP);
        while queue.recv_many(&mut units, MAX_GROUP).await > 0 {
            let (group, answers): (Vec<_>, Vec<_>) = units.drain(..).map(|unit| (unit.changes, unit.answer)).unzip();
            let began = Instant::now();
            let outcomes = self.commit_group(&group).await;
            self.state.meter.committed(group.len(), began.elapsed());
            let stored = group.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
            let appended = stored.flat_map(|(changes, _)| changes).filter(|change| is_audit_record(change)).count();
            self.state.audit_growth.send_if_modified(|number| {
                *number += appended as u64;
                appended > 0
            });
            let failed = |outcome: &CommitResult| !matches!(outcome, Ok(()) | Err(StoreError::Conflict(_)));
            self.state.is_failing.store(outcomes.iter().any(failed), Ordering::Relaxed);
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // Send errors are ignored: the caller no longer waits.
                let _ = answer.send(outcome);
            }
        }
    }

    async fn commit_group(&mut self, group: &[Vec<Change>]) -> Vec<CommitResult> {
        let deadline = tokio::time::Instant::now() + OUTAGE_LIMIT;
        let mut outcomes: Vec<Option<CommitResult>> = vec![None; group.len()];
        let mut repetitions = 0;
        while let Some(first) = outcomes.iter().position(Option::is_none) {
            let is_open = |position: &usize| outcomes.get(*position).is_some_and(Option::is_none);
            let may_join = |position: &usize| group.get(*position).is_some_and(|changes| !is_alone(changes));
            let batch: Vec<usize> = match may_join(&first) && repetitions < MAX_REPETITIONS {
                true => (first..group.len()).filter(is_open).filter(may_join).collect(),
                false => vec![first],
            };
            let is_stepwise = repetitions >= MAX_REPETITIONS || !may_join(&first);
            match self.transact(group, &batch, is_stepwise, deadline).await {
                GroupOutcome::Committed => batch.iter().for_each(|&position| set(&mut outcomes, position, Ok(()))),
                GroupOutcome::Failed(error) => {
                    batch.iter().for_each(|&position| set(&mut outcomes, position, Err(error.clone())));
                }
                GroupOutcome::Rejected(failed) => {
                    repetitions += 1;
                    for position in failed {
                        let outcome = match self.transact(group, &[position], true, deadline).await {
                            GroupOutcome::Committed => Ok(()),
                            GroupOutcome::Failed(error) => Err(error),
                            GroupOutcome::Rejected(_) => Err(StoreError::Unavailable("a commit failed".to_owned())),
                        };
                        set(&mut outcomes, position, outcome);
                    }
                }
            }
        }
        outcomes.into_iter().flatten().collect()
    }

    /// Repeats the transaction until it is known to be committed or not.
    async fn transact(
        &mut self,
        group: &[Vec<Change>],
        batch: &[usize],
        is_stepwise: bool,
        deadline: tokio::time::Instant,
    ) -> GroupOutcome {
        let changes: Vec<&[Change]> =
            batch.iter().filter_map(|&position| group.get(position)).map(Vec::as_slice).collect();
        loop {
            let failure = match self.attempt(&changes, is_stepwise).await {
                Ok(()) => return GroupOutcome::Committed,
                Err(failure) => failure,
            };
            let problem = match failure {
                TransactionFailure::Rejected(failed) => {
                    return GroupOutcome::Rejected(
                        failed.into_iter().filter_map(|at| batch.get(at).copied()).collect(),
                    );
                }
                TransactionFailure::Refused(error) => return GroupOutcome::Failed(error),
                TransactionFailure::Fenced => return GroupOutcome::Failed(StoreError::Fenced),
                TransactionFailure::InDoubt => {
                    self.session = None;
                    match self.resolve().await {
                        Ok(true) => {
                            self.head.forget();
                            return GroupOutcome::Committed;
                        }
                        Ok(false) => continue,
                        Err(error) => return GroupOutcome::Failed(error),
                    }
                }
                TransactionFailure::StaleAuditHead => {
                    self.head.forget();
                    continue;
                }
                TransactionFailure::StaleNumber => return GroupOutcome::Failed(self.stop_rewound().await),
                TransactionFailure::Disconnected(problem) => {
                    self.session = None;
                    problem
                }
                TransactionFailure::Failed(problem) if problem.is_collision() || is_outage(&problem) => problem,
                TransactionFailure::Failed(problem) => return GroupOutcome::Failed(problem.into()),
            };
            if tokio::time::Instant::now() + REPEAT_PAUSE >= deadline {
                return GroupOutcome::Failed(problem.into());
            }
            tokio::time::sleep(REPEAT_PAUSE).await;
        }
    }

    async fn attempt(&mut self, changes: &[&[Change]], is_stepwise: bool) -> Result<(), TransactionFailure> {
        if self.state.is_rewound.load(Ordering::Relaxed) {
            return Err(TransactionFailure::StaleNumber);
        }
        let unusable = |problem: SqlError| match is_outage(&problem) {
            true => TransactionFailure::Disconnected(problem),
            false => TransactionFailure::Failed(problem),
        };
        let session = match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => self.connect().await?,
        };
        let session = self.session.insert(session);
        if changes.iter().copied().flatten().any(|change| matches!(change, Change::Record(_))) {
            self.head.load(session).await.map_err(unusable)?;
        }
        let number = self.committed.unwrap_or_default() + 1;
        let transaction = Transaction { session, fence: self.state.fence.get(), lane: &self.name, number };
        match changes {
            [unit] if is_stepwise => transaction.commit_stepwise(unit, &mut self.head).await?,
            _ => transaction.commit_together(changes, &mut self.head).await?,
        }
        self.committed = Some(number);
        Ok(())
    }

    /// Connects, and compares the number of the last transaction with the stored one.
    async fn connect(&mut self) -> Result<Session, TransactionFailure> {
        let session = self.state.connector.connect().await.map_err(TransactionFailure::Disconnected)?;
        let stored = self.stored_number(&session).await.map_err(TransactionFailure::Disconnected)?;
        if *self.committed.get_or_insert(stored) != stored {
            return Err(TransactionFailure::StaleNumber);
        }
        Ok(session)
    }

    /// The number of the last transaction of this lane. Waits until a transaction of an earlier connection is over.
    async fn stored_number(&self, session: &Session) -> Result<i64, SqlError> {
        let setting = "SELECT set_config('nuncio.lane', $1, false)";
        session.execute(setting, params![self.number.to_string()]).await?;
        let sql = "INSERT INTO commits (lane, number) VALUES ($1, 0) ON CONFLICT (lane) DO NOTHING";
        session.execute(sql, params![self.name.as_str()]).await?;
        let sql = "SELECT number FROM commits WHERE lane = $1 FOR UPDATE";
        let found = session.rows(sql, params![self.name.as_str()]).await?;
        found.first().map_or(Ok(0), |row| rows::get(row, 0))
    }

    /// Finds out whether the transaction was committed whose confirmation was lost. It waits for the server without
    /// limit, because nothing else tells the outcome.
    async fn resolve(&mut self) -> Result<bool, StoreError> {
        let expected = self.committed.unwrap_or_default() + 1;
        loop {
            let found = match self.state.connector.connect().await {
                Ok(session) => self.stored_number(&session).await.map(|number| (session, number)),
                Err(problem) => Err(problem),
            };
            match found {
                Ok((session, number)) if number == expected => {
                    self.committed = Some(number);
                    self.session = Some(session);
                    return Ok(true);
                }
                Ok((session, number)) if number == expected - 1 => {
                    self.session = Some(session);
                    return Ok(false);
                }
                Ok(_) => return Err(self.stop_rewound().await),
                Err(problem) => {
                    tracing::warn!(error = %StoreError::from(problem), "the outcome of a commit is not known yet");
                    tokio::time::sleep(REPEAT_PAUSE).await;
                }
            }
        }
    }

    /// Stops all commits of this process, because the database does not contain what it confirmed. The next process
    /// records that, and refuses signatures from before, whose nonces may be lost.
    async fn stop_rewound(&self) -> StoreError {
        if !self.state.is_rewound.swap(true, Ordering::Relaxed)
            && let Err(problem) = self.note_rewind().await
        {
            let error = StoreError::from(problem);
            tracing::error!(%error, "the store lost commits, which could not be noted in it");
        }
        StoreError::Damaged(
            "the database lost commits that it had confirmed, as after a restore or a failover; restart Nuncio, which \
             records this and continues with what is stored"
                .to_owned(),
        )
    }

    async fn note_rewind(&self) -> Result<(), SqlError> {
        let session = self.state.connector.connect().await?;
        let sql = "INSERT INTO store_info (name, value)
             SELECT entry, ((extract(epoch FROM clock_timestamp()) * 1000)::BIGINT)::TEXT FROM unnest($1::TEXT[]) AS entry
             ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        let entries: Vec<String> = [REWOUND_AT, SIGNATURES_SINCE].map(str::to_owned).into();
        session.execute(sql, params![entries]).await.map(|_| ())
    }
}

fn set(outcomes: &mut [Option<CommitResult>], position: usize, outcome: CommitResult) {
    if let Some(slot) = outcomes.get_mut(position) {
        *slot = Some(outcome);
    }
}
