//! An execution on its way to disk. It goes there with the first thing that does: alone where anything
//! has to be waited for, else together with the start of its first attempt, which saves a commit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::digest::Digest;
use nuncio_core::execution::{Execution, ExecutionLease};
use tokio::sync::oneshot;

use crate::Engine;
use crate::converse::Idempotency;
use crate::error::EngineError;
use crate::ports::store::{Change, Conflict, StoreError};

type Answer = oneshot::Sender<Result<(), StoreError>>;

/// What tells whoever asked that an execution is on disk, or why not.
pub(super) type Answered = oneshot::Receiver<Result<(), StoreError>>;

/// When whoever asked for an execution is told that it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tell {
    /// As soon as it is.
    AtOnce,
    /// When its attempt is over: they wait for that anyway, and are woken once.
    WhenOver,
}

/// An execution that may not be on disk yet.
#[derive(Debug)]
pub struct Entry(Mutex<State>);

#[derive(Debug)]
struct State {
    progress: Progress,
    tell: Tell,
}

#[derive(Debug)]
enum Progress {
    /// It is not.
    Waits(Creation, Answer),
    /// It is; who is still to be told so.
    Made(Option<Answer>),
    /// It could not be put there, and never will be.
    Refused,
}

#[derive(Debug, Clone)]
struct Creation {
    execution: Box<Execution>,
    lease: ExecutionLease,
    idempotency: Option<(String, Digest)>,
}

impl Creation {
    /// The change that creates it, merged with the one that begins it if that comes first.
    fn merged(self, mut changes: Vec<Change>) -> Vec<Change> {
        let Self { mut execution, lease, idempotency } = self;
        let mut call = None;
        let begins = changes.iter_mut().position(|change| match change {
            Change::StartExecution { at, call: noted, .. } => {
                call = noted.take();
                execution.begin(*at).is_ok()
            }
            _ => false,
        });
        let create = Change::CreateExecution { execution, lease, idempotency, call };
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
        lease: ExecutionLease,
        idempotency: Option<Idempotency>,
        tell: Tell,
    ) -> (Self, Answered) {
        let (answer, answered) = oneshot::channel();
        let idempotency = idempotency.map(|it| (it.key, it.body));
        let creation = Creation { execution: Box::new(execution), lease, idempotency };
        (Self(Mutex::new(State { progress: Progress::Waits(creation, answer), tell })), answered)
    }

    /// Whether it was not accepted after all.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.state().progress, Progress::Refused)
    }

    /// Tells whoever asked that it is on disk, if it is and they are still to be told; otherwise they are told
    /// as soon as it is.
    pub(super) fn tell(&self) {
        let mut state = self.state();
        state.tell = Tell::AtOnce;
        if let Progress::Made(answer) = &mut state.progress
            && let Some(answer) = answer.take()
        {
            let _ = answer.send(Ok(()));
        }
    }

    fn waits(&self) -> bool {
        matches!(self.state().progress, Progress::Waits(..))
    }

    /// Takes what is to be created. Until it is told how that went, it counts as refused.
    fn take(&self) -> Option<(Creation, Answer)> {
        let mut state = self.state();
        match std::mem::replace(&mut state.progress, Progress::Refused) {
            Progress::Waits(creation, answer) => Some((creation, answer)),
            other => {
                state.progress = other;
                None
            }
        }
    }

    /// It is on disk.
    fn made(&self, answer: Answer) {
        let mut state = self.state();
        state.progress = Progress::Made(match state.tell {
            Tell::WhenOver => Some(answer),
            Tell::AtOnce => {
                let _ = answer.send(Ok(()));
                None
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
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
        let waiting = entry.and_then(|entry| entry.take().map(|taken| (entry, taken)));
        let Some((entry, (creation, answer))) = waiting else { return self.store().commit(changes).await };
        // Only what is spent can have been spent meanwhile, so that it is tried again.
        let spends = |change: &Change| matches!(change, Change::UseGrant(_) | Change::MoveApproval { .. });
        let again = changes.iter().any(spends).then(|| creation.clone());
        let outcome = self.store().commit(creation.merged(changes)).await;
        match (&outcome, again) {
            (Ok(()), _) => entry.made(answer),
            (Err(StoreError::Conflict(Conflict::GrantUsed | Conflict::ApprovalMoved)), Some(creation)) => {
                entry.state().progress = Progress::Waits(creation, answer);
            }
            (Err(error), _) => {
                let _ = answer.send(Err(error.clone()));
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nuncio_core::ids::ExecutionId;
    use nuncio_core::time::Timestamp;
    use serde_json::json;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn entry(tell: Tell) -> (Entry, Answered) {
        let order = json!({
            "skill": "depot/pickup", "version": "1.0.0", "agent": "depot", "target": "agent", "caller": "local",
            "protocol": "skill", "inputs": {}, "priority": "normal", "created_at": "2026-11-15T11:00:00Z", "timeout_ms": 1, "keep_ms": 1,
        });
        let order: nuncio_core::execution::AcceptedInvocation = serde_json::from_value(order).unwrap();
        let execution = Execution::accepted(ExecutionId::parse("exe_1").unwrap(), Arc::new(order));
        let lease = ExecutionLease { owner: "me".to_owned(), until: Timestamp::LAST };
        Entry::new(execution, lease, None, tell)
    }

    /// What committing it does.
    fn make(entry: &Entry) {
        let (_, answer) = entry.take().unwrap();
        assert!(entry.is_refused() && !entry.waits(), "nobody puts it there twice");
        entry.made(answer);
    }

    #[test]
    fn whoever_does_not_wait_is_told_as_soon_as_it_is_on_disk() {
        let (entry, mut answered) = entry(Tell::AtOnce);
        assert_eq!(answered.try_recv(), Err(TryRecvError::Empty));
        make(&entry);
        assert_eq!(answered.try_recv(), Ok(Ok(())));
        assert!(!entry.is_refused());
    }

    #[test]
    fn whoever_waits_for_the_end_is_told_then() {
        let (entry, mut answered) = entry(Tell::WhenOver);
        make(&entry);
        assert_eq!(answered.try_recv(), Err(TryRecvError::Empty));
        entry.tell();
        assert_eq!(answered.try_recv(), Ok(Ok(())));
        entry.tell();
    }

    #[test]
    fn whoever_waits_no_longer_is_told_as_soon_as_it_is_on_disk_and_not_before() {
        let (entry, mut answered) = entry(Tell::WhenOver);
        entry.tell();
        assert_eq!(answered.try_recv(), Err(TryRecvError::Empty));
        make(&entry);
        assert_eq!(answered.try_recv(), Ok(Ok(())));
    }

    #[test]
    fn what_is_dropped_before_it_is_on_disk_is_told_too() {
        let (entry, mut answered) = entry(Tell::WhenOver);
        drop(entry);
        assert_eq!(answered.try_recv(), Err(TryRecvError::Closed));
    }
}
