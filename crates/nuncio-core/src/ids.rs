//! Names and identifiers that cannot hold a wrong value.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text is not the name it claims to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not {what}: {rule}")]
pub struct InvalidName {
    /// What was expected, with its article: "an agent name".
    pub what: &'static str,
    /// What was found, cut to a printable length.
    pub found: String,
    /// What is allowed.
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
            ///
            /// # Errors
            /// The text breaks that rule.
            pub fn parse(text: &str) -> Result<Self, InvalidName> {
                let ok: fn(&str) -> bool = $ok;
                if text.is_empty() || text.len() > $max || !ok(text) {
                    return Err(InvalidName::new($what, text, $rule));
                }
                Ok(Self(text.into()))
            }

            /// The name as text.
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

fn all(text: &str, allowed: fn(u8) -> bool) -> bool {
    text.bytes().all(allowed)
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

name!(
    /// The name of an agent, unique on its server and safe in a path.
    AgentName, "an agent name",
    "1 to 64 lower-case letters, digits and hyphens, beginning with a letter or digit", 64,
    |text| !text.starts_with('-')
        && all(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
);

name!(
    /// The name by which a brain calls a tool.
    ToolName, "a tool name",
    "1 to 128 letters, digits, '_', '-' and '.'", 128,
    |text| all(text, |b| word(b) || b == b'.')
);

name!(
    /// The name of an option a client may set for its session.
    OptionName, "an option name",
    "1 to 64 letters, digits, '_', '-' and '.'", 64,
    |text| all(text, |b| word(b) || b == b'.')
);

name!(
    /// A permission, such as `booking:write`.
    ScopeId, "a scope",
    "1 to 128 letters, digits, '_', '-', '.' and ':'", 128,
    |text| all(text, |b| word(b) || b == b'.' || b == b':')
);

impl ScopeId {
    /// Whether its verb is `write`, `delete`, `exec` or `execute`.
    #[must_use]
    pub fn is_mutating(&self) -> bool {
        self.has_verb(&["write", "delete", "exec", "execute"])
    }

    /// Whether its verb only reads: `read`, `list`, `get`, `search` or `view`.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.has_verb(&["read", "list", "get", "search", "view"])
    }

    /// The verb is what follows the last colon, in any case.
    fn has_verb(&self, verbs: &[&str]) -> bool {
        let verb = self.0.rsplit_once(':').map(|(_, verb)| verb.to_ascii_lowercase());
        verb.is_some_and(|verb| verbs.contains(&verb.as_str()))
    }
}

name!(
    /// The name under which an agent file declares a backend, such as an MCP server.
    BackendName, "a backend name",
    "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// The name of a person known to this server.
    PersonName, "a person's name",
    "1 to 64 letters, digits, '_', '-', '.' and '@'", 64,
    |text| all(text, |b| word(b) || b == b'.' || b == b'@')
);

name!(
    /// A conversation's identifier; random, and safe in a path without encoding.
    SessionId, "a session id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// An API key's public identifier. The key itself is never kept.
    KeyId, "a key id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one question put to a person.
    ApprovalId, "an approval id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one grant.
    GrantId, "a grant id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one call of one tool. Brains choose these, so any short text will do.
    CallId, "a tool call id", "1 to 256 bytes without control characters", 256,
    |text| !text.chars().any(char::is_control)
);

name!(
    /// Names one skill on this host, such as `hotel/book`; safe in a path without encoding.
    SkillId, "a skill id",
    "1 to 200 letters, digits, '_', '-', '.' and '/' between parts that are neither empty nor dots, not ending in '.json' or '/invoke'", 200,
    |text| all(text, |b| word(b) || b == b'.' || b == b'/')
        && text.split('/').all(|part| !part.is_empty() && part.bytes().any(|b| b != b'.'))
        && !text.ends_with(".json") && !text.ends_with("/invoke")
);

name!(
    /// Something an agent can do, such as `cap.hotel.booking`: parts from the general to the particular.
    CapabilityId, "a capability id",
    "1 to 200 letters, digits, '_' and '-', in parts between dots", 200,
    |text| all(text, |b| word(b) || b == b'.') && text.split('.').all(|part| !part.is_empty())
);

name!(
    /// A JSON file in an agent's folder: it cannot leave the folder, and nothing in it is hidden.
    InformationPath, "a file to publish",
    "1 to 200 letters, digits, '_', '-', '.' and '/' between parts that do not begin with '.', ending in '.json'", 200,
    |text| all(text, |b| word(b) || b == b'.' || b == b'/')
        && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
        && text.ends_with(".json")
);

impl InformationPath {
    /// The file's name without folders and `.json`; what it is called in its address.
    #[must_use]
    pub fn stem(&self) -> &str {
        let name = self.0.rsplit('/').next().unwrap_or(&self.0);
        name.strip_suffix(".json").unwrap_or(name)
    }
}

name!(
    /// Names one execution; random, so that holding it shows that one was told it.
    ExecutionId, "an execution id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one piece of work in people's inbox.
    TaskId, "a task id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one protocol that two sides make up.
    DraftId, "a protocol id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one agent among all that people can deal with here: the name of one served here, or `agt_…`
    /// for one that runs elsewhere.
    AgentId, "an agent id",
    "1 to 64 lower-case letters, digits, '-' and '_', beginning with a letter or digit", 64,
    |text| !text.starts_with(['-', '_'])
        && all(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
);

impl AgentId {
    /// The name it has here, if it could be one of an agent served here.
    #[must_use]
    pub fn as_name(&self) -> Option<AgentName> {
        AgentName::parse(&self.0).ok()
    }
}

impl From<AgentName> for AgentId {
    /// Every name is an id.
    fn from(name: AgentName) -> Self {
        Self(name.0)
    }
}

name!(
    /// Names one device of one person.
    DeviceId, "a device id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names what is between one person and one agent.
    RelationId, "a relation id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one conversation.
    ConversationId, "a conversation id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one message, as the server does.
    MessageId, "a message id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

name!(
    /// Names one message, as its sender does: the same when it is sent again.
    ClientMessageId, "a client message id", "1 to 64 letters, digits, '_' and '-'", 64,
    |text| all(text, word)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_a_path_cannot_carry() {
        for bad in ["", "-a", "A", "a/b", "a b", "..", "ü", &"a".repeat(65)] {
            assert!(AgentName::parse(bad).is_err(), "{bad:?}");
        }
        assert!(AgentName::parse("hotel-assistant").is_ok());
        assert!(CallId::parse("调用 1").is_ok());
        assert!(CallId::parse("a\nb").is_err());
    }

    #[test]
    fn a_published_file_stays_in_its_folder() {
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
    fn every_agent_name_is_an_agent_id_but_not_the_other_way_round() {
        let name = AgentName::parse("hotel-1").unwrap();
        assert_eq!(AgentId::from(name.clone()).as_name(), Some(name));
        assert_eq!(AgentId::parse("agt_1").unwrap().as_name(), None);
        for bad in ["", "_a", "-a", "A", "a/b", "a b", ".."] {
            assert!(AgentId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_wrong_name_says_what_is_allowed() {
        let error = ToolName::parse("make reservation").unwrap_err().to_string();
        assert_eq!(error, "\"make reservation\" is not a tool name: 1 to 128 letters, digits, '_', '-' and '.'");
    }
}
