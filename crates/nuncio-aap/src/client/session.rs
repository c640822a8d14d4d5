//! `POST /sessions`, `GET /sessions` and `GET /sessions/:id`.

use std::collections::BTreeMap;

use nuncio_core::message::Message;
use nuncio_core::session::ToolRef;
use serde::{Deserialize, Serialize};

use super::meta::ToolSpec;

/// A session to be made.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewSession {
    /// With whom, and how.
    pub agent: AgentConfig,
    /// What was said before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// The tools the client brings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
}

/// `AgentConfig`: an agent as a session uses it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentConfig {
    /// Which.
    pub name: String,
    /// The agent's tools that are switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolRef>>,
    /// The options that are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// A session as its server shows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Names it.
    pub session_id: String,
    /// With whom, and how.
    pub agent: AgentConfig,
    /// The tools the client brings.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
}

/// Some of the sessions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SessionsPage {
    /// These.
    pub sessions: Vec<SessionInfo>,
    /// Where the next page begins; none when this is the last.
    #[serde(default)]
    pub next: Option<String>,
}

/// Which history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryKind {
    /// What the model sees.
    Compacted,
    /// Everything.
    Full,
}

impl HistoryKind {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compacted => "compacted",
            Self::Full => "full",
        }
    }
}
