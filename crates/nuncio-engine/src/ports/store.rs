//! The store port. Reading is one trait per subject; writing is one list of changes that are stored, all or none, when
//! `commit` returns.

use std::fmt;

use async_trait::async_trait;
use nuncio_core::approval::Approval;
use nuncio_core::audit::{AuditRecord, ChainHead, ChainLink};
use nuncio_core::digest::Digest;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionLease, ExecutionState};
use nuncio_core::grant::Grant;
use nuncio_core::ids::{
    AgentName, ApprovalId, CallId, ExecutionId, GrantId, KeyId, RelationId, SessionId, SkillId, TaskId,
};
use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::session::{HistorySummary, PendingCall, Session, SessionSettings};
use nuncio_core::task::Task;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{Stop, StreamMode, Turn};
use tokio::sync::watch;

use super::peers::{DirectMessageReply, PendingReply, PersonLink, RemoteAgentStore, SentDirectMessage};
use crate::directory::{DirectoryListing, ListingId};
use crate::drafting::ProtocolDraft;
use crate::follow::{Domain, FollowedDomain};

pub mod consent;
mod erasure;
mod keys;
pub mod relay;
mod result_target;

pub use consent::{AccountStore, ConsentChange, MailboxStore, PersonStore, RelationStore};
pub use erasure::{PersonErasure, RedactedAuditRecord, RedactedLedgerEntry};
pub use keys::{ApiKey, KeyKind, KeyRole, KeyTerm, PreviousSecret};
pub use relay::{KeyBundleStore, RelayChange, RelayStore, WebhookStore};
pub use result_target::{ExecutionAttempt, HistorySlot, ResultTarget, StartedCall};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A change's condition does not hold; no change was made.
    #[error("{0}")]
    Conflict(Conflict),
    /// The store cannot be read or written now.
    #[error("the store cannot be used: {0}")]
    Unavailable(String),
    /// Stored data cannot be read back.
    #[error("the store holds something this version cannot read: {0}")]
    Damaged(String),
}

/// Result of a damage check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StoreCheck {
    /// False if a quick check of a large store stopped early.
    pub complete: bool,
    /// Empty if nothing is damaged.
    pub problems: Vec<String>,
}

/// The condition that a change required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("the session does not exist")]
    NoSession,
    /// The session has a running turn, or another turn than when it was read.
    #[error("the session is busy with another turn")]
    TurnRunning,
    #[error("the turn is not running")]
    TurnOver,
    #[error("it exists already")]
    Exists,
    #[error("the approval was decided meanwhile")]
    ApprovalMoved,
    #[error("the grant was used meanwhile")]
    GrantUsed,
    #[error("it does not exist")]
    Missing,
    /// The execution is over, owned by another process, or at another attempt.
    #[error("the execution is over or run by another process")]
    LeaseLost,
    #[error("the draft was decided meanwhile")]
    DraftMoved,
    #[error("the task was changed meanwhile")]
    TaskMoved,
    /// The object changed since it was read.
    #[error("it was changed meanwhile")]
    Moved,
}

