//! What is kept. One trait an aggregate for reading; one way to write: a list of changes that are
//! on disk, all or none, when `commit` returns.

use std::fmt;

use async_trait::async_trait;
use nuncio_core::approval::Approval;
use nuncio_core::audit::{AuditRecord, ChainHead, ChainLink};
use nuncio_core::digest::Digest;
use nuncio_core::drafting::ProtocolDraft;
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

use super::peers::{Letter, LetterAnswer, Link as PersonLink, OwedAnswer, Peers};
use crate::directory::{Entry, EntryId};
use crate::follow::{Domain, Followed};

pub mod consent;
mod forgotten;
mod keys;
mod place;
pub mod relay;

pub use consent::{Accounts, ConsentChange, Mailboxes, People, Relations};
pub use forgotten::{ErasedEntry, Forgotten, RedactedLink};
pub use keys::{ApiKey, KeyKind, KeyRole, KeyTerm, PreviousSecret};
pub use place::{ExecutionPlace, MessagePlace, Place, StartedCall};
pub use relay::{RelayChange, Relayed, SealKeys, Webhooks};

/// Why the store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A change's condition does not hold; none of the changes was made.
    #[error("{0}")]
    Conflict(Conflict),
    /// It cannot be read or written now.
    #[error("the store cannot be used: {0}")]
    Unavailable(String),
    /// What is kept cannot be read back.
    #[error("the store holds something this version cannot read: {0}")]
    Damaged(String),
}

/// What a search for damage found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StoreCheck {
    /// Whether everything was looked at; a quick check of a large store ends early.
    pub complete: bool,
    /// What is damaged; empty if nothing is.
    pub problems: Vec<String>,
}

/// The condition that did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The session is gone.
    #[error("the session does not exist")]
    NoSession,
    /// The session has a turn running, or has had another turn since it was read.
    #[error("the session is busy with another turn")]
    TurnRunning,
    /// The turn is not running.
    #[error("the turn is not running")]
    TurnOver,
    /// Something of that id exists.
    #[error("it exists already")]
    Exists,
    /// The approval has moved on since it was read.
    #[error("the approval was decided meanwhile")]
    ApprovalMoved,
    /// A grant for one call was used by another.
    #[error("the grant was used meanwhile")]
    GrantUsed,
    /// There is nothing of that id.
    #[error("it does not exist")]
    Missing,
    /// The execution is over, somebody else's, or at another attempt.
    #[error("the execution is over or run by another process")]
    LeaseLost,
    /// The draft has moved on since it was read.
    #[error("the draft was decided meanwhile")]
    DraftMoved,
    /// The task has moved on since it was read.
    #[error("the task was changed meanwhile")]
    TaskMoved,
    /// It is not what it was when it was read.
    #[error("it was changed meanwhile")]
    Moved,
}

