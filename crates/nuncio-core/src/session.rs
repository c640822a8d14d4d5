//! Sessions: one principal's conversation with one agent, its settings and pending calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::ids::{AgentName, OptionName, SessionId, ToolName};
use crate::message::ToolCall;
use crate::principal::Principal;
use crate::time::Timestamp;

/// A conversation between one principal and one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: SessionId,
    /// The principal that owns the session. For every other caller the session does not exist.
    pub owner: Principal,
    pub agent: AgentName,
    /// Settings of the session, which may change with every turn.
    pub settings: SessionSettings,
    /// Calls of the session that the client must answer.
    pub pending: Vec<PendingCall>,
    /// Number of turns of the session so far.
    pub turns: u64,
    /// Whether the last turn of the session is still running.
    pub running: bool,
    /// Number of the next message of the session.
    pub next_message: u64,
    /// Summary that replaces older messages, which no longer fit into the brain's context window.
    pub summary: Option<HistorySummary>,
    pub created_at: Timestamp,
}

/// A brain's summary of older messages. The brain gets the summary instead of these messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistorySummary {
    /// Number of the first message that the summary does not replace.
    pub until: u64,
    pub text: String,
}

/// A client's settings for its session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionSettings {
    /// The agent's tools that the client enabled; `None` enables none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tools: Option<Vec<EnabledTool>>,
    /// Option values of the session; secret ones are encrypted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub options: BTreeMap<OptionName, StoredOptionValue>,
    /// Tools that the client provides and runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub client_tools: Vec<ClientTool>,
}

impl SessionSettings {
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&EnabledTool> {
        self.tools.iter().flatten().find(|tool| tool.name.as_str() == name)
    }

    #[must_use]
    pub fn client_tool(&self, name: &str) -> Option<&ClientTool> {
        self.client_tools.iter().find(|tool| tool.name.as_str() == name)
    }
}

/// A tool of the agent that the client enabled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnabledTool {
    pub name: ToolName,
    /// Whether the tool may run without asking the client; `None` means no.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trust: Option<bool>,
}

/// The stored value of a session option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredOptionValue {
    Plain(String),
    /// The value of a secret option, encrypted with the server's key.
    Sealed(String),
}

/// A tool that the client provides and runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    /// Name of the client's tool, different from the names of the agent's hidden and enabled tools.
    pub name: ToolName,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    pub description: String,
    pub parameters: Value,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A call that the client must answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    pub call: ToolCall,
    /// Digest of the call's arguments, to which the client's permission is bound.
    pub arguments_digest: Digest,
    pub awaits: AwaitedAnswer,
    /// Whether the brain itself runs the call on another server once it is allowed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub elsewhere: bool,
}

/// The kind of answer that a pending call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitedAnswer {
    /// The result of a tool that the client runs.
    Result,
    /// Permission to run one of the agent's tools.
    Permission,
}
