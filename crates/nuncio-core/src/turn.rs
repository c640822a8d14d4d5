//! Turns: one request to an agent with its answer, from start to end.

use serde::{Deserialize, Serialize};

use crate::code::ErrorCode;
use crate::ids::{CallId, SessionId};
use crate::message::{Content, Message, UnknownMessageFields};
use crate::policy::Protocol;
use crate::string_enum;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub enum TurnInput {
    /// The turn begins with a new message of the user.
    User(Message),
    /// The turn begins with the client's answers to the pending calls.
    Answers(Vec<CallAnswer>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum CallAnswer {
    /// The client's answer: the result of its own tool.
    Result {
        call: CallId,
        content: Content,
        /// Unknown fields of the client's message, preserved.
        extra: UnknownMessageFields,
    },
    /// The client's answer: whether the agent's tool may run.
    Permission { call: CallId, granted: bool, reason: Option<String> },
}

impl CallAnswer {
    #[must_use]
    pub fn call(&self) -> &CallId {
        match self {
            Self::Result { call, .. } | Self::Permission { call, .. } => call,
        }
    }
}

string_enum! {
    #[derive(Default)]
    pub enum StreamMode {
        Delta = "delta",
        Message = "message",
        #[default]
        None = "none",
    }
}

string_enum! {
    pub enum StopReason {
        /// The turn ended because the agent finished, or because it was cancelled.
        EndTurn = "end_turn",
        /// The turn ended because the client must answer tool calls.
        ToolUse = "tool_use",
        /// The turn ended because the model's output limit was reached.
        MaxTokens = "max_tokens",
        /// The turn ended because the model or a guardrail refused.
        Refusal = "refusal",
        Error = "error",
    }
}

/// How a turn ended. The serialised form is sent at the end of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnOutcome {
    pub stop_reason: StopReason,
    pub turn_id: String,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub cancelled: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<TurnError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnError {
    pub code: ErrorCode,
    /// Text for people: the reason of the error and what to do.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub session: SessionId,
    /// Number of the turn in its session; starts at 1.
    pub number: u64,
    /// The stream mode that the client requested.
    pub mode: StreamMode,
    /// The protocol of the request that started the turn.
    pub protocol: Protocol,
    pub started_at: Timestamp,
    pub state: TurnState,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TurnState {
    Running,
    Stopped { at: Timestamp, stop: TurnOutcome },
}

/// A turn's public id, from its session and number.
#[must_use]
pub fn turn_id(session: &SessionId, number: u64) -> String {
    format!("{session}.{number}")
}
