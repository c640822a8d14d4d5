//! `POST /sessions/:id/turns`: what a turn brings.

use std::collections::BTreeMap;

use nuncio_core::session::ToolRef;
use nuncio_core::turn::{CallAnswer, StreamMode, TurnInput};
use serde::Serialize;
use serde_json::{Value, json};

use super::meta::ToolSpec;

/// The body of a turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TurnBody {
    /// One user message, or answers to the calls that wait.
    pub messages: Vec<Value>,
    /// How to be told.
    pub stream: StreamMode,
    /// What to change about the agent from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentOverride>,
    /// The tools the client brings from now on; none leaves them as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
}

/// What a turn changes about the agent, for the rest of the session.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AgentOverride {
    /// The agent's tools that are switched on, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolRef>>,
    /// The options to set; the others stay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl TurnBody {
    /// A turn with this input, told in this way.
    #[must_use]
    pub fn new(input: &TurnInput, stream: StreamMode) -> Self {
        let messages = match input {
            TurnInput::User(message) => vec![json!(message)],
            TurnInput::Answers(answers) => answers.iter().map(answer).collect(),
        };
        Self { messages, stream, ..Self::default() }
    }
}

/// `ToolMessage` or `ToolPermissionMessage`.
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
