//! An execution on its way to disk. It goes there with the first thing that does: alone where anything
//! has to be waited for, else together with the start of its first attempt, which saves a commit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::digest::Digest;
use nuncio_core::execution::{Execution, Lease};
use tokio::sync::oneshot;

use crate::Engine;
use crate::converse::Idempotency;
use crate::error::EngineError;
use crate::ports::store::{Change, Conflict, StoreError};

type Answer = oneshot::Sender<Result<(), StoreError>>;

/// An execution that may not be on disk yet.
#[derive(Debug)]
pub struct Entry(Mutex<Progress>);

#[derive(Debug)]
enum Progress {
    /// It is not.
    Waits(Box<Creation>),
    /// It is.
    Made,
    /// It could not be put there, and never will be.
    Refused,
}

#[derive(Debug)]
struct Creation {
    execution: Execution,
    lease: Lease,
    idempotency: Option<(String, Digest)>,
    answer: Answer,
}

impl Creation {
    /// The change that creates it, merged with the one that begins it if that comes first.
    fn merged(&self, mut changes: Vec<Change>) -> Vec<Change> {
        let mut execution = self.execution.clone();
        let mut call = None;
        let begins = changes.iter_mut().position(|change| match change {
            Change::StartExecution { at, call: noted, .. } => {
                call = noted.take();
                execution.begin(*at).is_ok()
            }
            _ => false,
        });
        let (lease, idempotency) = (self.lease.clone(), self.idempotency.clone());
        let create = Change::CreateExecution { execution: Box::new(execution), lease, idempotency, call };
        match begins {
            Some(place) => changes[place] = create,
            None => changes.insert(0, create),
        }
        changes
    }
}

impl Entry {
    /// One that waits to be put on disk, and the answer to whether it was.
    pub(super) fn new(
        execution: Execution,
        lease: Lease,
        idempotency: Option<Idempotency>,
    ) -> (Self, oneshot::Receiver<Result<(), StoreError>>) {
        let (answer, answered) = oneshot::channel();
        let idempotency = idempotency.map(|it| (it.key, it.body));
        let creation = Creation { execution, lease, idempotency, answer };
        (Self(Mutex::new(Progress::Waits(Box::new(creation)))), answered)
    }

    /// Whether it was not accepted after all.
    pub(super) fn is_refused(&self) -> bool {
        matches!(*self.progress(), Progress::Refused)
    }

    fn waits(&self) -> bool {
        matches!(*self.progress(), Progress::Waits(_))
    }

    /// Takes what is to be created. Until it is told how that went, it counts as refused.
    fn take(&self) -> Option<Box<Creation>> {
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, Progress::Refused) {
            Progress::Waits(creation) => Some(creation),
            other => {
                *progress = other;
                None
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Puts an execution on disk, if it is not there yet.
    ///
    /// # Errors
    /// It cannot be put there; then it is not accepted.
    pub(crate) async fn settle(&self, entry: Option<&Entry>) -> Result<(), EngineError> {
        match entry {
            Some(entry) if entry.waits() => Ok(self.enter_with(Some(entry), Vec::new()).await?),
            _ => Ok(()),
        }
    }

    /// Commits changes, and the execution before them if it is not on disk yet: all or none. A condition
    /// of the changes that does not hold leaves it waiting.
    ///
    /// # Errors
    /// The changes were not made.
    pub(crate) async fn enter_with(&self, entry: Option<&Entry>, changes: Vec<Change>) -> Result<(), StoreError> {
        let waiting = entry.and_then(|entry| entry.take().map(|creation| (entry, creation)));
        let Some((entry, creation)) = waiting else { return self.store().commit(changes).await };
        let outcome = self.store().commit(creation.merged(changes)).await;
        match &outcome {
            Ok(()) => *entry.progress() = Progress::Made,
            Err(StoreError::Conflict(Conflict::GrantUsed | Conflict::ApprovalMoved)) => {
                *entry.progress() = Progress::Waits(creation);
                return outcome;
            }
            Err(_) => {}
        }
        let _ = creation.answer.send(outcome.clone());
        outcome
    }
}
