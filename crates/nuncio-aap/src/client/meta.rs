//! Types of `GET /meta`. Unknown fields are ignored.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Response of `GET /meta`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Meta {
    pub version: u64,
    #[serde(default)]
    pub agents: Vec<AgentInfo>,
}

impl Meta {
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentInfo> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// `AgentInfo`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct AgentInfo {
    pub name: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub description: Option<String>,
    /// Tools that a client may enable.
    #[serde(default, deserialize_with = "listed")]
    pub tools: Vec<ToolSpec>,
    #[serde(default, deserialize_with = "listed")]
    pub options: Vec<OptionInfo>,
    /// Parsed `capabilities`.
    #[serde(default, rename = "capabilities", deserialize_with = "supports")]
    pub supports: Supports,
}

/// `ToolSpec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    #[serde(default)]
    pub parameters: Value,
}

/// `AgentOption`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OptionInfo {
    pub name: String,
    /// `text`, `secret` or `select`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    /// Allowed values of a `select`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Default value.
    #[serde(default)]
    pub default: String,
}

/// Capabilities of an agent; an absent one is unsupported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Supports {
    /// `history.compacted`
    pub compacted_history: bool,
    /// `history.full`
    pub full_history: bool,
    /// `stream.delta`
    pub stream_delta: bool,
    /// `stream.message`
    pub stream_message: bool,
    /// `application.tools`
    pub application_tools: bool,
    /// `image.http`
    pub image_http: bool,
    /// `image.data`
    pub image_data: bool,
}

impl Supports {
    fn of(capabilities: &Value) -> Self {
        // An empty object means supported. `true` is not in the protocol, but some servers send it.
        let has =
            |group: &str, member: &str| matches!(&capabilities[group][member], Value::Object(_) | Value::Bool(true));
        Self {
            compacted_history: has("history", "compacted"),
            full_history: has("history", "full"),
            stream_delta: has("stream", "delta"),
            stream_message: has("stream", "message"),
            application_tools: has("application", "tools"),
            image_http: has("image", "http"),
            image_data: has("image", "data"),
        }
    }
}

fn supports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Supports, D::Error> {
    Ok(Supports::of(&Value::deserialize(deserializer)?))
}

/// Deserialises a list without its unreadable items; `null` is an empty list.
fn listed<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items = Option::<Vec<Map<String, Value>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(Value::Object(item)).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn meta_with_missing_and_unknown_fields_is_parsed() {
        let meta: Meta = serde_json::from_value(json!({
            "version": 3,
            "server": "other",
            "agents": [
                {"name": "bare"},
                {"name": "rich", "version": "1.0.0", "mood": "good",
                 "tools": [{"name": "add", "description": "", "parameters": {}}, {"title": "nameless"}],
                 "options": null,
                 "capabilities": {"stream": {"delta": {}}, "history": {"full": {}, "compacted": null}, "telepathy": {}}},
            ],
        }))
        .unwrap();
        assert_eq!(meta.agent("bare").unwrap().supports, Supports::default());
        let rich = meta.agent("rich").unwrap();
        assert_eq!(rich.tools.len(), 1);
        assert_eq!(rich.supports, Supports { full_history: true, stream_delta: true, ..Supports::default() });
    }
}