/// One change. A commit takes several and makes all or none.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A new conversation with its first messages, numbered from zero. `Exists` if the id is taken.
    CreateSession {
        /// The session; its `next_message` counts `messages`.
        session: Session,
        /// The history it begins with.
        messages: Vec<Message>,
    },
    /// The conversation, its history, turns and remembered requests are gone. `NoSession`.
    DeleteSession(SessionId),
    /// A turn begins: `NoSession` if there is no session, `TurnRunning` unless it has had
    /// exactly `number - 1` turns and none runs.
    BeginTurn {
        /// The conversation.
        session: SessionId,
        /// The turn's number.
        number: u64,
        /// How its client wants it.
        mode: StreamMode,
        /// The protocol it is begun by.
        protocol: Protocol,
        /// When.
        at: Timestamp,
        /// The settings from now on, where they change.
        settings: Option<SessionSettings>,
    },
    /// A message is added to the history. `NoSession` if there is no session, `Exists` if the
    /// number is taken. The session's `next_message` becomes at least `number + 1`.
    AppendMessage {
        /// The conversation.
        session: SessionId,
        /// The turn it belongs to.
        turn: u64,
        /// Its place; places may be filled out of order.
        number: u64,
        /// The message.
        message: Message,
    },
    /// The calls the client owes answers for are these, replacing those before. `NoSession`.
    SetPending {
        /// The conversation.
        session: SessionId,
        /// The calls.
        pending: Vec<PendingCall>,
    },
    /// A summary stands for the oldest messages from now on, replacing the one before. `NoSession`.
    SetSummary {
        /// The conversation.
        session: SessionId,
        /// The summary.
        summary: HistorySummary,
    },
    /// A turn ends. `NoSession`, `TurnOver`.
    EndTurn {
        /// The conversation.
        session: SessionId,
        /// The turn's number.
        number: u64,
        /// When.
        at: Timestamp,
        /// How.
        stop: Stop,
        /// The stored form of its event log.
        events: Vec<u8>,
    },
    /// The answer to a request with an idempotency key. `NoSession`; `Exists` if the owner has used
    /// the key with that request before.
    Remember(Remembered),
    /// A call begins to run; kept until it ends, so that a crash leaves a trace. `Exists`.
    StartCall {
        /// A number of the call's own, unlike its id unique on this server.
        key: String,
        /// Its record as far as it is known.
        record: AuditRecord,
        /// Where its result belongs in a history.
        place: Option<Place>,
    },
    /// A call has ended; nothing happens if it was never started.
    FinishCall(String),
    /// A record goes to the end of the audit chain.
    Audit(AuditRecord),
    /// A person is erased.
    ForgetPerson(Box<Forgotten>),
    /// At most `limit` of the oldest audit links are deleted, none behind `through`.
    PruneAudit {
        /// The last link that may go.
        through: u64,
        /// How many at most.
        limit: usize,
    },
    /// Of these conversations, those without a turn since `before` are deleted.
    PruneSessions {
        /// Which.
        ids: Vec<SessionId>,
        /// Since when they must have been idle.
        before: Timestamp,
    },
    /// A new API key. `Exists`.
    CreateKey(ApiKey),
    /// A key is taken back. `Missing` if it is not there or already taken back.
    RevokeKey {
        /// Which.
        id: KeyId,
        /// When.
        at: Timestamp,
    },
    /// A key gets the secret, the expiry and the previous secret that `key` has; nothing else of it changes. `Moved` if
    /// it is not there, was taken back, or its secret is not `replaced`.
    RotateKey {
        /// The key as it is from then on.
        key: ApiKey,
        /// The digest of the secret it had when it was read.
        replaced: Digest,
    },
    /// A new grant. `Exists`.
    CreateGrant(Grant),
    /// A grant is taken back. `Missing`.
    RevokeGrant(GrantId),
    /// A grant for one call is used up. `GrantUsed` if it is no longer there.
    UseGrant(GrantId),
    /// A new approval. `Exists`.
    CreateApproval(Approval),
    /// An approval moves on: `Missing`, or `ApprovalMoved` unless its stored state is still
    /// the word given.
    MoveApproval {
        /// The approval as it is to be.
        approval: Approval,
        /// The word of the state it had.
        from: &'static str,
    },
    /// An execution is accepted, and may have begun in the same moment. `Exists` if the id is taken, or
    /// the caller has used the key for that skill before.
    CreateExecution {
        /// The execution.
        execution: Box<Execution>,
        /// Who will run it.
        lease: ExecutionLease,
        /// The key that makes a repeated request the same execution, and the digest of its body.
        idempotency: Option<(String, Digest)>,
        /// What let the call in that it has begun with.
        call: Option<CallAuthorization>,
    },
    /// Another process takes over an execution: `LeaseLost` unless it is unfinished, at that attempt
    /// and last held by `from`.
    ClaimExecution {
        /// Which.
        id: ExecutionId,
        /// How often it was begun.
        attempt: u32,
        /// Who held it.
        from: String,
        /// Who holds it from now on.
        lease: ExecutionLease,
    },
    /// An attempt begins: `LeaseLost` unless `owner` holds the execution, unfinished, at the attempt
    /// before.
    StartExecution {
        /// Which.
        id: ExecutionId,
        /// Who.
        owner: String,
        /// The attempt that begins, from one.
        attempt: u32,
        /// When.
        at: Timestamp,
        /// What let the call in that begins with it: a crash leaves a trace of it, as of
        /// [`Change::StartCall`].
        call: Option<CallAuthorization>,
    },
    /// The program of an attempt has started. Nothing happens unless `owner` holds the execution at that
    /// attempt and its call runs.
    MarkStarted {
        /// Which.
        id: ExecutionId,
        /// Who.
        owner: String,
        /// The attempt.
        attempt: u32,
    },
    /// The call of an attempt has ended, and the execution has not.
    FinishAttempt {
        /// Which.
        id: ExecutionId,
        /// Whether its program had started: only then it counts towards the limit of attempts.
        started: bool,
    },
    /// It is over: `LeaseLost` unless `owner` holds it, unfinished, at that attempt.
    EndExecution {
        /// Which.
        id: ExecutionId,
        /// Who.
        owner: String,
        /// At which attempt.
        attempt: u32,
        /// How.
        state: ExecutionState,
        /// When.
        at: Timestamp,
        /// Until when it is kept.
        kept_until: Timestamp,
    },
    /// Everything unfinished that is held by `lease.owner` is held until `lease.until`.
    RenewLeases(ExecutionLease),
    /// At most `limit` executions that were kept long enough are forgotten, with their keys.
    ForgetExecutions {
        /// Now.
        at: Timestamp,
        /// How many at most.
        limit: usize,
    },
    /// The caller of an execution is to be told, at that time. `Missing` when there is no such execution.
    PutCallback(Callback),
    /// The caller of an execution need not be told any more; no fault when nobody was to be.
    RemoveCallback(ExecutionId),
    /// Work for a person. `Exists`.
    CreateTask(Box<Task>),
    /// A task moves on: `Missing`, or `TaskMoved` unless it is stored as `from`.
    MoveTask {
        /// The task as it was read.
        from: Box<Task>,
        /// The task as it is to be.
        to: Box<Task>,
    },
    /// A protocol was made up. `Exists` if the id is taken, or the caller has used the key with that agent
    /// before.
    CreateDraft(Box<ProtocolDraft>),
    /// A draft moves on: `Missing`, or `DraftMoved` unless its stored state is still the word given.
    MoveDraft {
        /// The draft as it is to be.
        draft: Box<ProtocolDraft>,
        /// The word of the state it had.
        from: &'static str,
    },
    /// Drafts that were not accepted by both and ran out before then are forgotten.
    ForgetDrafts(Timestamp),
    /// An answer is owed, or owed at another time. `NoSession`.
    OweAnswer(OwedAnswer),
    /// An answer is owed no more; no fault when it was not.
    SettleAnswer(String),
    /// A message was sent. `Exists`.
    CreateLetter(Letter),
    /// The answer to a message came: `Missing` unless that agent sent it to `from`. A second one changes
    /// nothing.
    AnswerLetter {
        /// Who sent the message.
        agent: AgentName,
        /// The message.
        id: String,
        /// Who answers.
        from: String,
        /// What they say.
        answer: LetterAnswer,
    },
    /// Messages sent before then are forgotten, with their answers.
    ForgetLetters(Timestamp),
    /// Someone belongs to a person from now on, and to no other.
    LinkPerson(PersonLink),
    /// Someone belongs to nobody from now on. `Missing`.
    UnlinkPerson(Principal),
    /// A domain is followed. `Exists`.
    Follow(Followed),
    /// A followed domain is as given from now on. `Missing`.
    UpdateFollowed {
        /// The domain and how its last visit went.
        followed: Followed,
        /// What it offers; as before when it is none.
        offers: Option<String>,
    },
    /// A domain is followed no more, and what it offered is forgotten. `Missing`.
    Unfollow(Domain),
    /// An agent of another host is listed, or listed as it is now.
    PutEntry {
        /// The entry.
        entry: Entry,
        /// What is kept of its description.
        description: String,
    },
    /// A listed agent was looked at; what is kept of its description stays. `Missing`.
    UpdateEntry(Entry),
    /// A listed agent is listed no more. `Missing`.
    RemoveEntry(EntryId),
    /// People, their devices, agents' accounts, and what is allowed between them.
    Consent(Box<ConsentChange>),
    /// Conversations whose words nobody here can read, and the keys they are sealed with.
    Relay(Box<RelayChange>),
}

