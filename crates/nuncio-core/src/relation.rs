//! Relations between a person and an agent: granted scopes, the accepted manifest, and scopes that need new consent.
//! Every transition is a pure function and produces a ledger entry.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::agent::Sensitivity;
use crate::audit::ChainHead;
use crate::digest::Digest;
use crate::grant::GrantTerm;
use crate::ids::{AgentId, DeviceId, GrantId, PersonName, RelationId, ScopeId};
use crate::ledger::{LedgerAction, LedgerActor, LedgerEntry};
use crate::time::Timestamp;

mod change;

pub use change::{ManifestComparison, RelationChange};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    pub id: RelationId,
    pub person: PersonName,
    pub agent: AgentId,
    pub state: RelationState,
    pub grants: Vec<ScopeGrant>,
    /// Manifest that the person last consented to.
    pub accepted: ManifestRef,
    /// Scopes of the relation that need new consent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pending: Option<PendingReauth>,
    /// Position and hash of the last entry of the relation's ledger.
    pub ledger: ChainHead,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change of the relation, for optimistic locking.
    pub revision: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RelationState {
    Active,
    /// The relation has ended permanently.
    Revoked {
        at: Timestamp,
    },
}

/// A permission that a person gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeGrant {
    /// Id of the grant, by which a one-time permission is consumed.
    pub id: GrantId,
    pub scope: ScopeId,
    pub term: GrantTerm,
    /// The scope's sensitivity at the time of consent; a later, lower sensitivity does not apply without new consent.
    pub sensitivity: Sensitivity,
    pub given_at: Timestamp,
}

impl ScopeGrant {
    /// Whether the granted scope has not expired at `now`.
    #[must_use]
    pub fn holds_at(&self, now: Timestamp) -> bool {
        !matches!(self.term, GrantTerm::Until(end) if now >= end)
    }
}

/// A manifest version, by number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRef {
    pub version: u64,
    /// Hash of the manifest; `None` if the manifest was cleared.
    pub hash: Option<Digest>,
}

/// Scopes that need new consent after a changed manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingReauth {
    /// Scopes that need new consent, sorted. Granted ones are suspended; the others are new.
    pub scopes: Vec<ScopeId>,
    /// Version of the agent's current manifest.
    pub version: u64,
    pub hash: Option<Digest>,
    /// Time of the first manifest change that needs consent.
    pub since: Timestamp,
}

/// A scope that a person wants to grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeToGrant {
    pub scope: ScopeId,
    pub term: GrantTerm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RelationChangeError {
    #[error("the relation has ended")]
    Ended,
    /// The ledger entry does not follow the last one of this relation's ledger.
    #[error("the entry is not the next one of this relation")]
    NotNext,
    /// The ledger entry has another action than the requested one.
    #[error("the entry has another action than requested")]
    OtherAction,
}

