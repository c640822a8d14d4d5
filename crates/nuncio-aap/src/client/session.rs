//! `POST /sessions`, `GET /sessions` and `GET /sessions/:id`.

use std::collections::BTreeMap;

use nuncio_core::message::Message;
use nuncio_core::session::ToolRef;
use serde::{Deserialize, Serialize};

use super::meta::ToolSpec;

/// Body of `POST /sessions`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewSession {
    pub agent: AgentConfig,
    /// Initial history.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Tools that the client provides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
}

/// `AgentConfig`: the agent's settings in a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentConfig {
    pub name: String,
    /// Enabled tools of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolRef>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// `SessionInfo`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub session_id: String,
    pub agent: AgentConfig,
    /// Tools that the client provides.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SessionsPage {
    pub sessions: Vec<SessionInfo>,
    /// Cursor of the next page; `None` on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryKind {
    /// The history as the model sees it.
    Compacted,
    /// The complete history.
    Full,
}

impl HistoryKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compacted => "compacted",
            Self::Full => "full",
        }
    }
}
