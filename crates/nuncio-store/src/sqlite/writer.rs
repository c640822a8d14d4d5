//! The writer thread.
//!
//! A disk sync costs a hundred times as much as a row, so commits queued during one transaction share the next. A
//! failed condition undoes only the changes of its caller: the group is repeated with savepoints.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::Meter;
use nuncio_engine::ports::store::{Change, ClaimedJob, JobClaimRequest, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use super::audit::{self, CachedAuditHead};
use super::problem::SqlError;
use super::rows::execute;
use super::{changes, jobs, nodes};

/// Maximum number of commits per transaction.
const MAX_GROUP: usize = 256;

/// Number of queued commits after which further callers wait.
const MAX_QUEUE: usize = 4 * MAX_GROUP;

/// Maximum number of attempts to truncate the write-ahead log; each waits for readers.
const TRUNCATION_ATTEMPTS: usize = 5;

type CommitResult = Result<(), StoreError>;

type ClaimResult = Result<Vec<ClaimedJob>, StoreError>;

/// What the writer thread does for one caller.
enum QueuedWork {
    Commit(Vec<Change>, oneshot::Sender<CommitResult>),
    Claim(JobClaimRequest, oneshot::Sender<ClaimResult>),
    Compact(oneshot::Sender<CommitResult>),
}

/// Handle of the writer thread.
pub(super) struct Writer {
    /// Queue of the thread; `None` while the store closes.
    queue: Option<mpsc::Sender<QueuedWork>>,
    thread: Option<JoinHandle<()>>,
    /// Number of the last stored audit record.
    audit_growth: watch::Receiver<u64>,
    /// Whether the last transaction failed.
    is_failing: Arc<AtomicBool>,
    /// Incarnation that must be alive for a commit.
    fence: Arc<OnceLock<Incarnation>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, meter: Arc<dyn Meter>) -> Result<Self, StoreError> {
        let (queue, units) = mpsc::channel(MAX_QUEUE);
        let is_failing = Arc::new(AtomicBool::new(false));
        let fence = Arc::new(OnceLock::new());
        let (grown, audit_growth) = watch::channel(audit::head(&connection)?.seq);
        let thread = thread::Builder::new()
            .name("nuncio-store".to_owned())
            .spawn({
                let is_failing = Arc::clone(&is_failing);
                let fence = Arc::clone(&fence);
                move || run(&connection, &fence, units, &*meter, &grown, &is_failing)
            })
            .map_err(|error| StoreError::Unavailable(format!("no thread for it: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), audit_growth, is_failing, fence })
    }

    pub(super) fn fence(&self, incarnation: &Incarnation) {
        let _ = self.fence.set(incarnation.clone());
    }

    /// Commits the changes to disk. Queued changes are stored even if the caller stops waiting.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> CommitResult {
        self.queue(|answer| QueuedWork::Commit(changes, answer)).await
    }

    pub(super) async fn claim(&self, request: JobClaimRequest) -> ClaimResult {
        self.queue(|answer| QueuedWork::Claim(request, answer)).await
    }

    /// Rewrites the database file, so that no deleted data is left in it or its write-ahead log.
    pub(super) async fn compact(&self) -> CommitResult {
        self.queue(QueuedWork::Compact).await
    }

    async fn queue<T>(
        &self,
        work: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> QueuedWork,
    ) -> Result<T, StoreError> {
        let stopped = || StoreError::Unavailable("its writer has stopped; restart the server".to_owned());
        let (answer, outcome) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(work(answer)).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    pub(super) fn audit_growth(&self) -> watch::Receiver<u64> {
        self.audit_growth.clone()
    }

    /// Fails while transactions fail; tries a write if the last transaction failed.
    pub(super) async fn check(&self) -> CommitResult {
        match self.is_failing.load(Ordering::Relaxed) {
            true => self.commit(Vec::new()).await,
            false => Ok(()),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the store's writer had stopped before it was closed");
        }
    }
}

fn run(
    connection: &Connection,
    fence: &OnceLock<Incarnation>,
    mut queue: mpsc::Receiver<QueuedWork>,
    meter: &dyn Meter,
    grown: &watch::Sender<u64>,
    is_failing: &AtomicBool,
) {
    let mut received = Vec::with_capacity(MAX_GROUP);
    while queue.blocking_recv_many(&mut received, MAX_GROUP) > 0 {
        let (mut group, mut answers, mut claims, mut compacts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for work in received.drain(..) {
            match work {
                QueuedWork::Commit(changes, answer) => {
                    group.push(changes);
                    answers.push(answer);
                }
                QueuedWork::Claim(request, answer) => claims.push((request, answer)),
                QueuedWork::Compact(answer) => compacts.push(answer),
            }
        }
        if !group.is_empty() {
            let began = Instant::now();
            let outcomes = commit_group(connection, fence.get(), &group);
            meter.committed(group.len(), began.elapsed());
            if let Ok(head) = audit::head(connection) {
                grown.send_if_modified(|seq| std::mem::replace(seq, head.seq) != head.seq);
            }
            let failed = |outcome: &CommitResult| !matches!(outcome, Ok(()) | Err(StoreError::Conflict(_)));
            is_failing.store(outcomes.iter().any(failed), Ordering::Relaxed);
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // Send errors are ignored: the caller no longer waits.
                let _ = answer.send(outcome);
            }
        }
        for (request, answer) in claims {
            let _ = answer.send(claim(connection, fence.get(), &request).map_err(StoreError::from));
        }
        for answer in compacts {
            let _ = answer.send(compact(connection).map_err(StoreError::from));
        }
    }
}

/// Claims jobs in a transaction of its own.
fn claim(
    connection: &Connection,
    fence: Option<&Incarnation>,
    request: &JobClaimRequest,
) -> Result<Vec<ClaimedJob>, SqlError> {
    let claimed = begin(connection, fence).and_then(|()| {
        let claimed = jobs::claim(connection, request)?;
        execute(connection, "COMMIT", [])?;
        Ok(claimed)
    });
    if claimed.is_err() {
        rollback(connection);
    }
    claimed
}

/// Rewrites the database file: `VACUUM` copies the data to the log, and a checkpoint copies the log to the file.
fn compact(connection: &Connection) -> Result<(), SqlError> {
    // Temporary files, because the copy may be larger than the memory.
    connection.pragma_update(None, "temp_store", "file")?;
    let written = connection.execute_batch("VACUUM");
    connection.pragma_update(None, "temp_store", "memory")?;
    written?;
    for _ in 0..TRUNCATION_ATTEMPTS {
        let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy == 0 {
            return Ok(());
        }
    }
    Err(SqlError::Unwritable(
        "its write-ahead log could not be emptied, because it is being read; try again".to_owned(),
    ))
}

/// Commits a group in one transaction, with a result per commit.
fn commit_group(connection: &Connection, fence: Option<&Incarnation>, group: &[Vec<Change>]) -> Vec<CommitResult> {
    try_group(connection, fence, group).unwrap_or_else(|problem| {
        rollback(connection);
        vec![Err(problem.into()); group.len()]
    })
}

/// Commits a group in one transaction. An error means that nothing was stored.
fn try_group(
    connection: &Connection,
    fence: Option<&Incarnation>,
    group: &[Vec<Change>],
) -> Result<Vec<CommitResult>, SqlError> {
    let tip = CachedAuditHead::default();
    begin(connection, fence)?;
    let outcomes = match group {
        // A single commit needs no savepoint.
        [unit] => {
            apply(connection, &tip, unit)?;
            vec![Ok(())]
        }
        // First without savepoints: conditions mostly hold, and a savepoint costs about as much as the changes in it.
        _ if group.iter().try_for_each(|unit| apply(connection, &tip, unit)).is_ok() => vec![Ok(()); group.len()],
        _ => {
            rollback(connection);
            tip.forget();
            begin(connection, fence)?;
            group.iter().map(|unit| apply_apart(connection, &tip, unit)).collect::<Result<_, _>>()?
        }
    };
    execute(connection, "COMMIT", [])?;
    Ok(outcomes)
}

/// Begins a transaction, which no other process can change the store in, for an incarnation that is alive.
fn begin(connection: &Connection, fence: Option<&Incarnation>) -> Result<(), SqlError> {
    execute(connection, "BEGIN IMMEDIATE", [])?;
    fence.map_or(Ok(()), |incarnation| nodes::check_alive(connection, incarnation))
}

/// Applies one commit in a savepoint. Fails only if the whole transaction was lost.
fn apply_apart(connection: &Connection, tip: &CachedAuditHead, unit: &[Change]) -> Result<CommitResult, SqlError> {
    execute(connection, "SAVEPOINT unit", [])?;
    let outcome = apply(connection, tip, unit);
    if let Err(problem) = outcome {
        tip.forget();
        // On a full disk, among others, SQLite rolls back everything by itself.
        if connection.is_autocommit() {
            return Err(problem);
        }
        execute(connection, "ROLLBACK TO unit", [])?;
        execute(connection, "RELEASE unit", [])?;
        return Ok(Err(problem.into()));
    }
    execute(connection, "RELEASE unit", [])?;
    Ok(Ok(()))
}

fn apply(connection: &Connection, tip: &CachedAuditHead, unit: &[Change]) -> Result<(), SqlError> {
    if unit.is_empty() {
        return write_nothing(connection);
    }
    unit.iter().try_for_each(|change| changes::apply(connection, tip, change))
}

/// Rewrites a page unchanged, to test the disk.
fn write_nothing(connection: &Connection) -> Result<(), SqlError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(connection.pragma_update(None, "user_version", version)?)
}

fn rollback(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(problem) = execute(connection, "ROLLBACK", []) {
        tracing::error!(?problem, "the store could not roll back");
    }
}

#[cfg(test)]
mod tests;
