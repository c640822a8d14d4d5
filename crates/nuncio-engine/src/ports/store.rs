//! The store port. Reading is one trait per subject; writing is one list of changes that are stored, all or none, when
//! `commit` returns. Only [`JobStore::claim_jobs`] writes and returns rows.

use std::fmt;

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::principal::Principal;

mod access;
mod approvals;
mod calls;
pub mod consent;
mod direct_messages;
mod directory;
mod drafts;
mod executions;
pub mod info;
mod jobs;
mod keyring;
mod keys;
mod nodes;
mod records;
pub mod relay;
mod sealed;
mod sessions;
mod status;
mod tasks;

pub use access::{AccessChange, AccessStore, PersonLink};
pub use approvals::{ApprovalChange, ApprovalStore};
pub use calls::{CallChange, CallStore, ExecutionAttempt, HistorySlot, ResultTarget, StartedCall};
pub use consent::{AgentAccountStore, ConsentChange, NotificationStore, PersonStore, RelationStore};
pub use direct_messages::{
    DirectMessageChange, DirectMessageReply, DirectMessageStore, PendingReply, SentDirectMessage,
};
pub use directory::{AgentDirectoryChange, AgentDirectoryStore};
pub use drafts::{ProtocolDraftChange, ProtocolDraftStore};
pub use executions::{ExecutionChange, ExecutionStore};
pub use info::{StoreInfoChange, StoreInfoStore};
pub use jobs::{
    ClaimedJob, Job, JobChange, JobClaim, JobClaimRequest, JobKind, JobLane, JobSelection, JobStore, JobTimes,
};
pub use keyring::{KeyringChange, KeyringEntry, KeyringStore};
pub use keys::{ApiKey, KeyExpiry, KeyKind, KeyRole, PreviousSecret};
pub use nodes::{NodeChange, NodeRecord, NodeState, NodeStore};
pub use records::{AuditChange, AuditStore, PersonErasure, RedactedAuditRecord, RedactedLedgerEntry};
pub use relay::{KeyBundleStore, RelayChange, RelayStore, WebhookStore};
pub use sealed::{SealedColumn, SealedValueChange, SealedValueStore};
pub use sessions::{
    EncodedMessage, IdempotencyRecord, MessageStore, SessionChange, SessionCursor, SessionStore, StoredMessage,
};
pub use status::{StoreStatus, TableSize, UnfinishedWork};
pub use tasks::{TaskChange, TaskStore};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A condition of one of the changes does not hold; no change was made.
    #[error("{0}")]
    Conflict(Conflict),
    /// The store cannot be read or written now.
    #[error("the store cannot be used: {0}")]
    Unavailable(String),
    /// Stored data cannot be read back.
    #[error("the store contains something that this version cannot read: {0}")]
    Damaged(String),
    /// This incarnation was declared dead; no change was made, and none will be.
    #[error("this node was declared dead, and other nodes continue its work; restart it")]
    Fenced,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StoreCheckResult {
    /// False if a quick check of a large store stopped early.
    pub complete: bool,
    /// Damages that were found; empty if there are none.
    pub problems: Vec<String>,
}

/// Condition of a change that does not hold, so that the commit is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("the session does not exist")]
    NoSession,
    /// The session has a running turn, or another turn than when it was read.
    #[error("the session is busy with another turn")]
    TurnRunning,
    #[error("the turn is not running")]
    TurnOver,
    #[error("a record with this id already exists")]
    Exists,
    #[error("the approval was decided in the meantime")]
    ApprovalMoved,
    #[error("the grant was used in the meantime")]
    GrantUsed,
    #[error("the record does not exist")]
    Missing,
    /// The execution is over, owned by another incarnation, or at another attempt.
    #[error("the execution is over or run by another process")]
    OwnerChanged,
    #[error("another node uses the store")]
    OtherNodeAlive,
    #[error("the draft was decided in the meantime")]
    DraftMoved,
    #[error("the task was changed in the meantime")]
    TaskMoved,
    /// The object changed since it was read.
    #[error("the record was changed in the meantime")]
    Moved,
}

macro_rules! changes {
    ($($subject:ident($change:ident)),* $(,)?) => {
        /// One change of any subject. The comment on each kind names in backticks the [`Conflict`] that it can cause.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Change {
            $($subject($change),)*
        }

        $(impl From<$change> for Change {
            fn from(change: $change) -> Self {
                Self::$subject(change)
            }
        })*
    };
}

changes! {
    Session(SessionChange),
    Call(CallChange),
    Record(AuditChange),
    Access(AccessChange),
    Approval(ApprovalChange),
    Task(TaskChange),
    Execution(ExecutionChange),
    Draft(ProtocolDraftChange),
    DirectMessage(DirectMessageChange),
    Directory(AgentDirectoryChange),
    Consent(ConsentChange),
    Relay(RelayChange),
    Node(NodeChange),
    Keyring(KeyringChange),
    Info(StoreInfoChange),
    Sealed(SealedValueChange),
    Job(JobChange),
}

#[async_trait]
pub trait Store:
    SessionStore
    + CallStore
    + AuditStore
    + AccessStore
    + ApprovalStore
    + TaskStore
    + ExecutionStore
    + ProtocolDraftStore
    + DirectMessageStore
    + AgentDirectoryStore
    + PersonStore
    + AgentAccountStore
    + RelationStore
    + NotificationStore
    + RelayStore
    + KeyBundleStore
    + WebhookStore
    + NodeStore
    + KeyringStore
    + StoreInfoStore
    + SealedValueStore
    + JobStore
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Applies the changes in order, all or none; they are on disk when this returns.
    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError>;

    /// From now on, commits through this handle fail with `Fenced` unless the incarnation is alive. Only the first call
    /// counts.
    fn fence(&self, incarnation: &Incarnation);

    /// Bytes stored by a caller: sessions, executions, sealed messages and manifests. Data of `local` and the operator
    /// is not counted.
    async fn bytes_stored(&self, owner: &Principal) -> Result<u64, StoreError>;

    /// Checks that commits succeed. Answers at once if the last commit did; otherwise tries a write.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Checks all stored data for damage.
    async fn check(&self) -> Result<StoreCheckResult, StoreError>;

    /// Size of the store, and its unfinished work.
    async fn status(&self) -> Result<StoreStatus, StoreError>;

    /// Rewrites the store, so that no deleted data is left in its files.
    async fn compact(&self) -> Result<(), StoreError>;

    /// Number of commits that wait to be written.
    fn queued(&self) -> usize {
        0
    }
}