impl Relation {
    /// A relation without grants and with an empty ledger.
    #[must_use]
    pub fn new(id: RelationId, person: PersonName, agent: AgentId, now: Timestamp) -> Self {
        Self {
            id,
            person,
            agent,
            state: RelationState::Active,
            grants: Vec::new(),
            accepted: ManifestRef { version: 0, hash: None },
            pending: None,
            ledger: ChainHead::START,
            created_at: now,
            updated_at: now,
            revision: 0,
        }
    }

    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == RelationState::Active
    }

    #[must_use]
    pub fn grant(&self, scope: &ScopeId) -> Option<&ScopeGrant> {
        self.grants.iter().find(|grant| grant.scope == *scope)
    }

    /// Whether the scope needs new consent.
    #[must_use]
    pub fn is_pending(&self, scope: &ScopeId) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.scopes.contains(scope))
    }

    /// Scopes that are granted but suspended.
    pub fn suspended(&self) -> impl Iterator<Item = &ScopeId> {
        self.grants.iter().map(|grant| &grant.scope).filter(|scope| self.is_pending(scope))
    }

    /// Permissions usable at `now`: granted, not suspended, not expired.
    pub fn effective(&self, now: Timestamp) -> impl Iterator<Item = &ScopeGrant> {
        let active = self.is_active();
        self.grants.iter().filter(move |grant| active && grant.holds_at(now) && !self.is_pending(&grant.scope))
    }

    /// The sensitivity that applies to a scope: the higher one of the consented and the now published sensitivity. A
    /// lowered sensitivity counts only after new consent.
    #[must_use]
    pub fn sensitivity(&self, scope: &ScopeId, published: Sensitivity) -> Sensitivity {
        self.grant(scope).map_or(published, |grant| grant.sensitivity.max(published))
    }

    /// An unsigned ledger entry by which the person grants exactly these scopes.
    #[must_use]
    pub fn draft_grant(
        &self,
        requests: &[ScopeToGrant],
        manifest: ManifestRef,
        device: &DeviceId,
        at: Timestamp,
    ) -> LedgerEntry {
        let action = if self.pending.is_some() { LedgerAction::Reauth } else { LedgerAction::Grant };
        let scopes: BTreeSet<_> = requests.iter().map(|request| request.scope.clone()).collect();
        let terms = requests.iter().filter(|request| request.term != GrantTerm::UntilRevoked);
        LedgerEntry {
            actor: LedgerActor::Person(self.person.clone()),
            terms: terms.map(|request| (request.scope.clone(), request.term)).collect(),
            device_id: Some(device.clone()),
            ..self.draft(action, scopes, manifest, at)
        }
    }

    /// An unsigned ledger entry by which the person ends the relation.
    #[must_use]
    pub fn draft_revoke(&self, device: &DeviceId, at: Timestamp) -> LedgerEntry {
        let scopes = self.grants.iter().map(|grant| grant.scope.clone()).collect();
        LedgerEntry {
            actor: LedgerActor::Person(self.person.clone()),
            device_id: Some(device.clone()),
            ..self.draft(LedgerAction::Revoke, scopes, self.accepted, at)
        }
    }

    /// The next ledger entry, made by the server.
    fn draft(
        &self,
        action: LedgerAction,
        scopes: BTreeSet<ScopeId>,
        manifest: ManifestRef,
        at: Timestamp,
    ) -> LedgerEntry {
        LedgerEntry {
            seq: self.ledger.seq + 1,
            prev_hash: self.ledger.hash,
            relation_id: self.id.clone(),
            agent_id: self.agent.clone(),
            actor: LedgerActor::Server,
            action,
            scopes: scopes.into_iter().collect(),
            terms: BTreeMap::new(),
            manifest_version: manifest.version,
            manifest_hash: manifest.hash,
            at,
            device_id: None,
            signature: None,
        }
    }

    /// Applies the person's signed ledger entry: grants exactly the scopes it names and clears pending ones. The caller
    /// has verified its signature. `level` gives the current sensitivity of a scope; `name` generates grant ids.
    ///
    /// Fails if the relation has ended, or the ledger entry is not the next one or is neither a grant nor a renewed
    /// consent.
    pub fn accept(
        &self,
        entry: &LedgerEntry,
        level: impl Fn(&ScopeId) -> Sensitivity,
        mut name: impl FnMut() -> GrantId,
    ) -> Result<Self, RelationChangeError> {
        if !entry.action.allows() {
            return Err(RelationChangeError::OtherAction);
        }
        let mut next = self.take(entry)?;
        let granted = |scope: &ScopeId| ScopeGrant {
            id: name(),
            scope: scope.clone(),
            term: entry.term(scope).unwrap_or(GrantTerm::UntilRevoked),
            sensitivity: level(scope),
            given_at: entry.at,
        };
        next.grants = entry.scopes.iter().map(granted).collect();
        next.accepted = ManifestRef { version: entry.manifest_version, hash: entry.manifest_hash };
        next.pending = None;
        Ok(next)
    }

    /// Applies a ledger entry that ends the relation. The caller has verified its signature. Fails if the relation has
    /// ended, or the entry is not the next one or no revocation.
    pub fn revoke(&self, entry: &LedgerEntry) -> Result<Self, RelationChangeError> {
        if entry.action != LedgerAction::Revoke {
            return Err(RelationChangeError::OtherAction);
        }
        let mut next = self.take(entry)?;
        next.state = RelationState::Revoked { at: entry.at };
        next.grants.clear();
        next.pending = None;
        Ok(next)
    }

    /// Ends the relation on behalf of the server and returns the ledger entry.
    pub fn end(&self, at: Timestamp) -> Result<(Self, LedgerEntry), RelationChangeError> {
        let scopes = self.grants.iter().map(|grant| grant.scope.clone()).collect();
        let entry = self.draft(LedgerAction::Revoke, scopes, self.accepted, at.max(self.updated_at));
        Ok((self.revoke(&entry)?, entry))
    }

    /// Consumes a one-time grant; `None` if no such grant exists. The ledger has no entry for the use: the signed grant
    /// stays, and the audit record shows its use.
    #[must_use]
    pub fn use_once(&self, grant: &GrantId) -> Option<Self> {
        let index = self.grants.iter().position(|one| one.id == *grant && one.term == GrantTerm::Once)?;
        let mut next = self.clone();
        next.grants.remove(index);
        next.revision += 1;
        Some(next)
    }

    /// Removes expired permissions from the relation with a ledger entry; `None` if none expired.
    #[must_use]
    pub fn expire(&self, now: Timestamp) -> Option<(Self, LedgerEntry)> {
        let over = self.grants.iter().filter(|grant| !grant.holds_at(now)).map(|grant| grant.scope.clone()).collect();
        self.prune(over, self.accepted, now)
    }

    /// Removes granted scopes from the relation with a ledger entry; `None` if `scopes` is empty or the relation has
    /// ended.
    fn prune(&self, scopes: BTreeSet<ScopeId>, manifest: ManifestRef, now: Timestamp) -> Option<(Self, LedgerEntry)> {
        if scopes.is_empty() || !self.is_active() {
            return None;
        }
        let entry = self.draft(LedgerAction::Prune, scopes, manifest, now.max(self.updated_at));
        let mut next = self.take(&entry).ok()?;
        next.grants.retain(|grant| !entry.scopes.contains(&grant.scope));
        Some((next, entry))
    }

    /// The relation with the ledger entry as head of its ledger; the grants are unchanged. Fails if the relation has
    /// ended or the entry is not the next one.
    fn take(&self, entry: &LedgerEntry) -> Result<Self, RelationChangeError> {
        if !self.is_active() {
            return Err(RelationChangeError::Ended);
        }
        let next = entry.seq == self.ledger.seq + 1
            && entry.prev_hash == self.ledger.hash
            && entry.relation_id == self.id
            && entry.agent_id == self.agent;
        if !next {
            return Err(RelationChangeError::NotNext);
        }
        Ok(Self {
            ledger: ChainHead { seq: entry.seq, hash: entry.hash() },
            updated_at: entry.at,
            revision: self.revision + 1,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests;