/// A request that was answered, and what it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Who sent it.
    pub owner: Principal,
    /// What kind of request it was, and of what: `sessions`, or `turns/SESSION`.
    pub request: String,
    /// The key it carried.
    pub key: String,
    /// The digest of its body.
    pub body: Digest,
    /// The session it made or belongs to; it is forgotten with it.
    pub session: SessionId,
    /// The turn it made.
    pub turn: Option<u64>,
}

/// Someone who wants to be told that an execution is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The execution.
    pub execution: ExecutionId,
    /// When to tell them.
    pub due: Timestamp,
    /// How often that was tried.
    pub attempts: u32,
}

/// A message in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    /// Its number in the session.
    pub number: u64,
    /// The turn it belongs to; zero for what the session began with.
    pub turn: u64,
    /// The message.
    pub message: Message,
}

/// A place in the list of a principal's sessions, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCursor {
    /// When the last one seen was created.
    pub created_at: Timestamp,
    /// Its id.
    pub id: SessionId,
}

/// Conversations and their turns.
#[async_trait]
pub trait Conversations {
    /// A session.
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;
    /// A principal's sessions, newest first, those behind the cursor, at most `limit`.
    async fn sessions(
        &self,
        owner: &Principal,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError>;
    /// A session's messages in order, those numbered `from` and above.
    async fn messages(&self, session: &SessionId, from: u64) -> Result<Vec<StoredMessage>, StoreError>;
    /// A turn.
    async fn turn(&self, session: &SessionId, number: u64) -> Result<Option<Turn>, StoreError>;
    /// The stored event log of a turn that is over.
    async fn turn_events(&self, session: &SessionId, number: u64) -> Result<Option<Vec<u8>>, StoreError>;
    /// Conversations that began before then and have had no turn since, at most `limit`.
    async fn idle_sessions(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError>;
    /// Every turn that has not ended.
    async fn running_turns(&self) -> Result<Vec<Turn>, StoreError>;
    /// What a principal's request with that idempotency key made.
    async fn remembered(&self, owner: &Principal, request: &str, key: &str) -> Result<Option<Remembered>, StoreError>;
}

/// Keys, grants and approvals.
#[async_trait]
pub trait Access {
    /// Every key, revoked ones too, oldest first.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;
    /// Every grant, oldest first.
    async fn grants(&self) -> Result<Vec<Grant>, StoreError>;
    /// An approval.
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError>;
    /// Every approval that is waiting, oldest first.
    async fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError>;
}

/// The audit chain, and the calls on their way into it.
#[async_trait]
pub trait Records {
    /// The links after `seq`, at most `limit`.
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<ChainLink>, StoreError>;
    /// The links whose record is of that call, oldest first, at most `limit`.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<ChainLink>, StoreError>;
    /// Where the chain has got to.
    async fn audit_head(&self) -> Result<ChainHead, StoreError>;
    /// The number of the last link that this store has put on disk, as it grows; zero before the first.
    fn audit_growth(&self) -> watch::Receiver<u64>;
    /// The entries of the ledgers of people who were forgotten, of one or of all, in order.
    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<ErasedEntry>, StoreError>;
    /// The calls that were started and have not ended.
    async fn started_calls(&self) -> Result<Vec<StartedCall>, StoreError>;
}

/// Executions, and the work of people.
#[async_trait]
pub trait Executions {
    /// An execution.
    async fn execution(&self, id: &ExecutionId) -> Result<Option<Execution>, StoreError>;
    /// What a caller's request for a skill with that idempotency key made, and the digest of its body.
    async fn execution_by_key(
        &self,
        caller: &Principal,
        skill: &SkillId,
        key: &str,
    ) -> Result<Option<(ExecutionId, Digest)>, StoreError>;
    /// Every execution that is not over, oldest first, and who holds it.
    async fn unfinished_executions(&self) -> Result<Vec<(Execution, ExecutionLease)>, StoreError>;
    /// Every execution with a call that has begun and not ended, oldest first, and what let that in.
    async fn begun_calls(&self) -> Result<Vec<(Execution, CallAuthorization)>, StoreError>;
    /// Whether there is an execution that was kept long enough at that time.
    async fn is_any_execution_to_forget(&self, at: Timestamp) -> Result<bool, StoreError>;
    /// Those to be told until then, the first first, at most `limit`.
    async fn callbacks(&self, until: Timestamp, limit: usize) -> Result<Vec<Callback>, StoreError>;
    /// A task.
    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError>;
    /// Every task that is not over, oldest first, at most `limit`.
    async fn open_tasks(&self, limit: usize) -> Result<Vec<Task>, StoreError>;
}

/// Domains that are followed.
#[async_trait]
pub trait Following {
    /// Every one, by name.
    async fn followed(&self) -> Result<Vec<Followed>, StoreError>;
    /// One, with what it offers as it was kept.
    async fn followed_domain(&self, domain: &Domain) -> Result<Option<(Followed, Option<String>)>, StoreError>;
}

/// Agents of other hosts that are listed.
#[async_trait]
pub trait Listings {
    /// Every entry with what is kept of its description, by id.
    async fn directory(&self) -> Result<Vec<(Entry, String)>, StoreError>;
}

/// Everything that is kept.
#[async_trait]
pub trait Store:
    Conversations
    + Access
    + Records
    + Executions
    + Following
    + Peers
    + Listings
    + People
    + Accounts
    + Relations
    + Mailboxes
    + Relayed
    + SealKeys
    + Webhooks
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Makes the changes, in order, all or none; on disk when it returns.
    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError>;

    /// How many bytes a caller has stored: conversations, executions, sealed messages and manifests. What `local` and
    /// the operator store is not counted.
    async fn bytes_stored(&self, owner: &Principal) -> Result<u64, StoreError>;

    /// Whether commits succeed. While the last one did, this answers at once; otherwise it tries a write.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Looks for damage in everything that is kept.
    async fn check(&self) -> Result<StoreCheck, StoreError>;

    /// Writes the store anew, so that nothing that was deleted is left in its files.
    async fn compact(&self) -> Result<(), StoreError>;

    /// How many commits wait for their turn.
    fn queued(&self) -> usize {
        0
    }
}
