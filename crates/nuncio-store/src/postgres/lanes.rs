//! The writer lanes.
//!
//! A lane is a connection that commits queued changes in order. A disk sync costs much more than a row, so commits that
//! were queued during one transaction share the next. If a condition of one of them fails, the transaction is rolled
//! back; that commit is repeated alone, and the others again together. Savepoints are not used: PostgreSQL becomes slow
//! with many in a transaction.

mod lane;
mod transaction;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::Meter;
use nuncio_engine::ports::store::{AuditChange, Change, SessionChange, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

use super::connection::Connector;
use lane::Lane;

/// Number of writer lanes.
const LANES: usize = 4;

/// Maximum number of commits per transaction.
const MAX_GROUP: usize = 64;

/// Number of queued commits of a lane after which further callers wait.
const MAX_QUEUE: usize = 8 * MAX_GROUP;

pub(super) type CommitResult = Result<(), StoreError>;

/// Changes of one commit, as queued for a lane.
pub(super) struct QueuedCommit {
    changes: Vec<Change>,
    answer: oneshot::Sender<CommitResult>,
}

/// State that all lanes of a process share.
struct SharedState {
    connector: Connector,
    /// Name of this process in the table `commits`.
    process: String,
    meter: Arc<dyn Meter>,
    /// Number of audit records that this process stored.
    audit_growth: watch::Sender<u64>,
    /// Whether the last transaction of any lane failed.
    is_failing: AtomicBool,
    /// Incarnation that must be alive for a commit.
    fence: OnceLock<Incarnation>,
    /// Whether the database lost commits that it had confirmed. Then nothing is committed any more.
    is_rewound: AtomicBool,
}

/// Handle of the writer lanes, which run on a thread of their own.
pub(super) struct WriterLanes {
    /// Queues of the lanes; empty while the store closes.
    queues: Vec<mpsc::Sender<QueuedCommit>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<SharedState>,
}

impl WriterLanes {
    pub(super) fn start(connector: Connector, process: String, meter: Arc<dyn Meter>) -> Result<Self, StoreError> {
        let state = Arc::new(SharedState {
            connector,
            process,
            meter,
            audit_growth: watch::Sender::new(0),
            is_failing: AtomicBool::new(false),
            fence: OnceLock::new(),
            is_rewound: AtomicBool::new(false),
        });
        let (queues, receivers): (Vec<_>, Vec<_>) = (0..LANES).map(|_| mpsc::channel(MAX_QUEUE)).unzip();
        let failed = |error: std::io::Error| StoreError::Unavailable(format!("no thread for it: {error}"));
        // One thread for all lanes and their connections: it sends the statements of a transaction in few packets.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let lanes: Vec<_> =
            (0..).zip(receivers).map(|(number, queue)| (Lane::new(number, Arc::clone(&state)), queue)).collect();
        let run = move || {
            runtime.block_on(async {
                let running: Vec<_> = lanes.into_iter().map(|(lane, queue)| tokio::spawn(lane.run(queue))).collect();
                for lane in running {
                    if let Err(error) = lane.await {
                        tracing::error!(%error, "a writer lane of the store stopped");
                    }
                }
            });
        };
        let thread = thread::Builder::new().name("nuncio-store".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { queues, thread: Some(thread), state })
    }

    pub(super) fn fence(&self, incarnation: &Incarnation) {
        let _ = self.state.fence.set(incarnation.clone());
    }

    /// The incarnation that must be alive for a write.
    pub(super) fn fenced(&self) -> Option<&Incarnation> {
        self.state.fence.get()
    }

    /// Commits the changes. Queued changes are stored even if the caller stops waiting.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> CommitResult {
        let stopped = || StoreError::Unavailable("its writer has stopped; restart the server".to_owned());
        let (answer, outcome) = oneshot::channel();
        let queue = self.queues.get(lane_of(&changes)).ok_or_else(stopped)?;
        queue.send(QueuedCommit { changes, answer }).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    pub(super) fn audit_growth(&self) -> watch::Receiver<u64> {
        self.state.audit_growth.subscribe()
    }

    /// Fails while transactions fail; tries a write if the last transaction failed.
    pub(super) async fn check(&self) -> CommitResult {
        match self.state.is_failing.load(Ordering::Relaxed) {
            true => self.commit(Vec::new()).await,
            false => Ok(()),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queues.iter().map(|queue| queue.max_capacity() - queue.capacity()).sum()
    }
}

impl Drop for WriterLanes {
    fn drop(&mut self) {
        self.queues.clear();
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the store's writer had stopped before it was closed");
        }
    }
}

fn is_audit_record(change: &Change) -> bool {
    matches!(change, Change::Record(AuditChange::AppendCall(_) | AuditChange::AppendEvent(_)))
}

/// The lane of a commit. Commits for the same session share a lane, so that they do not wait for each other's locks.
fn lane_of(changes: &[Change]) -> usize {
    let mut hasher = DefaultHasher::new();
    match changes.first() {
        Some(Change::Session(SessionChange::Create { session, .. })) => session.id.hash(&mut hasher),
        Some(Change::Session(
            SessionChange::Delete(session)
            | SessionChange::BeginTurn { session, .. }
            | SessionChange::AppendMessage { session, .. }
            | SessionChange::SetPending { session, .. }
            | SessionChange::SetSummary { session, .. }
            | SessionChange::EndTurn { session, .. },
        )) => session.hash(&mut hasher),
        Some(Change::Execution(change)) => std::mem::discriminant(change).hash(&mut hasher),
        // The chain of the first lane is the main one: it contains the rounds and what operators did.
        Some(Change::Record(AuditChange::AppendEvent(_) | AuditChange::ForgetPerson(_))) => return 0,
        // Other subjects have shared counters, and are rare: one lane for each subject.
        other => other.map(std::mem::discriminant).hash(&mut hasher),
    }
    1 + usize::try_from(hasher.finish() % (LANES as u64 - 1)).unwrap_or_default()
}
