//! Principals: every request has exactly one, in every protocol.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, KeyId, PersonName};
use crate::string_form::string_form;

/// The authenticated sender of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Principal {
    /// A process on this machine, while the server has no keys.
    Local,
    /// A caller without credentials.
    Anonymous,
    /// The holder of an API key.
    Key(KeyId),
    OAuth {
        issuer: String,
        subject: String,
    },
    Did(String),
    /// A person with an account on this server.
    Person(PersonName),
    /// An agent with an account on this server.
    Agent(AgentId),
    /// The operator, who has access to the data directory.
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

string_form!(Principal, |text| {
    Principal::parse(text).ok_or_else(|| format!(
    "{text:?} is not a principal; allowed are local, anonymous, key:ID, oauth:ISSUER#SUBJECT, did:…, person:NAME, \
     agent:NAME and operator"
))
});

impl Principal {
    /// Parses a principal from the text form made by `Display`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("key:") {
            return KeyId::parse(rest).ok().map(Self::Key);
        }
        if let Some(rest) = text.strip_prefix("oauth:") {
            // An issuer URL has no fragment, so the first `#` ends it.
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
    fn every_kind_of_principal_round_trips_through_text() {
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
