//! Started calls, and where their results are stored.

use nuncio_core::audit::AuditRecord;
use nuncio_core::ids::{CallId, ExecutionId, SessionId};
use nuncio_core::turn::Turn;

/// Where the result of a call is stored.
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

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExecutionAttempt {
    pub execution: ExecutionId,
    /// Number of the attempt, from one.
    pub attempt: u32,
    /// Whether an unavailable backend leads to another attempt.
    pub may_retry: bool,
    /// How long the execution is kept after its end, in milliseconds.
    pub keep_ms: u64,
    /// Whether the end of the execution causes a callback.
    #[serde(default)]
    pub callback: bool,
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
    /// Key of the started call, unique on this server.
    pub key: String,
    /// Audit record as far as known at the start.
    pub record: AuditRecord,
    pub place: Option<ResultTarget>,
}

impl StartedCall {
    #[must_use]
    pub fn belongs_to(&self, turn: &Turn) -> bool {
        self.record.session.as_ref() == Some(&turn.session) && self.record.turn == Some(turn.number)
    }
}
