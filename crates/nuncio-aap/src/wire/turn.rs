//! `POST /sessions/:id/turns`.

use std::collections::BTreeMap;

use nuncio_core::message::Message;
use nuncio_core::session::EnabledTool;
use nuncio_core::turn::{CallAnswer, StreamMode, TurnInput, TurnOutcome};
use serde::Serialize;
use serde_json::{Value, json};

use super::meta::ToolSpec;

/// Body of `POST /sessions/:id/turns`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TurnBody {
    /// One user message, or answers to all pending calls.
    pub messages: Vec<Value>,
    pub stream: StreamMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentOverride>,
    /// Tools that the client provides from this turn on; `None` keeps the previous list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
}

/// Changes of the agent's settings for the rest of the session.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AgentOverride {
    /// Complete new list of enabled tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<EnabledTool>>,
    /// Options to set; others keep their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl TurnBody {
    #[must_use]
    pub fn new(input: &TurnInput, stream: StreamMode) -> Self {
        let messages = match input {
            TurnInput::User(message) => vec![json!(message)],
            TurnInput::Answers(answers) => answers.iter().map(answer).collect(),
        };
        Self { messages, stream, ..Self::default() }
    }
}

/// Response of a turn without streaming: `PostSessionTurnResponse` plus the additional fields of Nuncio's `turn_stop`.
/// The client parses such responses member by member, because other servers deviate from this type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnResponse {
    #[serde(flatten)]
    pub stop: Option<TurnOutcome>,
    pub messages: Vec<Message>,
}

/// Builds a `ToolMessage` or `ToolPermissionMessage`.
fn answer(answer: &CallAnswer) -> Value {
    match answer {
        CallAnswer::Result { call, content, extra } => {
            let mut message = json!({"role": "tool", "toolCallId": call, "content": content});
            if let Some(fields) = message.as_object_mut() {
                fields.extend(extra.clone());
            }
            message
        }
        CallAnswer::Permission { call, granted, reason } => {
            let mut message = json!({"role": "tool_permission", "toolCallId": call, "granted": granted});
            if let Some(reason) = reason {
                message["reason"] = reason.as_str().into();
            }
            message
        }
    }
}
