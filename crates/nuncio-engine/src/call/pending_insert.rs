//! An accepted execution that is not stored yet. It is stored with the first commit of its first attempt, which saves a
//! commit, or alone when something must be waited for first.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::digest::Digest;
use nuncio_core::execution::Execution;
use nuncio_core::ids::Incarnation;
use tokio::sync::oneshot;

use super::CallService;
use crate::error::EngineError;
use crate::ports::store::{AccessChange, ApprovalChange, Change, Conflict, ExecutionChange, StoreError};

/// Reports whether the execution or turn was stored.
pub(crate) type CommitResultSender = oneshot::Sender<Result<(), StoreError>>;
pub(crate) type CommitResultReceiver = oneshot::Receiver<Result<(), StoreError>>;

/// When the requester learns that the execution or turn was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyWhen {
    AtOnce,
    /// When the attempt or turn is over, because the requester waits for that anyway and is woken once.
    WhenOver,
}

/// An execution that may not be stored yet.
#[derive(Debug)]
pub struct PendingExecutionInsert(Mutex<ExecutionInsertState>);

#[derive(Debug)]
struct ExecutionInsertState {
    progress: ExecutionInsertProgress,
    notify: NotifyWhen,
}

#[derive(Debug)]
enum ExecutionInsertProgress {
    /// The execution is not stored yet.
    Waits(ExecutionCreation, CommitResultSender),
    /// The execution is stored; the sender is kept until the requester is informed.
    Made(Option<CommitResultSender>),
    /// The commit failed; the execution was not accepted.
    Refused,
}

#[derive(Debug, Clone)]
struct ExecutionCreation {
    execution: Box<Execution>,
    owner: Incarnation,
    idempotency: Option<(String, Digest)>,
}

impl ExecutionCreation {
    /// The changes with the insert of the execution, merged with the start of the attempt if they contain it.
    fn merged(self, mut changes: Vec<Change>) -> Vec<Change> {
        let Self { mut execution, owner, idempotency } = self;
        let mut call = None;
        let begins = changes.iter_mut().position(|change| match change {
            Change::Execution(ExecutionChange::Start { at, call: noted, .. }) => {
                call = noted.take();
                execution.begin(*at).is_ok()
            }
            _ => false,
        });
        let create = ExecutionChange::Create { execution, owner, idempotency, call }.into();
        match begins {
            Some(place) => changes[place] = create,
            None => changes.insert(0, create),
        }
        changes
    }
}