/// One change; names in backticks are the [`Conflict`] it can cause.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Creates a session with its first messages, numbered from zero. `Exists`.
    CreateSession {
        /// Its `next_message` counts `messages`.
        session: Session,
        messages: Vec<Message>,
    },
    /// Deletes a session with history, turns and idempotency records. `NoSession`.
    DeleteSession(SessionId),
    /// Begins a turn. `NoSession`; `TurnRunning` unless the session had exactly `number - 1` turns and none runs.
    BeginTurn {
        session: SessionId,
        number: u64,
        mode: StreamMode,
        protocol: Protocol,
        at: Timestamp,
        /// New settings, if they change.
        settings: Option<SessionSettings>,
    },
    /// Adds a message. `NoSession`; `Exists` if the number is taken. The session's `next_message` becomes at least
    /// `number + 1`.
    AppendMessage {
        session: SessionId,
        turn: u64,
        /// Position in the history; positions may be filled out of order.
        number: u64,
        message: Message,
    },
    /// Replaces the calls that wait for the client's answer. `NoSession`.
    SetPending {
        session: SessionId,
        pending: Vec<PendingCall>,
    },
    /// Replaces the summary of the oldest messages. `NoSession`.
    SetSummary {
        session: SessionId,
        summary: HistorySummary,
    },
    /// Ends a turn. `NoSession`, `TurnOver`.
    EndTurn {
        session: SessionId,
        number: u64,
        at: Timestamp,
        stop: Stop,
        /// Encoded event log.
        events: Vec<u8>,
    },
    /// Stores the result of a request with an idempotency key. `NoSession`; `Exists` if the owner used the key with
    /// that request before.
    Remember(IdempotencyRecord),
    /// Stores a running call until it ends, so that it is found after a crash. `Exists`.
    StartCall {
        /// Key of the call, unique on this server, unlike its id.
        key: String,
        /// Audit record as far as known.
        record: AuditRecord,
        place: Option<ResultTarget>,
    },
    /// Removes a started call; no conflict if there is none.
    FinishCall(String),
    /// Appends a record to the audit chain.
    Audit(AuditRecord),
    /// Erases a person.
    ForgetPerson(Box<PersonErasure>),
    /// Deletes at most `limit` of the oldest audit records, none after `through`.
    PruneAudit {
        through: u64,
        limit: usize,
    },
    /// Deletes those of these sessions that had no turn since `before`.
    PruneSessions {
        ids: Vec<SessionId>,
        before: Timestamp,
    },
    CreateKey(ApiKey),
    /// Revokes a key. `Missing` if there is none or it is revoked.
    RevokeKey {
        id: KeyId,
        at: Timestamp,
    },
    /// Replaces secret, expiry and previous secret of a key by those of `key`. `Moved` if there is none, it is revoked,
    /// or its secret is not `replaced`.
    RotateKey {
        key: ApiKey,
        /// Digest of the secret it had when it was read.
        replaced: Digest,
    },
    CreateGrant(Grant),
    /// Revokes a grant. `Missing`.
    RevokeGrant(GrantId),
    /// Uses up a one-time grant. `GrantUsed` if it is gone.
    UseGrant(GrantId),
    CreateApproval(Approval),
    /// Updates an approval. `Missing`; `ApprovalMoved` unless its stored state is `from`.
    MoveApproval {
        approval: Approval,
        /// Name of the expected state.
        from: &'static str,
    },
    /// Stores an accepted execution, which may have begun already. `Exists` if the id is taken or the caller used the
    /// key for that skill before.
    CreateExecution {
        execution: Box<Execution>,
        /// Process that runs it.
        lease: ExecutionLease,
        /// Idempotency key and digest of the request body.
        idempotency: Option<(String, Digest)>,
        /// Authorisation of the call it began with.
        call: Option<CallAuthorization>,
    },
    /// Transfers an execution to another process. `LeaseLost` unless it is unfinished, at that attempt and held by
    /// `from`.
    ClaimExecution {
        id: ExecutionId,
        attempt: u32,
        from: String,
        lease: ExecutionLease,
    },
    /// Begins an attempt. `LeaseLost` unless `owner` holds the execution, unfinished, at the attempt before.
    StartExecution {
        id: ExecutionId,
        owner: String,
        /// Counts from one.
        attempt: u32,
        at: Timestamp,
        /// Authorisation of the call, stored like [`Change::StartCall`] so that it is found after a crash.
        call: Option<CallAuthorization>,
    },
    /// Marks that the program of an attempt started. Ignored unless `owner` holds the execution at that attempt with a
    /// running call.
    MarkStarted {
        id: ExecutionId,
        owner: String,
        attempt: u32,
    },
    /// Ends the call of an attempt but not the execution. `LeaseLost` unless `owner` holds the execution, unfinished, at
    /// that attempt.
    FinishAttempt {
        id: ExecutionId,
        owner: String,
        attempt: u32,
        /// Whether the program had started; only then the attempt counts towards the limit.
        started: bool,
    },
    /// Ends an execution. `LeaseLost` unless `owner` holds it, unfinished, at that attempt.
    EndExecution {
        id: ExecutionId,
        owner: String,
        attempt: u32,
        state: ExecutionState,
        at: Timestamp,
        kept_until: Timestamp,
    },
    /// Extends all unfinished executions of `lease.owner` to `lease.until`.
    RenewLeases(ExecutionLease),
    /// Deletes at most `limit` executions whose retention ended, with their keys.
    ForgetExecutions {
        at: Timestamp,
        limit: usize,
    },
    /// Schedules a callback. `Missing` if there is no such execution.
    PutCallback(ExecutionCallback),
    /// Removes a callback; no conflict if there is none.
    RemoveCallback(ExecutionId),
    /// Creates a human task. `Exists`.
    CreateTask(Box<Task>),
    /// Updates a task. `Missing`; `TaskMoved` unless it is stored as `from`.
    MoveTask {
        from: Box<Task>,
        to: Box<Task>,
    },
    /// Stores a drafted protocol. `Exists` if the id is taken or the caller used the key with that agent before.
    CreateDraft(Box<ProtocolDraft>),
    /// Updates a draft. `Missing`; `DraftMoved` unless its stored state is `from`.
    MoveDraft {
        draft: Box<ProtocolDraft>,
        /// Name of the expected state.
        from: &'static str,
    },
    /// Deletes drafts that expired before then without both sides' acceptance.
    ForgetDrafts(Timestamp),
    /// Creates or reschedules a pending reply. `NoSession`.
    PutPendingReply(PendingReply),
    /// Removes a pending reply; no conflict if there is none.
    RemovePendingReply(String),
    /// Stores a sent direct message. `Exists`.
    CreateDirectMessage(SentDirectMessage),
    /// Stores the reply to a direct message. `Missing` unless that agent sent it to `from`. A second reply is ignored.
    AnswerDirectMessage {
        agent: AgentName,
        id: String,
        from: String,
        answer: DirectMessageReply,
    },
    /// Deletes direct messages sent before then, with their replies.
    ForgetDirectMessages(Timestamp),
    /// Links a principal to a person, replacing an earlier link.
    LinkPerson(PersonLink),
    /// Removes the person link of a principal. `Missing`.
    UnlinkPerson(Principal),
    /// Follows a domain. `Exists`.
    Follow(FollowedDomain),
    /// Updates a followed domain. `Missing`.
    UpdateFollowed {
        followed: FollowedDomain,
        /// `None` leaves the stored offers as they are.
        offers: Option<String>,
    },
    /// Stops following a domain and deletes its offers. `Missing`.
    Unfollow(Domain),
    /// Creates or replaces a directory listing.
    PutListing {
        entry: DirectoryListing,
        /// Stored description.
        description: String,
    },
    /// Updates a listing but not its description. `Missing`.
    UpdateListing(DirectoryListing),
    /// Removes a listing. `Missing`.
    RemoveListing(ListingId),
    Consent(Box<ConsentChange>),
    Relay(Box<RelayChange>),
}

