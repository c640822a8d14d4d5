//! Store of started calls, and where their results are stored.

use async_trait::async_trait;
use nuncio_core::audit::AuditRecord;
use nuncio_core::execution::{CallAuthorization, Execution};
use nuncio_core::ids::{CallId, ExecutionId, Incarnation, SessionId};
use nuncio_core::message::{Content, Message};
use nuncio_core::turn::Turn;

use super::{StoreError, StoredMessage};

#[derive(Debug, Clone, PartialEq)]
pub enum CallChange {
    /// Stores a running call until it ends, so that it is found after a crash. `Exists` if its key is taken.
    Start(Box<StartedCall>),
    /// Removes the started call with this key. `Missing` if there is none: another node closed the call.
    Finish(String),
}

/// Target in which the result of a call is stored.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum ResultTarget {
    Message(HistorySlot),
    Execution(ExecutionAttempt),
}

/// A reserved position in a session's history.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HistorySlot {
    pub session: SessionId,
    pub turn: u64,
    pub number: u64,
    pub call: CallId,
}

impl HistorySlot {
    /// The call result as the message at the reserved position.
    pub(crate) fn result(&self, content: Content) -> StoredMessage {
        StoredMessage { number: self.number, turn: self.turn, message: Message::tool(self.call.clone(), content) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExecutionAttempt {
    pub execution: ExecutionId,
    /// Number of the execution's attempt, counted from one.
    pub attempt: u32,
    /// Whether an unavailable backend leads to another attempt.
    pub may_retry: bool,
    /// How long the execution is kept after its end, in milliseconds.
    pub keep_ms: u64,
    /// Receiver of the callback that reports the end of the execution, if there is one.
    #[serde(default)]
    pub callback_receiver: Option<String>,
}

impl ResultTarget {
    #[must_use]
    pub fn message(&self) -> Option<&HistorySlot> {
        match self {
            Self::Message(place) => Some(place),
            Self::Execution(_) => None,
        }
    }
}

/// A call that started and did not end.
#[derive(Debug, Clone, PartialEq)]
pub struct StartedCall {
    /// Key of the call, unique on this server, unlike its id.
    pub key: String,
    /// Incarnation that runs the call.
    pub node: Incarnation,
    /// Audit record as far as known at the start.
    pub record: AuditRecord,
    pub target: Option<ResultTarget>,
}

impl StartedCall {
    #[must_use]
    pub fn belongs_to(&self, turn: &Turn) -> bool {
        self.record.session.as_ref() == Some(&turn.session) && self.record.turn == Some(turn.number)
    }
}

#[async_trait]
pub trait CallStore: Send + Sync {
    /// Calls that an incarnation started and that did not end, in the order in which they were requested.
    async fn started_calls(&self, node: &Incarnation) -> Result<Vec<StartedCall>, StoreError>;
    /// Executions of an incarnation whose call began and did not end, oldest first, with the call's authorisation.
    async fn begun_calls(&self, node: &Incarnation) -> Result<Vec<(Execution, CallAuthorization)>, StoreError>;
}
