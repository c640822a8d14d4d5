//! The one thread that writes.
//!
//! Syncing the disk costs a hundred times what a row costs, so whatever has queued up while one
//! transaction was being synced goes into the next one together. A condition that does not hold
//! undoes the changes of its caller and nobody else's: the group is made again, behind savepoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use nuncio_engine::ports::Meter;
use nuncio_engine::ports::store::{Change, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use super::audit::{self, Tip};
use super::changes;
use super::problem::Problem;
use super::rows::execute;

/// How many callers' changes share a transaction at most.
const GROUP: usize = 256;

/// How many may queue before callers have to wait in line.
const QUEUE: usize = 4 * GROUP;

/// How often the log is tried to be emptied; each time waits for readers to finish.
const TRUNCATIONS: usize = 5;

type Outcome = Result<(), StoreError>;

/// What one caller wants done, all or none.
struct Unit {
    changes: Vec<Change>,
    /// Whether the file is to be written anew after that.
    compacts: bool,
    answer: oneshot::Sender<Outcome>,
}

/// The thread, from outside.
pub(super) struct Writer {
    /// Empty once the store is being closed.
    queue: Option<mpsc::Sender<Unit>>,
    thread: Option<JoinHandle<()>>,
    /// The number of the last audit link on disk.
    audit_growth: watch::Receiver<u64>,
    /// Whether the last transaction failed.
    is_failing: Arc<AtomicBool>,
}

impl Writer {
    /// Gives the connection to a thread of its own.
    pub(super) fn start(connection: Connection, meter: Arc<dyn Meter>) -> Result<Self, StoreError> {
        let (queue, units) = mpsc::channel(QUEUE);
        let is_failing = Arc::new(AtomicBool::new(false));
        let (grown, audit_growth) = watch::channel(audit::head(&connection)?.seq);
        let thread = thread::Builder::new()
            .name("nuncio-store".to_owned())
            .spawn({
                let is_failing = Arc::clone(&is_failing);
                move || run(&connection, units, &*meter, &grown, &is_failing)
            })
            .map_err(|error| StoreError::Unavailable(format!("no thread for it: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), audit_growth, is_failing })
    }

    /// Makes the changes, all or none; on disk when it returns. Once queued they are made even if
    /// the caller no longer waits.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> Outcome {
        self.queue(changes, false).await
    }

    /// Writes the file anew, so that nothing that was deleted is left in it or in its log.
    pub(super) async fn compact(&self) -> Outcome {
        self.queue(Vec::new(), true).await
    }

    async fn queue(&self, changes: Vec<Change>, compacts: bool) -> Outcome {
        let stopped = || StoreError::Unavailable("its writer has stopped; restart the server".to_owned());
        let (answer, outcome) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(Unit { changes, compacts, answer }).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    pub(super) fn audit_growth(&self) -> watch::Receiver<u64> {
        self.audit_growth.clone()
    }

    /// Fails while transactions fail: a write is tried if the last one failed.
    pub(super) async fn check(&self) -> Outcome {
        match self.is_failing.load(Ordering::Relaxed) {
            true => self.commit(Vec::new()).await,
            false => Ok(()),
        }
    }

    /// How many wait for the thread.
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
    mut queue: mpsc::Receiver<Unit>,
    meter: &dyn Meter,
    grown: &watch::Sender<u64>,
    is_failing: &AtomicBool,
) {
    let mut units = Vec::with_capacity(GROUP);
    while queue.blocking_recv_many(&mut units, GROUP) > 0 {
        let compacts: Vec<_> = units.extract_if(.., |unit| unit.compacts).collect();
        let (group, answers): (Vec<_>, Vec<_>) = units.drain(..).map(|unit| (unit.changes, unit.answer)).unzip();
        let began = Instant::now();
        let outcomes = commit_group(connection, &group);
        meter.committed(group.len(), began.elapsed());
        if let Ok(head) = audit::head(connection) {
            grown.send_if_modified(|seq| std::mem::replace(seq, head.seq) != head.seq);
        }
        let failed = |outcome: &Outcome| !matches!(outcome, Ok(()) | Err(StoreError::Conflict(_)));
        is_failing.store(outcomes.iter().any(failed), Ordering::Relaxed);
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // Whoever no longer waits is not told.
            let _ = answer.send(outcome);
        }
        for unit in compacts {
            let _ = unit.answer.send(compact(connection).map_err(StoreError::from));
        }
    }
}

/// `VACUUM` copies what is there into the log, and the log over the file, which becomes as long as it needs to be.
fn compact(connection: &Connection) -> Result<(), Problem> {
    // The copy may be larger than the memory.
    connection.pragma_update(None, "temp_store", "file")?;
    let written = connection.execute_batch("VACUUM");
    connection.pragma_update(None, "temp_store", "memory")?;
    written?;
    for _ in 0..TRUNCATIONS {
        let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy == 0 {
            return Ok(());
        }
    }
    Err(Problem::Unwritable("its log is being read all the time and could not be emptied; try again".to_owned()))
}

/// One transaction for all of them; an outcome for each.
fn commit_group(connection: &Connection, group: &[Vec<Change>]) -> Vec<Outcome> {
    try_group(connection, group).unwrap_or_else(|problem| {
        rollback(connection);
        vec![Err(problem.into()); group.len()]
    })
}

/// Fails if the transaction as a whole does: then nothing of it was made.
fn try_group(connection: &Connection, group: &[Vec<Change>]) -> Result<Vec<Outcome>, Problem> {
    let tip = Tip::default();
    execute(connection, "BEGIN IMMEDIATE", [])?;
    let outcomes = match group {
        // Alone, the transaction is savepoint enough.
        [unit] => {
            apply(connection, &tip, unit)?;
            vec![Ok(())]
        }
        // Conditions mostly hold, and a savepoint costs about as much as what it guards.
        _ if group.iter().try_for_each(|unit| apply(connection, &tip, unit)).is_ok() => vec![Ok(()); group.len()],
        _ => {
            rollback(connection);
            tip.forget();
            execute(connection, "BEGIN IMMEDIATE", [])?;
            group.iter().map(|unit| apply_apart(connection, &tip, unit)).collect::<Result<_, _>>()?
        }
    };
    execute(connection, "COMMIT", [])?;
    Ok(outcomes)
}

/// Makes one unit's changes behind a savepoint. Fails only if that cost the whole transaction.
fn apply_apart(connection: &Connection, tip: &Tip, unit: &[Change]) -> Result<Outcome, Problem> {
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

fn apply(connection: &Connection, tip: &Tip, unit: &[Change]) -> Result<(), Problem> {
    if unit.is_empty() {
        return write_nothing(connection);
    }
    unit.iter().try_for_each(|change| changes::apply(connection, tip, change))
}

/// Writes a page without changing anything, to see whether the disk takes it.
fn write_nothing(connection: &Connection) -> Result<(), Problem> {
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