impl PendingExecutionInsert {
    /// Creates a pending insert and the receiver for its result. `idempotency` is a key and the digest of its request.
    pub(crate) fn new(
        execution: Execution,
        owner: Incarnation,
        idempotency: Option<(String, Digest)>,
        notify: NotifyWhen,
    ) -> (Self, CommitResultReceiver) {
        let (answer, answered) = oneshot::channel();
        let creation = ExecutionCreation { execution: Box::new(execution), owner, idempotency };
        (
            Self(Mutex::new(ExecutionInsertState {
                progress: ExecutionInsertProgress::Waits(creation, answer),
                notify,
            })),
            answered,
        )
    }

    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.state().progress, ExecutionInsertProgress::Refused)
    }

    /// Informs the requester that the execution is stored: at once, or as soon as the commit succeeds.
    pub(crate) fn notify_committed(&self) {
        let mut state = self.state();
        state.notify = NotifyWhen::AtOnce;
        if let ExecutionInsertProgress::Made(answer) = &mut state.progress
            && let Some(answer) = answer.take()
        {
            let _ = answer.send(Ok(()));
        }
    }

    fn waits(&self) -> bool {
        matches!(self.state().progress, ExecutionInsertProgress::Waits(..))
    }

    /// Takes the pending insert for a commit. Until the outcome is reported, the insert counts as refused.
    fn take(&self) -> Option<(ExecutionCreation, CommitResultSender)> {
        let mut state = self.state();
        match std::mem::replace(&mut state.progress, ExecutionInsertProgress::Refused) {
            ExecutionInsertProgress::Waits(creation, answer) => Some((creation, answer)),
            other => {
                state.progress = other;
                None
            }
        }
    }

    fn mark_stored(&self, answer: CommitResultSender) {
        let mut state = self.state();
        state.progress = ExecutionInsertProgress::Made(match state.notify {
            NotifyWhen::WhenOver => Some(answer),
            NotifyWhen::AtOnce => {
                let _ = answer.send(Ok(()));
                None
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, ExecutionInsertState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallService {
    /// Stores the execution if it is not stored yet.
    ///
    /// # Errors
    /// The commit failed. The execution is then not accepted.
    pub(crate) async fn ensure_committed(&self, entry: Option<&PendingExecutionInsert>) -> Result<(), EngineError> {
        match entry {
            Some(entry) if entry.waits() => Ok(self.commit_with_insert(Some(entry), Vec::new()).await?),
            _ => Ok(()),
        }
    }

    /// Commits changes together with the pending insert, all or none. A conflict on a grant or approval leaves the
    /// insert pending; after any other failure the execution counts as refused, and the requester is told.
    pub(crate) async fn commit_with_insert(
        &self,
        entry: Option<&PendingExecutionInsert>,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let waiting = entry.and_then(|entry| entry.take().map(|taken| (entry, taken)));
        let Some((entry, (creation, answer))) = waiting else { return self.context.commit(changes).await };
        // Only a grant or approval can be used by another call meanwhile and make a retry necessary.
        let spends = |change: &Change| {
            matches!(change, Change::Access(AccessChange::UseGrant(_)) | Change::Approval(ApprovalChange::Move { .. }))
        };
        let again = changes.iter().any(spends).then(|| creation.clone());
        let outcome = self.context.commit(creation.merged(changes)).await;
        match (&outcome, again) {
            (Ok(()), _) => entry.mark_stored(answer),
            (Err(StoreError::Conflict(Conflict::GrantUsed | Conflict::ApprovalMoved)), Some(creation)) => {
                entry.state().progress = ExecutionInsertProgress::Waits(creation, answer);
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
    use serde_json::json;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn entry(notify: NotifyWhen) -> (PendingExecutionInsert, CommitResultReceiver) {
        let order = json!({
            "skill": "depot/pickup", "version": "1.0.0", "agent": "depot", "target": "agent", "caller": "local",
            "protocol": "skill", "inputs": {}, "priority": "normal", "created_at": "2026-11-15T11:00:00Z", "timeout_ms": 1, "keep_ms": 1,
        });
        let order: nuncio_core::execution::AcceptedInvocation = serde_json::from_value(order).unwrap();
        let execution = Execution::accepted(ExecutionId::parse("exe_1").unwrap(), Arc::new(order));
        let owner = Incarnation::parse("node_me").unwrap();
        PendingExecutionInsert::new(execution, owner, None, notify)
    }

    /// Simulates a successful commit.
    fn make(entry: &PendingExecutionInsert) {
        let (_, answer) = entry.take().unwrap();
        assert!(entry.is_refused() && !entry.waits(), "a taken entry cannot be inserted again");
        entry.mark_stored(answer);
    }

    #[test]
    fn asynchronous_submitter_is_notified_when_insert_is_committed() {
        let (entry, mut answered) = entry(NotifyWhen::AtOnce);
        assert_eq!(answered.try_recv(), Err(TryRecvError::Empty));
        make(&entry);
        assert_eq!(answered.try_recv(), Ok(Ok(())));
        assert!(!entry.is_refused());
    }

    #[test]
    fn synchronous_submitter_is_notified_when_the_attempt_is_over() {
        let (entry, mut answered) = entry(NotifyWhen::WhenOver);
        make(&entry);
        assert_eq!(answered.try_recv(), Err(TryRecvError::Empty));
        entry.notify_committed();
        assert_eq!(answered.try_recv(), Ok(Ok(())));
        entry.notify_committed();
    }

    #[test]
    fn notification_requested_before_the_commit_is_sent_at_the_commit() {
        let (entry, mut answered) = entry(NotifyWhen::WhenOver);
        entry.notify_committed();
        assert_eq!(answered.try_recv(), Err(TryRecvError::Empty));
        make(&entry);
        assert_eq!(answered.try_recv(), Ok(Ok(())));
    }

    #[test]
    fn dropping_an_uncommitted_execution_insert_closes_the_receiver() {
        let (entry, mut answered) = entry(NotifyWhen::WhenOver);
        drop(entry);
        assert_eq!(answered.try_recv(), Err(TryRecvError::Closed));
    }
}
