//! Stored record of an agent: its manifest, and the signed ledger that proves the person's grants.

use std::collections::BTreeMap;

use nuncio_core::agent::Sensitivity;
use nuncio_core::ids::{AgentId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{self, LedgerEntry, LedgerState};
use nuncio_core::manifest::{CheckedManifest, Manifest, ScopePresets};
use nuncio_core::person::Device as KeyedDevice;
use nuncio_core::time::Timestamp;
use nuncio_identity::ledger::DeviceSignatureVerifier;
use nuncio_identity::seal::KeyStoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::localized_text::ScopeTexts;
use crate::record_store::RecordStore;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KnownAgent {
    pub agent: AgentId,
    /// Display name chosen by the agent, sanitised.
    pub name: String,
    /// The agent's description of itself, sanitised.
    #[serde(default)]
    pub description: Option<String>,
    /// Version of the stored manifest.
    pub version: u64,
    /// The agent's manifest as last fetched.
    pub manifest: Value,
    /// Entries of the consent ledger between the agent and the person.
    pub entries: Vec<LedgerEntry>,
    /// The person's trusted devices; the ledger is verified with their keys.
    pub devices: Vec<KeyedDevice>,
    /// Number of the highest ledger entry ever seen per relation; a ledger that ends earlier is rejected as a rollback.
    pub seen: BTreeMap<RelationId, u64>,
    /// Sensitivity that each scope had when the person consented.
    #[serde(default)]
    pub accepted: BTreeMap<ScopeId, Sensitivity>,
    /// Higher sensitivities that the person set for scopes of this agent.
    #[serde(default)]
    pub stricter: BTreeMap<ScopeId, Sensitivity>,
    /// Used one-time grants: per relation and scope, the number of the ledger entry that granted the scope.
    #[serde(default)]
    pub used: BTreeMap<RelationId, BTreeMap<ScopeId, u64>>,
    /// Whether the person revoked all grants on this device and the relay has not recorded it yet.
    #[serde(default)]
    pub taken_back: bool,
    /// Time at which the agent's data was last refreshed.
    pub at: Timestamp,
}

impl KnownAgent {
    /// New record of an agent, without manifest and ledger.
    #[must_use]
    pub fn new(agent: AgentId, now: Timestamp) -> Self {
        Self {
            name: agent.to_string(),
            agent,
            description: None,
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

    /// The agent's manifest after validation; `None` if it is missing or invalid.
    #[must_use]
    pub fn manifest(&self, presets: &ScopePresets) -> Option<CheckedManifest> {
        Manifest::check(self.manifest.clone(), presets).ok()
    }

    /// Label and description of a scope; `None` if the manifest does not declare the scope.
    pub(crate) fn scope_texts(&self, scope: &ScopeId, presets: &ScopePresets) -> Option<ScopeTexts> {
        let checked = self.manifest(presets)?;
        checked.manifest.scope(scope.as_str()).map(|declared| ScopeTexts::of(presets, declared))
    }

    /// The person's current grants; `None` if the ledger does not verify, was rolled back, or the relation has ended.
    #[must_use]
    pub fn standing(&self, person: &PersonName) -> Option<LedgerState> {
        let standing = ledger::verify(&self.entries, &self.devices, &DeviceSignatureVerifier).ok()?;
        let seen = self.entries.first().and_then(|first| self.seen.get(&first.relation_id)).copied();
        let complete = standing.head.seq >= seen.unwrap_or_default();
        let theirs = standing.agent == self.agent && standing.person == *person;
        (theirs && complete && !standing.ended && !self.taken_back).then_some(standing)
    }

    /// Records the number of the highest ledger entry seen; it never decreases.
    pub(crate) fn record_seen(&mut self, relation: &RelationId, seq: u64) {
        let seen = self.seen.entry(relation.clone()).or_default();
        *seen = seq.max(*seen);
    }

    #[must_use]
    pub fn allows(&self, standing: &LedgerState, scope: &ScopeId, now: Timestamp) -> bool {
        standing.effective(now).any(|granted| granted == scope) && !self.is_used_up(standing, scope)
    }

    /// Whether a scope was granted for one call and that call was made.
    fn is_used_up(&self, standing: &LedgerState, scope: &ScopeId) -> bool {
        let once = standing.granted.get(scope) == Some(&nuncio_core::grant::GrantTerm::Once);
        let used = self.used.get(&standing.relation).and_then(|used| used.get(scope));
        once && used.is_some_and(|used| *used >= self.granted_at_seq(scope))
    }

    /// Marks the current grant of a scope as used; this matters for one-time grants only.
    pub(crate) fn spend(&mut self, scope: &ScopeId) {
        if let Some(first) = self.entries.first() {
            let (relation, given) = (first.relation_id.clone(), self.granted_at_seq(scope));
            self.used.entry(relation).or_default().insert(scope.clone(), given);
        }
    }

    /// Whether another device might allow a call that this device refuses: a ledger entry is signed by a device unknown
    /// here, or a one-time grant may still be unused there.
    pub(crate) fn is_unsure(&self, person: &PersonName, scope: &ScopeId) -> bool {
        let proved = ledger::verify(&self.entries, &self.devices, &DeviceSignatureVerifier);
        let unknown = matches!(proved, Err(ledger::LedgerFault::UnknownDevice { .. }));
        let spent = || self.standing(person).is_some_and(|standing| self.is_used_up(&standing, scope));
        unknown || self.has_other_devices() && spent()
    }

    /// Whether the person has another active device.
    pub(crate) fn has_other_devices(&self) -> bool {
        self.devices.iter().filter(|device| device.revoked_at.is_none()).count() > 1
    }

    /// Number of the last ledger entry that granted a scope; zero if none did.
    #[must_use]
    pub fn granted_at_seq(&self, scope: &ScopeId) -> u64 {
        let gives = |entry: &&LedgerEntry| entry.action.allows() && entry.scopes.contains(scope);
        self.entries.iter().rev().find(gives).map_or(0, |entry| entry.seq)
    }

    /// Effective sensitivity of a scope: the highest of manifest, earlier consent, floors and the person's own setting.
    #[must_use]
    pub fn stake(&self, scope: &ScopeId, published: Sensitivity, floors: [Option<Sensitivity>; 2]) -> Sensitivity {
        let least = self.stake_at_least(scope, published, floors);
        self.stricter.get(scope).map_or(least, |own| least.max(*own))
    }

    /// Effective sensitivity of a scope before the person's own setting, which can only raise it.
    #[must_use]
    pub fn stake_at_least(
        &self,
        scope: &ScopeId,
        published: Sensitivity,
        floors: [Option<Sensitivity>; 2],
    ) -> Sensitivity {
        self.accepted.get(scope).copied().into_iter().chain(floors.into_iter().flatten()).fold(published, Ord::max)
    }
}

fn name(agent: &AgentId) -> String {
    format!("agent/{agent}")
}

pub(crate) fn load(records: &RecordStore, agent: &AgentId) -> Result<Option<KnownAgent>, KeyStoreError> {
    records.get(&name(agent))
}

pub(crate) fn all(records: &RecordStore) -> Result<Vec<KnownAgent>, KeyStoreError> {
    records.all("agent/")?.into_iter().map(|(_, known)| known).collect()
}

pub(crate) fn put(known: &KnownAgent) -> nuncio_identity::seal::SealedRecordChange {
    RecordStore::put(&name(&known.agent), known)
}

pub(crate) fn delete(agent: &AgentId) -> nuncio_identity::seal::SealedRecordChange {
    RecordStore::delete(&name(agent))
}

#[cfg(test)]
mod tests;
