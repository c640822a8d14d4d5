//! The grant ledger: everything that ever changed what one person allows one agent, chained by hashes.
//!
//! Only entries signed by a device of the person can allow anything. What the server adds by itself is
//! unsigned and can only take away, or give back what such an entry had allowed. So the server, the agent
//! and the device can each tell alone, from the entries and the devices' keys, what is allowed, and a
//! server that invents, alters or drops an entry is caught.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, canonical};
use crate::grant::Term;
use crate::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use crate::signature::{Signature, labelled};
use crate::time::Timestamp;

mod verify;

pub use crate::audit::Head;
pub use verify::{Refused, Standing, Verifier, verify};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number, from one, without gaps.
    pub seq: u64,
    /// The hash of the entry before; zeros before the first.
    pub prev_hash: Digest,
    /// Between whom.
    pub relation_id: RelationId,
    /// The agent, which is the same in every entry.
    pub agent_id: AgentId,
    /// Who made it.
    pub actor: Actor,
    /// What it does.
    pub action: Action,
    /// All that is allowed from now on, for a grant or a new yes; what is taken or given back, for the
    /// others. Sorted, each once.
    pub scopes: Vec<ScopeId>,
    /// For how long, of those scopes that are not allowed until revoked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub terms: BTreeMap<ScopeId, Term>,
    /// The manifest it is about.
    pub manifest_version: u64,
    /// Its hash; none when the agent has no manifest any more.
    pub manifest_hash: Option<Digest>,
    /// When.
    pub at: Timestamp,
    /// The device that signed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device_id: Option<DeviceId>,
    /// Its signature over everything else.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<Signature>,
}

impl Entry {
    /// The bytes a device signs: a label and the canonical form of everything but the signature.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        labelled("nuncio/grant-ledger/v1", &Self { signature: None, ..self.clone() })
    }

    /// The hash by which the next entry names it; it covers the signature.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Digest::of_bytes(&canonical(self))
    }

    /// For how long it allows that scope; none when it does not.
    #[must_use]
    pub fn term(&self, scope: &ScopeId) -> Option<Term> {
        self.scopes.contains(scope).then(|| self.terms.get(scope).copied().unwrap_or(Term::UntilRevoked))
    }
}

/// Who made an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Actor {
    /// The person, on a device that signed it.
    Person(PersonName),
    /// The server, by rule.
    Server,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => write!(f, "person:{name}"),
            Self::Server => f.write_str("server"),
        }
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.to_string()
    }
}

impl TryFrom<String> for Actor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix("person:") {
            Some(name) => PersonName::parse(name).map(Self::Person).map_err(|why| why.to_string()),
            None if text == "server" => Ok(Self::Server),
            None => Err(format!("{text:?} makes no entries; a person or the server does")),
        }
    }
}

/// What an entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The person allows these scopes and no others.
    Grant,
    /// The same, after a change that asked for a new yes.
    Reauth,
    /// It is over, and nothing is allowed.
    Revoke,
    /// A change of the agent suspends these until there is a new yes.
    Suspend,
    /// A later change brought back what had been agreed to: these hold again.
    Restore,
    /// The agent no longer asks for these.
    Prune,
}

impl Action {
    /// Whether it can allow what was not allowed before; only a person's entry may.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Grant | Self::Reauth)
    }
}

#[cfg(test)]
mod tests;
