//! Accounts of agents: agents served by this server, and agents that run elsewhere and connect to it.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::address;
use crate::digest::Digest;
use crate::ids::{AgentId, PersonName};
use crate::principal::Principal;
use crate::time::Timestamp;

/// Longest display name of an agent account, in characters.
pub const MAX_DISPLAY_NAME: usize = 120;

/// Longest change note of a manifest version, in characters.
pub const MAX_CHANGE_NOTE: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAccount {
    pub id: AgentId,
    pub owner: AccountOwner,
    pub display_name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// Whether searches list the agent and callers without credentials may see it. Every authenticated caller may see
    /// any agent by its id.
    pub public: bool,
    pub connection: AgentConnection,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_check_url: Option<Url>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<AgentTokenInfo>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Number of the current manifest version, which counts all publications so far, including cleared manifests; 0
    /// before the first.
    pub manifest_version: u64,
    /// Hash of the current manifest; `None` while none is published.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_hash: Option<Digest>,
    /// Incremented by every change of the account or of its relations with people, for optimistic locking.
    pub revision: u64,
}

/// Owner of an agent's account, who decides about changes of the account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Principal", try_from = "Principal")]
pub enum AccountOwner {
    /// Owner of an agent that is declared in a file on this server.
    Operator,
    /// Owner of an agent that runs elsewhere: a person.
    Person(PersonName),
}

impl AccountOwner {
    #[must_use]
    pub fn is(&self, principal: &Principal) -> bool {
        Principal::from(self.clone()) == *principal
    }
}

impl fmt::Display for AccountOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Principal::from(self.clone()).fmt(f)
    }
}

impl From<AccountOwner> for Principal {
    fn from(owner: AccountOwner) -> Self {
        match owner {
            AccountOwner::Operator => Self::Operator,
            AccountOwner::Person(name) => Self::Person(name),
        }
    }
}

impl TryFrom<Principal> for AccountOwner {
    type Error = String;

    fn try_from(principal: Principal) -> Result<Self, String> {
        match principal {
            Principal::Operator => Ok(Self::Operator),
            Principal::Person(name) => Ok(Self::Person(name)),
            other => Err(format!("{other} cannot own an agent; only people and the operator can")),
        }
    }
}

/// How the relay delivers messages to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum AgentConnection {
    /// The agent keeps a WebSocket open, over which messages are delivered.
    Websocket,
    Webhook {
        url: WebhookUrl,
    },
}

/// A webhook address: `https:`, or `http:` on this machine; without user name, password and fragment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct WebhookUrl(Url);

impl WebhookUrl {
    /// Parses a webhook address. The error is a complete sentence for the person who entered the address.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|why| format!("this is not a valid address: {why}"))?;
        let safe = url.scheme() == "https" || (url.scheme() == "http" && address::is_local(&url));
        if text.len() > 2048 || !safe || url.host_str().is_none() {
            return Err("it must be an https address of at most 2048 characters, or http on this machine".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err("it must not contain a user name, a password or a fragment".to_owned());
        }
        Ok(Self(url))
    }

    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl From<WebhookUrl> for String {
    fn from(url: WebhookUrl) -> Self {
        url.0.into()
    }
}

impl TryFrom<String> for WebhookUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// Facts about an agent's token. The token itself is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTokenInfo {
    /// Digest of the token, by which a presented token is recognised.
    pub digest: Digest,
    /// First characters of the token, so that people can tell two tokens apart.
    pub prefix: String,
    pub created_at: Timestamp,
}

/// One published version of an agent's manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedManifest {
    pub agent: AgentId,
    /// Number of the manifest version; starts at 1, without gaps.
    pub version: u64,
    /// Hash of the manifest's canonical form; `None` if this version cleared the manifest.
    pub hash: Option<Digest>,
    /// The manifest as canonical JSON; `None` if this version cleared it.
    pub manifest: Option<String>,
    pub by: Principal,
    pub at: Timestamp,
    /// The change judge's report on the difference from the previous version.
    pub verdict: serde_json::Value,
    /// The owner's explanation of the change for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change_note: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_owner_is_parsed_only_from_operator_or_person_text() {
        for (owner, text) in [
            (AccountOwner::Operator, "\"operator\""),
            (AccountOwner::Person(PersonName::parse("ada").unwrap()), "\"person:ada\""),
        ] {
            assert_eq!(serde_json::to_string(&owner).unwrap(), text);
            assert_eq!(serde_json::from_str::<AccountOwner>(text).unwrap(), owner);
        }
        for other in ["\"local\"", "\"agent:agt_1\"", "\"key:key_1\""] {
            assert!(serde_json::from_str::<AccountOwner>(other).is_err(), "{other}");
        }
    }

    #[test]
    fn webhook_url_must_be_https_or_localhost_without_credentials_or_fragment() {
        for good in ["https://a.example/hook?x=1", "http://localhost:9/hook", "http://127.0.0.1/"] {
            assert!(WebhookUrl::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a.example", "http://a.example/", "ftp://localhost/", "https://u:p@a.example/", "https://a/#b"]
        {
            assert!(WebhookUrl::parse(bad).is_err(), "{bad}");
        }
    }
}
