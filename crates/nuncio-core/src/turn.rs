//! One exchange: what came in, how it is going, how it ended.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::ids::{CallId, SessionId};
use crate::message::{Content, Extra, Message};
use crate::policy::Protocol;
use crate::time::Timestamp;

/// What a client sends to start a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnInput {
    /// Something new from the user.
    User(Message),
    /// Answers to the calls that are waiting.
    Answers(Vec<CallAnswer>),
}

/// A client's answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallAnswer {
    /// What its own tool came to.
    Result {
        /// The call.
        call: CallId,
        /// The result.
        content: Content,
        /// Unknown fields of the message, kept.
        extra: Extra,
    },
    /// Whether the agent's tool may run.
    Permission {
        /// The call.
        call: CallId,
        /// Yes or no.
        granted: bool,
        /// Why not.
        reason: Option<String>,
    },
}

impl CallAnswer {
    /// The call it answers.
    #[must_use]
    pub fn call(&self) -> &CallId {
        match self {
            Self::Result { call, .. } | Self::Permission { call, .. } => call,
        }
    }
}

/// How a client wants to receive a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum StreamMode {
    /// Piece by piece.
    Delta,
    /// Block by block.
    Message,
    /// All at once.
    #[default]
    None,
}

impl StreamMode {
    /// Reads its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "delta" => Some(Self::Delta),
            "message" => Some(Self::Message),
            "none" => Some(Self::None),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Message => "message",
            Self::None => "none",
        }
    }
}

/// Why a turn stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent has said what it had to say, or was cancelled.
    EndTurn,
    /// The client must act.
    ToolUse,
    /// The model's limit was reached.
    MaxTokens,
    /// The model or a guardrail refused.
    Refusal,
    /// Something failed.
    Error,
}

impl StopReason {
    /// Reads its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "end_turn" => Some(Self::EndTurn),
            "tool_use" => Some(Self::ToolUse),
            "max_tokens" => Some(Self::MaxTokens),
            "refusal" => Some(Self::Refusal),
            "error" => Some(Self::Error),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
            Self::Error => "error",
        }
    }
}

/// How a turn ended. The serialised form is what streams say at their end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// Why.
    pub stop_reason: StopReason,
    /// The turn's id.
    pub turn_id: String,
    /// Whether someone stopped it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub cancelled: bool,
    /// What the model counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// What failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<TurnError>,
}

/// What a model counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
    }
}

/// What failed in a turn, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnError {
    /// Its code.
    pub code: Code,
    /// What was wrong and what to do.
    pub message: String,
}

/// A turn as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Its conversation.
    pub session: SessionId,
    /// Its number there, from one.
    pub number: u64,
    /// How its client asked to receive it.
    pub mode: StreamMode,
    /// The protocol it was begun by.
    pub protocol: Protocol,
    /// Since when.
    pub started_at: Timestamp,
    /// How far it is.
    pub state: TurnState,
}

/// The life of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnState {
    /// Going on.
    Running,
    /// Over.
    Stopped {
        /// When.
        at: Timestamp,
        /// How.
        stop: Stop,
    },
}

/// A turn's public id: its session and its number.
#[must_use]
pub fn turn_id(session: &SessionId, number: u64) -> String {
    format!("{session}.{number}")
}
