//! Names and identifiers whose types guarantee a valid value.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not {what}: {rule}")]
pub struct InvalidName {
    /// The expected kind with its article: "an agent name".
    pub what: &'static str,
    /// The rejected text, shortened and printable.
    pub found: String,
    /// Rule for valid names, as worded in the error message.
    pub rule: &'static str,
}

impl InvalidName {
    fn new(what: &'static str, found: &str, rule: &'static str) -> Self {
        let found = found.chars().take(80).collect();
        Self { what, found, rule }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $max:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Reads ", $what, ": ", $rule, ".")]
            pub fn parse(text: &str) -> Result<Self, InvalidName> {
                let ok: fn(&str) -> bool = $ok;
                if text.is_empty() || text.len() > $max || !ok(text) {
                    return Err(InvalidName::new($what, text, $rule));
                }
                Ok(Self(text.into()))
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

/// Defines names of 1 to 64 letters, digits, `_` and `-`.
macro_rules! plain_names {
    ($($(#[$doc:meta])* $name:ident, $what:literal;)*) => {$(
        name!($(#[$doc])* $name, $what, "1 to 64 letters, digits, '_' and '-'", 64, |text| all(text, is_plain));
    )*};
}

fn all(text: &str, allowed: fn(u8) -> bool) -> bool {
    text.bytes().all(allowed)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

name!(
    /// Name of an agent, unique on its server and usable in a URL path.
    AgentName, "an agent name",
    "1 to 64 lower-case letters, digits and hyphens, beginning with a letter or digit", 64,
    |text| !text.starts_with('-')
        && all(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
);

name!(
    /// The name by which a brain calls a tool.
    ToolName, "a tool name",
    "1 to 128 letters, digits, '_', '-' and '.'", 128,
    |text| all(text, |b| is_plain(b) || b == b'.')
);

name!(
    /// Name of an option that a client may set per session.
    OptionName, "an option name",
    "1 to 64 letters, digits, '_', '-' and '.'", 64,
    |text| all(text, |b| is_plain(b) || b == b'.')
);

name!(
    /// Id of a permission, such as `booking:write`.
    ScopeId, "a scope",
    "1 to 128 letters, digits, '_', '-', '.' and ':'", 128,
    |text| all(text, |b| is_plain(b) || b == b'.' || b == b':')
);

impl ScopeId {
    /// Whether the scope's verb is `write`, `delete`, `exec` or `execute`.
    #[must_use]
    pub fn is_mutating(&self) -> bool {
        self.has_verb(&["write", "delete", "exec", "execute"])
    }

    /// Whether the scope's verb is `read`, `list`, `get`, `search` or `view`.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.has_verb(&["read", "list", "get", "search", "view"])
    }

    /// Whether the scope's verb, the part after the last colon, is among these; case is ignored.
    fn has_verb(&self, verbs: &[&str]) -> bool {
        let verb = self.0.rsplit_once(':').map(|(_, verb)| verb.to_ascii_lowercase());
        verb.is_some_and(|verb| verbs.contains(&verb.as_str()))
    }
}

name!(
    /// Name of a person, unique on its server.
    PersonName, "a person's name",
    "1 to 64 letters, digits, '_', '-', '.' and '@'", 64,
    |text| all(text, |b| is_plain(b) || b == b'.' || b == b'@')
);

name!(
    /// Tool call id. Brains choose it, so any short text is allowed.
    CallId, "a tool call id", "1 to 256 bytes without control characters", 256,
    |text| !text.chars().any(char::is_control)
);

name!(
    /// Id of a skill on this host, such as `hotel/book`; usable in a URL path without encoding.
    SkillId, "a skill id",
    "1 to 200 letters, digits, '_', '-', '.' and '/' between parts that are neither empty nor dots, not ending in '.json' or '/invoke'", 200,
    |text| all(text, |b| is_plain(b) || b == b'.' || b == b'/')
        && text.split('/').all(|part| !part.is_empty() && part.bytes().any(|b| b != b'.'))
        && !text.ends_with(".json") && !text.ends_with("/invoke")
);

name!(
    /// Id of a capability of an agent, such as `cap.hotel.booking`: parts from general to specific.
    CapabilityId, "a capability id",
    "1 to 200 letters, digits, '_' and '-', in parts between dots", 200,
    |text| all(text, |b| is_plain(b) || b == b'.') && text.split('.').all(|part| !part.is_empty())
);

name!(
    /// Path of a JSON file in an agent's folder. The path cannot leave the folder and names no hidden file.
    InformationPath, "a file to publish",
    "1 to 200 letters, digits, '_', '-', '.' and '/' between parts that do not begin with '.', ending in '.json'", 200,
    |text| all(text, |b| is_plain(b) || b == b'.' || b == b'/')
        && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
        && text.ends_with(".json")
);

impl InformationPath {
    /// File name without folders and `.json`; used in the published URL.
    #[must_use]
    pub fn stem(&self) -> &str {
        let name = self.0.rsplit('/').next().unwrap_or(&self.0);
        name.strip_suffix(".json").unwrap_or(name)
    }
}

name!(
    /// Id of an agent with an account here: the name of a local agent, or `agt_…` for an agent that runs elsewhere.
    AgentId, "an agent id",
    "1 to 64 lower-case letters, digits, '-' and '_', beginning with a letter or digit", 64,
    |text| !text.starts_with(['-', '_'])
        && all(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
);

impl AgentId {
    /// The agent id as an agent name, if it has the form of one.
    #[must_use]
    pub fn as_name(&self) -> Option<AgentName> {
        AgentName::parse(&self.0).ok()
    }
}

impl From<AgentName> for AgentId {
    fn from(name: AgentName) -> Self {
        Self(name.0)
    }
}

plain_names! {
    /// The name under which an agent file declares a backend, such as an MCP server.
    BackendName, "a backend name";
    /// Session id: random, and usable in a URL path without encoding.
    SessionId, "a session id";
    /// Public identifier of an API key. The key itself is not stored.
    KeyId, "a key id";
    ApprovalId, "an approval id";
    GrantId, "a grant id";
    /// Execution id: random and unguessable, so that knowing it proves that the server disclosed it.
    ExecutionId, "an execution id";
    /// One start of a node. Never reused, so that the work of an earlier start is recognised.
    Incarnation, "an incarnation of a node";
    /// Id of a human task.
    TaskId, "a task id";
    /// Id of a drafted protocol.
    DraftId, "a protocol id";
    /// Id of a person's device; unique per person.
    DeviceId, "a device id";
    /// Id of the relation between one person and one agent.
    RelationId, "a relation id";
    ConversationId, "a conversation id";
    /// Message id assigned by the server.
    MessageId, "a message id";
    /// Message id assigned by the sender, and equal when the message is sent again.
    ClientMessageId, "a client message id";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_name_unsafe_in_a_url_and_call_id_with_line_break_are_refused() {
        for bad in ["", "-a", "A", "a/b", "a b", "..", "ü", &"a".repeat(65)] {
            assert!(AgentName::parse(bad).is_err(), "{bad:?}");
        }
        assert!(AgentName::parse("hotel-assistant").is_ok());
        assert!(CallId::parse("调用 1").is_ok());
        assert!(CallId::parse("a\nb").is_err());
    }

    #[test]
    fn information_path_out_of_its_folder_and_invalid_capability_id_are_refused() {
        for bad in [
            "",
            "/a.json",
            "../a.json",
            "a/../b.json",
            "./a.json",
            ".json",
            "a/.json",
            "a//b.json",
            "a.toml",
            "a\\b.json",
            "a%2f.json",
            "房.json",
        ] {
            assert!(InformationPath::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(InformationPath::parse("products/luxury-rooms.v2.json").unwrap().stem(), "luxury-rooms.v2");
        assert!(CapabilityId::parse("cap.hotel.booking").is_ok());
        for bad in ["cap..x", ".cap", "cap.", "cap hotel"] {
            assert!(CapabilityId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_agent_name_is_an_agent_id_but_not_every_agent_id_is_an_agent_name() {
        let name = AgentName::parse("hotel-1").unwrap();
        assert_eq!(AgentId::from(name.clone()).as_name(), Some(name));
        assert_eq!(AgentId::parse("agt_1").unwrap().as_name(), None);
        for bad in ["", "_a", "-a", "A", "a/b", "a b", ".."] {
            assert!(AgentId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn error_for_an_invalid_name_states_allowed_length_and_characters() {
        let error = ToolName::parse("make reservation").unwrap_err().to_string();
        assert_eq!(error, "\"make reservation\" is not a tool name: 1 to 128 letters, digits, '_', '-' and '.'");
    }
}
