//! `GET /meta`: `AgentInfo` and what is in it. What we do not know is passed over.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Meta {
    /// The protocol's version.
    pub version: u64,
    /// The agents served.
    #[serde(default)]
    pub agents: Vec<AgentInfo>,
}

impl Meta {
    /// The agent of that name.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentInfo> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// An agent as its server describes it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct AgentInfo {
    /// Its name there.
    pub name: String,
    /// What people call it.
    #[serde(default)]
    pub title: Option<String>,
    /// Its own version.
    #[serde(default)]
    pub version: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// The tools a client may switch on.
    #[serde(default, deserialize_with = "listed")]
    pub tools: Vec<ToolSpec>,
    /// What a client may set.
    #[serde(default, deserialize_with = "listed")]
    pub options: Vec<OptionInfo>,
    /// What it can do.
    #[serde(default, rename = "capabilities", deserialize_with = "supports")]
    pub supports: Supports,
}

/// A tool as it is described to others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name it is called by.
    pub name: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// What it takes.
    #[serde(default)]
    pub parameters: Value,
}

/// An option as it is described to others.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OptionInfo {
    /// Its name.
    pub name: String,
    /// `text`, `secret` or `select`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What people call it.
    #[serde(default)]
    pub title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// What may be chosen, of a `select`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Its value when nobody sets it.
    #[serde(default)]
    pub default: String,
}

/// What an agent supports; what it does not say it does not.
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
        // An empty object means yes. `true` is not in the protocol, but what it means is plain.
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

/// A list without what cannot be read of it; `null` is an empty one.
fn listed<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items = Option::<Vec<Map<String, Value>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(Value::Object(item)).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_and_unknown_parts_are_no_obstacle() {
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
