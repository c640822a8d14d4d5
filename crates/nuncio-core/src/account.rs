//! Agents that people can deal with here: those served here, and those that run elsewhere and have an
//! account.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::address;
use crate::digest::Digest;
use crate::ids::{AgentId, PersonName};
use crate::principal::Principal;
use crate::time::Timestamp;

/// The longest name of an agent shown to people, in characters.
pub const MAX_DISPLAY_NAME: usize = 120;

/// The longest note to people about a change, in characters.
pub const MAX_CHANGE_NOTE: usize = 1000;

/// An agent's account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The agent.
    pub id: AgentId,
    /// Who may change it.
    pub owner: AccountOwner,
    /// What people see.
    pub display_name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// Whether anyone may find it by searching.
    pub public: bool,
    /// How it is reached.
    pub connection: Connection,
    /// Where its health can be asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_check_url: Option<Url>,
    /// What is known of its token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<TokenMark>,
    /// Since when.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// How often its manifest was published, cleared ones counted; zero for never.
    pub manifest_version: u64,
    /// The hash of its manifest; none when it has none now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_hash: Option<Digest>,
    /// Counts every change of it and of what is between it and people, so that none goes unnoticed.
    pub revision: u64,
}

/// Who may change an agent's account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Principal", try_from = "Principal")]
pub enum AccountOwner {
    /// The one who runs this server: the agent is declared in a file here.
    Operator,
    /// A person: the agent runs elsewhere.
    Person(PersonName),
}

impl AccountOwner {
    /// Whether that principal is the owner.
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
            other => Err(format!("{other} cannot own an agent; people and the operator can")),
        }
    }
}

/// How an agent is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Connection {
    /// It holds a connection open.
    Websocket,
    /// It is called.
    Webhook {
        /// Where.
        url: WebhookUrl,
    },
}

/// Where an agent is called: `https:`, or `http:` on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct WebhookUrl(Url);

impl WebhookUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// It is none, or not one to be called; the sentence says so.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|why| format!("this is no address: {why}"))?;
        let safe = url.scheme() == "https" || (url.scheme() == "http" && address::is_local(&url));
        if text.len() > 2048 || !safe || url.host_str().is_none() {
            return Err("it must be an https address of at most 2048 characters, or http on this machine".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err("it must have neither a user name or password nor a fragment".to_owned());
        }
        Ok(Self(url))
    }

    /// The address.
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

/// What is kept of an agent's token: never the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenMark {
    /// The digest by which it is recognised.
    pub digest: Digest,
    /// How it begins, for people to tell two apart.
    pub prefix: String,
    /// Since when.
    pub created_at: Timestamp,
}

/// One version of what an agent says it can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestVersion {
    /// Whose.
    pub agent: AgentId,
    /// Its number, from one, without gaps.
    pub version: u64,
    /// The hash of its canonical form; none when it was cleared.
    pub hash: Option<Digest>,
    /// Its canonical form; none when it was cleared.
    pub manifest: Option<String>,
    /// Who published it.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
    /// How it differs from the one before, as the judge said it.
    pub verdict: serde_json::Value,
    /// What its owner says to people about the change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change_note: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_the_operator_own_agents_and_nobody_else() {
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
    fn a_webhook_is_called_safely_or_not_at_all() {
        for good in ["https://a.example/hook?x=1", "http://localhost:9/hook", "http://127.0.0.1/"] {
            assert!(WebhookUrl::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a.example", "http://a.example/", "ftp://localhost/", "https://u:p@a.example/", "https://a/#b"]
        {
            assert!(WebhookUrl::parse(bad).is_err(), "{bad}");
        }
    }
}
