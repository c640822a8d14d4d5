//! The consent ledger: every change of one person's permissions for one agent, chained by hashes.
//!
//! Only entries signed by a device of the person can allow anything. Entries of the server are unsigned and can only
//! remove permissions, or restore those that a signed entry had allowed. So server, agent and device can each compute
//! the permissions from the entries and the devices' keys, and a server that invents, alters or drops an entry is
//! detected.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, canonical};
use crate::grant::GrantTerm;
use crate::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use crate::signature::{Signature, labelled};
use crate::string_form::string_form;
use crate::time::Timestamp;

mod verify;

pub use crate::audit::ChainHead;
pub use verify::{LedgerFault, LedgerState, LedgerVerifier, verify};

/// One change of a person's permissions for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// Number of the ledger entry; starts at 1, without gaps.
    pub seq: u64,
    /// Hash of the previous entry; zeros for the first.
    pub prev_hash: Digest,
    pub relation_id: RelationId,
    /// Agent of the relation, the same in every ledger entry.
    pub agent_id: AgentId,
    pub actor: LedgerActor,
    pub action: LedgerAction,
    /// For a grant or a renewed consent, all permissions from now on; for other actions the scopes that are removed or
    /// restored. Sorted, without duplicates.
    pub scopes: Vec<ScopeId>,
    /// Terms of the granted scopes, except those granted until revoked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub terms: BTreeMap<ScopeId, GrantTerm>,
    pub manifest_version: u64,
    /// Hash of the manifest at the time of the entry; `None` if the agent had no manifest any more.
    pub manifest_hash: Option<Digest>,
    pub at: Timestamp,
    /// The device that signed the entry; `None` for entries of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device_id: Option<DeviceId>,
    /// The device's signature over all other fields of the ledger entry; `None` for entries of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<Signature>,
}

impl LedgerEntry {
    /// The bytes that a device signs: a label and the canonical form of everything except the signature.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        labelled("nuncio/grant-ledger/v1", &Self { signature: None, ..self.clone() })
    }

    /// The hash by which the next ledger entry refers to this one; it covers the signature.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Digest::of_bytes(&canonical(self))
    }

    /// The term of a scope; `None` if the ledger entry does not grant the scope.
    #[must_use]
    pub fn term(&self, scope: &ScopeId) -> Option<GrantTerm> {
        self.scopes.contains(scope).then(|| self.terms.get(scope).copied().unwrap_or(GrantTerm::UntilRevoked))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum LedgerActor {
    /// The person made the ledger entry on a device that signed it.
    Person(PersonName),
    /// The server made the ledger entry, by a fixed rule.
    Server,
}

impl fmt::Display for LedgerActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => write!(f, "person:{name}"),
            Self::Server => f.write_str("server"),
        }
    }
}

string_form!(LedgerActor, |text| match text.strip_prefix("person:") {
    Some(name) => PersonName::parse(name).map(LedgerActor::Person).map_err(|why| why.to_string()),
    None if text == "server" => Ok(LedgerActor::Server),
    None => Err(format!("{text:?} cannot make entries; only a person or the server can")),
});

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerAction {
    /// The person grants the entry's scopes and no others.
    Grant,
    /// The person grants the entry's scopes and no others, after a change that needed new consent.
    Reauth,
    /// The relation ends; no permissions remain.
    Revoke,
    /// A changed manifest suspends the entry's scopes until the person consents again.
    Suspend,
    /// A later manifest went back to the form that the person had consented to, so the entry's scopes are usable again.
    Restore,
    /// The entry's scopes are removed because the manifest no longer requests them.
    Prune,
}

impl LedgerAction {
    /// Whether the ledger action can add permissions, which only a person's entry may do.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Grant | Self::Reauth)
    }
}

#[cfg(test)]
mod tests;
