//! Who is asking. Every request has exactly one principal, whatever protocol it came by.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, KeyId, PersonName};

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Principal {
    /// Someone on this machine, while no keys exist.
    Local,
    /// Nobody we know.
    Anonymous,
    /// The holder of an API key.
    Key(KeyId),
    /// The subject of an OAuth token.
    OAuth {
        /// Who vouches.
        issuer: String,
        /// For whom.
        subject: String,
    },
    /// The controller of a DID.
    Did(String),
    /// A person with an account here.
    Person(PersonName),
    /// An agent with an account here.
    Agent(AgentId),
    /// Whoever holds the data directory: the one who runs this server.
    Operator,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::Key(id) => write!(f, "key:{id}"),
            Self::OAuth { issuer, subject } => write!(f, "oauth:{issuer}#{subject}"),
            Self::Did(did) => f.write_str(did),
            Self::Person(name) => write!(f, "person:{name}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::Operator => f.write_str("operator"),
        }
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.to_string()
    }
}

impl TryFrom<String> for Principal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!(
                "{text:?} is no principal; allowed are local, anonymous, key:ID, oauth:ISSUER#SUBJECT, did:…, person:NAME, agent:NAME and operator"
            )
        })
    }
}

impl Principal {
    /// Reads the written form back.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("key:") {
            return KeyId::parse(rest).ok().map(Self::Key);
        }
        if let Some(rest) = text.strip_prefix("oauth:") {
            // An issuer is an address without a fragment, so the first sign ends it.
            let (issuer, subject) = rest.split_once('#')?;
            return Some(Self::OAuth { issuer: issuer.to_owned(), subject: subject.to_owned() });
        }
        if let Some(rest) = text.strip_prefix("person:") {
            return PersonName::parse(rest).ok().map(Self::Person);
        }
        if let Some(rest) = text.strip_prefix("agent:") {
            return AgentId::parse(rest).ok().map(Self::Agent);
        }
        match text {
            "local" => Some(Self::Local),
            "anonymous" => Some(Self::Anonymous),
            "operator" => Some(Self::Operator),
            _ if text.starts_with("did:") && text.len() <= 2048 => Some(Self::Did(text.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_principal_is_read_back_as_written() {
        for text in [
            "local",
            "anonymous",
            "operator",
            "key:key_1",
            "oauth:https://a.example/#ada#1",
            "did:wba:example.com:user:alice",
            "person:ada",
            "agent:hotel",
            "agent:agt_1",
        ] {
            assert_eq!(Principal::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "key:", "root", "oauth:x", "agent:../x"] {
            assert_eq!(Principal::parse(text), None, "{text}");
        }
    }
}
