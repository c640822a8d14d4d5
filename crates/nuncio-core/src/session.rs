//! A conversation: whose it is, with which agent, under which settings, and what it waits for.

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
    /// Names it.
    pub id: SessionId,
    /// Whose it is; for anyone else it does not exist.
    pub owner: Principal,
    /// With whom.
    pub agent: AgentName,
    /// What the client chose; it may change with every turn.
    pub settings: Settings,
    /// The calls whose answers the client owes.
    pub pending: Vec<PendingCall>,
    /// How many turns it has had.
    pub turns: u64,
    /// Whether the last of them is still going on.
    pub running: bool,
    /// The number the next message gets.
    pub next_message: u64,
    /// What stands for the messages that no longer fit its agent's brain.
    pub summary: Option<Summary>,
    /// Since when.
    pub created_at: Timestamp,
}

/// What a brain wrote down of messages it will not see again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// It stands for the messages numbered below this.
    pub until: u64,
    /// What they came to.
    pub text: String,
}

/// What a client chose for its session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The agent's tools it switched on; none were named, none are on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tools: Option<Vec<ToolRef>>,
    /// The options it set. Secret ones are sealed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub options: BTreeMap<OptionName, OptionValue>,
    /// The tools it brings itself.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub client_tools: Vec<ClientTool>,
}

impl Settings {
    /// How the client switched on that tool of the agent's, if it did.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolRef> {
        self.tools.iter().flatten().find(|tool| tool.name.as_str() == name)
    }

    /// The client's own tool of that name.
    #[must_use]
    pub fn client_tool(&self, name: &str) -> Option<&ClientTool> {
        self.client_tools.iter().find(|tool| tool.name.as_str() == name)
    }
}

/// One of the agent's tools, switched on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRef {
    /// Which.
    pub name: ToolName,
    /// Whether the client wants no question before it runs. Kept as it was sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trust: Option<bool>,
}

/// The value of an option as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionValue {
    /// In clear.
    Plain(String),
    /// A secret, sealed under the server's key.
    Sealed(String),
}

/// A tool that the client brings and runs itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    /// Its name, unlike that of any tool of the agent's.
    pub name: ToolName,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// What it takes.
    pub parameters: Value,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A call this server issued and the client must answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The call.
    pub call: ToolCall,
    /// The digest of its arguments, to which a permission is bound.
    pub arguments_digest: Digest,
    /// What kind of answer it takes.
    pub awaits: Awaits,
    /// Whether the brain runs it itself, elsewhere, once it is allowed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub elsewhere: bool,
}

/// What a pending call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaits {
    /// The result of a tool the client runs.
    Result,
    /// Permission to run a tool of the agent's.
    Permission,
}
