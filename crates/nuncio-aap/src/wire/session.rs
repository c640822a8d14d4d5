//! `POST /sessions`, `GET /sessions`, `GET /sessions/:id` and `GET /sessions/:id/history`.

use std::collections::BTreeMap;

use nuncio_core::message::Message;
use nuncio_core::session::EnabledTool;
use nuncio_core::string_enum;
use serde::{Deserialize, Serialize};

use super::meta::ToolSpec;

/// Body of `POST /sessions`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewSession {
    pub agent: AgentConfig,
    /// Messages that the session begins with.
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
    pub tools: Option<Vec<EnabledTool>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// Answer to `POST /sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedSession {
    pub session_id: String,
}

/// `SessionInfo`: a session with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub session_id: String,
    pub agent: AgentConfig,
    /// Tools that the client provides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// When the session was created, a Nuncio extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionsPage {
    pub sessions: Vec<SessionInfo>,
    /// Cursor of the next page; `None` on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Answer to `GET /sessions/:id/history`: messages, keyed by history kind. The client uses plain JSON for `T`, because
/// it skips messages of unknown types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryResponse<T> {
    pub history: BTreeMap<String, T>,
}

string_enum! {
    pub enum HistoryKind {
        /// Messages after compaction, as the model sees them.
        Compacted = "compacted",
        /// All messages, without compaction.
        Full = "full",
    }
}
