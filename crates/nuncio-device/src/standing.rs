//! What this device knows of an agent: its manifest as it is now, and what its own person allows it, proved from a
//! ledger of signatures.

use std::collections::BTreeMap;

use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{self, Entry, Standing};
use nuncio_core::manifest::{Checked, Manifest, Presets};
use nuncio_core::person::Device as KeyedDevice;
use nuncio_core::time::Timestamp;
use nuncio_identity::ledger::DeviceSignatures;
use nuncio_identity::seal::KeepError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::records::Records;

/// What is kept of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Known {
    /// Which agent.
    pub agent: AgentId,
    /// As it calls itself, without tricks.
    pub name: String,
    /// The version of its manifest.
    pub version: u64,
    /// Its manifest, as it was last seen.
    pub manifest: Value,
    /// The ledger between it and the person.
    pub entries: Vec<Entry>,
    /// The person's devices that this one trusts: with their keys the ledger is proved.
    pub devices: Vec<KeyedDevice>,
    /// The last entry of each ledger that was ever seen, by relation: an older one is no ledger.
    pub seen: BTreeMap<RelationId, u64>,
    /// How much was at stake for each scope when the person said yes, at the most.
    #[serde(default)]
    pub accepted: BTreeMap<ScopeId, Sensitivity>,
    /// Scopes the person wants to be asked about more than the manifest says.
    #[serde(default)]
    pub stricter: BTreeMap<ScopeId, Sensitivity>,
    /// Scopes that were allowed for once and were used, by the relation and the entry that allowed them.
    #[serde(default)]
    pub used: BTreeMap<RelationId, BTreeMap<ScopeId, u64>>,
    /// Whether the person took everything back, be it that the relay has not heard of it yet.
    #[serde(default)]
    pub taken_back: bool,
    /// When it was last looked at.
    pub at: Timestamp,
}

impl Known {
    /// One of whom nothing is known.
    #[must_use]
    pub fn new(agent: AgentId, now: Timestamp) -> Self {
        Self {
            name: agent.to_string(),
            agent,
            version: 0,
            manifest: Value::Null,
            entries: Vec::new(),
            devices: Vec::new(),
            seen: BTreeMap::new(),
            accepted: BTreeMap::new(),
            stricter: BTreeMap::new(),
            used: BTreeMap::new(),
            taken_back: false,
            at: now,
        }
    }

    /// Its manifest, checked like any that comes from outside; none when it has none or a wrong one.
    #[must_use]
    pub fn manifest(&self, presets: &Presets) -> Option<Checked> {
        Manifest::check(self.manifest.clone(), presets).ok()
    }

    /// What that person allows it, if the ledger holds and is not older than one that was seen.
    #[must_use]
    pub fn standing(&self, person: &PersonName) -> Option<Standing> {
        let standing = ledger::verify(&self.entries, &self.devices, &DeviceSignatures).ok()?;
        let seen = self.entries.first().and_then(|first| self.seen.get(&first.relation_id)).copied();
        let whole = standing.head.seq >= seen.unwrap_or_default();
        let theirs = standing.agent == self.agent && standing.person == *person;
        (theirs && whole && !standing.ended && !self.taken_back).then_some(standing)
    }

    /// Remembers how far a ledger has got; it does not go back.
    pub(crate) fn saw(&mut self, relation: &RelationId, seq: u64) {
        let seen = self.seen.entry(relation.clone()).or_default();
        *seen = seq.max(*seen);
    }

    /// Whether a scope may be used now.
    #[must_use]
    pub fn allows(&self, standing: &Standing, scope: &ScopeId, now: Timestamp) -> bool {
        standing.effective(now).any(|held| held == scope) && !self.is_spent(standing, scope)
    }

    /// Whether a scope was allowed for once, and that once is over.
    fn is_spent(&self, standing: &Standing, scope: &ScopeId) -> bool {
        let once = standing.granted.get(scope) == Some(&nuncio_core::grant::Term::Once);
        let used = self.used.get(&standing.relation).and_then(|used| used.get(scope));
        once && used.is_some_and(|used| *used >= self.given_at(scope))
    }

    /// Remembers that a scope was used.
    pub(crate) fn spend(&mut self, scope: &ScopeId) {
        let (relation, given) = (self.entries.first().map(|first| first.relation_id.clone()), self.given_at(scope));
        relation.into_iter().for_each(|relation| {
            self.used.entry(relation).or_default().insert(scope.clone(), given);
        });
    }

    /// Whether it is only this device that cannot say that a scope is allowed: it does not know who signed, or what was
    /// allowed for once may have been used on another, or not.
    pub(crate) fn is_unsure(&self, person: &PersonName, scope: &ScopeId) -> bool {
        let proved = ledger::verify(&self.entries, &self.devices, &DeviceSignatures);
        let unknown = matches!(proved, Err(ledger::Refused::UnknownDevice { .. }));
        let spent = || self.standing(person).is_some_and(|standing| self.is_spent(&standing, scope));
        unknown || self.has_other_devices() && spent()
    }

    /// Whether the person has another device that counts.
    pub(crate) fn has_other_devices(&self) -> bool {
        self.devices.iter().filter(|device| device.revoked_at.is_none()).count() > 1
    }

    /// The number of the entry that last allowed a scope.
    #[must_use]
    pub fn given_at(&self, scope: &ScopeId) -> u64 {
        let gives = |entry: &&Entry| entry.action.allows() && entry.scopes.contains(scope);
        self.entries.iter().rev().find(gives).map_or(0, |entry| entry.seq)
    }

    /// How much is at stake: the most of what is published now, what was accepted, every floor, and what the person
    /// wants. Nobody's word makes it less.
    #[must_use]
    pub fn stake(&self, scope: &ScopeId, published: Sensitivity, floors: [Option<Sensitivity>; 2]) -> Sensitivity {
        let least = self.stake_at_least(scope, published, floors);
        self.stricter.get(scope).map_or(least, |own| least.max(*own))
    }

    /// The same without what the person wants: they may make it more, and never less than this.
    #[must_use]
    pub fn stake_at_least(
        &self,
        scope: &ScopeId,
        published: Sensitivity,
        floors: [Option<Sensitivity>; 2],
    ) -> Sensitivity {
        self.accepted.get(scope).copied().into_iter().chain(floors.into_iter().flatten()).fold(published, Ord::max)
    }

    /// The hash of its manifest; none when it has none.
    #[must_use]
    pub fn hash(&self, presets: &Presets) -> Option<Digest> {
        self.manifest(presets).map(|checked| checked.hash)
    }
}

fn name(agent: &AgentId) -> String {
    format!("agent/{agent}")
}

/// What is known of an agent.
pub(crate) fn load(records: &Records, agent: &AgentId) -> Result<Option<Known>, KeepError> {
    records.get(&name(agent))
}

/// Everyone something is known of.
pub(crate) fn all(records: &Records) -> Result<Vec<Known>, KeepError> {
    let names = records.names("agent/")?;
    names.iter().filter_map(|name| records.get(name).transpose()).collect()
}

/// The change that keeps it.
pub(crate) fn put(known: &Known) -> nuncio_identity::seal::Change {
    Records::put(&name(&known.agent), known)
}

/// The change that forgets it.
pub(crate) fn gone(agent: &AgentId) -> nuncio_identity::seal::Change {
    Records::gone(&name(agent))
}

#[cfg(test)]
mod tests;
