//! `GET /meta`: the agents of a server.

use nuncio_core::agent::AapCapabilities;
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// AAP version that this server and client support.
pub const VERSION: u64 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetaResponse {
    pub version: u64,
    #[serde(default)]
    pub agents: Vec<AgentInfo>,
}

impl MetaResponse {
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentInfo> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// `AgentInfo`: an agent as `GET /meta` lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentInfo {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default)]
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Tools that a client may enable.
    #[serde(default, deserialize_with = "listed", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    #[serde(default, deserialize_with = "listed", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<OptionInfo>,
    #[serde(default = "capabilities::none", with = "capabilities")]
    pub capabilities: AapCapabilities,
}

impl AgentInfo {
    /// Placeholder for an agent that `GET /meta` does not list; it has no capabilities.
    #[must_use]
    pub fn unlisted(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: None,
            version: String::new(),
            description: None,
            tools: Vec::new(),
            options: Vec::new(),
            capabilities: capabilities::none(),
        }
    }
}

/// `ToolSpec`: a tool of an agent, or one that a client provides in a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    #[serde(default)]
    pub parameters: Value,
    /// Tool members that AAP does not define; `GET /sessions/:id` returns them unchanged.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `AgentOption`: a setting of an agent that each session may set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionInfo {
    pub name: String,
    /// Type of the option: `text`, `secret` or `select`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Allowed values of a `select`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    #[serde(default)]
    pub default: String,
}

/// JSON form of `AgentCapabilities`: an empty object means supported, an absent key unsupported.
mod capabilities {
    use std::collections::BTreeMap;

    use nuncio_core::agent::AapCapabilities;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::{Map, Value};

    /// JSON group, JSON member name and Rust field of each capability.
    fn members(of: &mut AapCapabilities) -> [(&'static str, &'static str, &mut bool); 8] {
        [
            ("history", "compacted", &mut of.compacted_history),
            ("history", "full", &mut of.full_history),
            ("stream", "delta", &mut of.stream_delta),
            ("stream", "message", &mut of.stream_message),
            ("stream", "none", &mut of.stream_none),
            ("application", "tools", &mut of.application_tools),
            ("image", "http", &mut of.image_https),
            ("image", "data", &mut of.image_data),
        ]
    }

    pub(super) fn none() -> AapCapabilities {
        let mut capabilities = AapCapabilities::default();
        members(&mut capabilities).into_iter().for_each(|(_, _, has)| *has = false);
        capabilities
    }

    pub(super) fn serialize<S: Serializer>(capabilities: &AapCapabilities, to: S) -> Result<S::Ok, S::Error> {
        let mut groups = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (group, member, has) in members(&mut capabilities.clone()) {
            if *has {
                groups.entry(group).or_default().insert(member, Map::new());
            }
        }
        groups.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<AapCapabilities, D::Error> {
        let sent = Value::deserialize(from)?;
        let mut capabilities = none();
        for (group, member, has) in members(&mut capabilities) {
            // AAP does not define `true`, but some servers send it for a supported capability.
            *has = matches!(&sent[group][member], Value::Object(_) | Value::Bool(true));
        }
        Ok(capabilities)
    }
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
        let meta: MetaResponse = serde_json::from_value(json!({
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
        assert_eq!(meta.agent("bare"), Some(&AgentInfo::unlisted("bare")));
        let rich = meta.agent("rich").unwrap();
        assert_eq!(rich.tools.len(), 1);
        let some = AapCapabilities { full_history: true, stream_delta: true, ..AgentInfo::unlisted("").capabilities };
        assert_eq!(rich.capabilities, some);
    }
}