/// Result of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    pub owner: Principal,
    /// Kind and object of the request: `sessions`, or `turns/SESSION`.
    pub request: String,
    pub key: String,
    pub body: Digest,
    /// Session it created or belongs to; the record is deleted with it.
    pub session: SessionId,
    pub turn: Option<u64>,
}

/// A pending callback for the end of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionCallback {
    pub execution: ExecutionId,
    pub due: Timestamp,
    /// Delivery attempts so far.
    pub attempts: u32,
}

/// A message with its position in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    pub number: u64,
    /// Zero for messages that the session began with.
    pub turn: u64,
    pub message: Message,
}

/// Cursor in a principal's list of sessions, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCursor {
    /// Creation time of the last listed session.
    pub created_at: Timestamp,
    pub id: SessionId,
}

#[async_trait]
pub trait SessionStore {
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;
    /// Sessions of a principal, newest first, after the cursor.
    async fn sessions(
        &self,
        owner: &Principal,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError>;
    /// Messages numbered `from` and above, in order.
    async fn messages(&self, session: &SessionId, from: u64) -> Result<Vec<StoredMessage>, StoreError>;
    async fn turn(&self, session: &SessionId, number: u64) -> Result<Option<Turn>, StoreError>;
    /// Encoded event log of a finished turn.
    async fn turn_events(&self, session: &SessionId, number: u64) -> Result<Option<Vec<u8>>, StoreError>;
    /// Sessions created before then without a turn since.
    async fn idle_sessions(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError>;
    async fn running_turns(&self) -> Result<Vec<Turn>, StoreError>;
    async fn idempotency_record(
        &self,
        owner: &Principal,
        request: &str,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError>;
}

#[async_trait]
pub trait AccessStore {
    /// Includes revoked keys; oldest first.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;
    /// Oldest first.
    async fn grants(&self) -> Result<Vec<Grant>, StoreError>;
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError>;
    /// Oldest first.
    async fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError>;
}

#[async_trait]
pub trait AuditStore {
    /// Audit records after `after`.
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<ChainLink>, StoreError>;
    /// Audit records of a call, oldest first.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<ChainLink>, StoreError>;
    /// Number and hash of the last audit record.
    async fn audit_head(&self) -> Result<ChainHead, StoreError>;
    /// Number of the last stored audit record, as it grows; zero before the first.
    fn audit_growth(&self) -> watch::Receiver<u64>;
    /// Redacted ledger entries of erased people, of one relation or all, in order.
    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<RedactedLedgerEntry>, StoreError>;
    async fn started_calls(&self) -> Result<Vec<StartedCall>, StoreError>;
}

#[async_trait]
pub trait ExecutionStore {
    async fn execution(&self, id: &ExecutionId) -> Result<Option<Execution>, StoreError>;
    /// Execution of a caller's request with that idempotency key, and the digest of its body.
    async fn execution_by_key(
        &self,
        caller: &Principal,
        skill: &SkillId,
        key: &str,
    ) -> Result<Option<(ExecutionId, Digest)>, StoreError>;
    /// Unfinished executions with their leases, oldest first.
    async fn unfinished_executions(&self) -> Result<Vec<(Execution, ExecutionLease)>, StoreError>;
    /// Executions whose call began and did not end, oldest first, with their leases and the call's authorisation.
    async fn begun_calls(&self) -> Result<Vec<(Execution, ExecutionLease, CallAuthorization)>, StoreError>;
    /// Whether the retention of any execution ended by then.
    async fn is_any_execution_to_forget(&self, at: Timestamp) -> Result<bool, StoreError>;
    /// Callbacks due until then, earliest first.
    async fn callbacks(&self, until: Timestamp, limit: usize) -> Result<Vec<ExecutionCallback>, StoreError>;
    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError>;
    /// Unfinished tasks, oldest first.
    async fn open_tasks(&self, limit: usize) -> Result<Vec<Task>, StoreError>;
}

#[async_trait]
pub trait FollowedDomainStore {
    async fn followed(&self) -> Result<Vec<FollowedDomain>, StoreError>;
    /// A followed domain with its stored offers.
    async fn followed_domain(&self, domain: &Domain) -> Result<Option<(FollowedDomain, Option<String>)>, StoreError>;
}

#[async_trait]
pub trait DirectoryStore {
    /// Listings with their stored descriptions, by id.
    async fn directory(&self) -> Result<Vec<(DirectoryListing, String)>, StoreError>;
}

#[async_trait]
pub trait Store:
    SessionStore
    + AccessStore
    + AuditStore
    + ExecutionStore
    + FollowedDomainStore
    + RemoteAgentStore
    + DirectoryStore
    + PersonStore
    + AccountStore
    + RelationStore
    + MailboxStore
    + RelayStore
    + KeyBundleStore
    + WebhookStore
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Applies the changes in order, all or none; they are on disk when this returns.
    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError>;

    /// Bytes stored by a caller: sessions, executions, sealed messages and manifests. Data of `local` and the operator
    /// is not counted.
    async fn bytes_stored(&self, owner: &Principal) -> Result<u64, StoreError>;

    /// Checks that commits succeed. Answers at once if the last one did; otherwise tries a write.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Checks all data for damage.
    async fn check(&self) -> Result<StoreCheck, StoreError>;

    /// Rewrites the store, so that no deleted data is left in its files.
    async fn compact(&self) -> Result<(), StoreError>;

    /// Number of waiting commits.
    fn queued(&self) -> usize {
        0
    }
}
