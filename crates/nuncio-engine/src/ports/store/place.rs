//! Calls that have begun, and where their results belong.

use nuncio_core::audit::AuditRecord;
use nuncio_core::ids::{CallId, ExecutionId, SessionId};
use nuncio_core::turn::Turn;

/// Where the result of a call belongs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// In a history.
    Message(MessagePlace),
    /// In an execution.
    Execution(ExecutionPlace),
}

/// A place in a history.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MessagePlace {
    /// The conversation.
    pub session: SessionId,
    /// The turn.
    pub turn: u64,
    /// The message's number.
    pub number: u64,
    /// The call answered.
    pub call: CallId,
}

/// An attempt at an execution.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExecutionPlace {
    /// The execution.
    pub execution: ExecutionId,
    /// The attempt, from one.
    pub attempt: u32,
    /// Whether another attempt follows when what it runs on cannot be reached.
    pub may_retry: bool,
    /// How long the execution is kept once it is over.
    pub keep_ms: u64,
    /// Whether its caller wants to be told.
    #[serde(default)]
    pub callback: bool,
}

impl Place {
    /// The place in a history, if it is one.
    #[must_use]
    pub fn message(&self) -> Option<&MessagePlace> {
        match self {
            Self::Message(place) => Some(place),
            Self::Execution(_) => None,
        }
    }
}

/// A call that was started and has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct StartedCall {
    /// Its own number.
    pub key: String,
    /// Its record as far as it was known.
    pub record: AuditRecord,
    /// Where its result belongs.
    pub place: Option<Place>,
}

impl StartedCall {
    /// Whether a turn made the call.
    #[must_use]
    pub fn belongs_to(&self, turn: &Turn) -> bool {
        self.record.session.as_ref() == Some(&turn.session) && self.record.turn == Some(turn.number)
    }
}
