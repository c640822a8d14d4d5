//! What is between one person and one agent: what the person allows, what they said yes to, and what
//! waits for a new yes. Every step is a pure function and leaves its entry in the ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::agent::Sensitivity;
use crate::audit::Head;
use crate::digest::Digest;
use crate::grant::Term;
use crate::ids::{AgentId, DeviceId, GrantId, PersonName, RelationId, ScopeId};
use crate::ledger::{Action, Actor, Entry};
use crate::time::Timestamp;

mod change;

pub use change::{Judged, Published};

/// A relation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    /// Names it.
    pub id: RelationId,
    /// The person.
    pub person: PersonName,
    /// The agent.
    pub agent: AgentId,
    /// Whether it goes on.
    pub state: RelationState,
    /// What the person allows, by scope.
    pub grants: Vec<ScopeGrant>,
    /// The version the person last said yes to.
    pub accepted: Manifested,
    /// What waits for a new yes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pending: Option<PendingReauth>,
    /// Where its ledger has got to.
    pub ledger: Head,
    /// Since when.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Counts its changes.
    pub revision: u64,
}

/// Whether a relation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RelationState {
    /// It does.
    Active,
    /// It was ended, for good.
    Revoked {
        /// When.
        at: Timestamp,
    },
}

/// One permission a person gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeGrant {
    /// Names it, so that one for a single call can be used up.
    pub id: GrantId,
    /// What.
    pub scope: ScopeId,
    /// For how long.
    pub term: Term,
    /// How much was at stake when they said yes; they are never asked less than that.
    pub sensitivity: Sensitivity,
    /// Since when.
    pub given_at: Timestamp,
}

impl ScopeGrant {
    /// Whether it still holds at that moment.
    #[must_use]
    pub fn holds_at(&self, now: Timestamp) -> bool {
        !matches!(self.term, Term::Until(end) if now >= end)
    }
}

/// A version of a manifest, by number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifested {
    /// Its number.
    pub version: u64,
    /// Its hash; none when it was cleared.
    pub hash: Option<Digest>,
}

/// What a change of the agent asks the person anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingReauth {
    /// Which scopes, sorted. Those that were allowed are suspended; the others are new.
    pub scopes: Vec<ScopeId>,
    /// The version as it is now.
    pub version: u64,
    /// Its hash.
    pub hash: Option<Digest>,
    /// Since when something waits.
    pub since: Timestamp,
}

/// What a person wants to allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// What.
    pub scope: ScopeId,
    /// For how long.
    pub term: Term,
}

/// Why a step is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RelationError {
    /// It is over.
    #[error("the relation has ended")]
    Ended,
    /// The entry is not the next one of this relation.
    #[error("the entry is not the next one of this relation")]
    NotNext,
    /// The entry does something else.
    #[error("the entry is of another kind")]
    OtherAction,
}

impl Relation {
    /// One in which nothing has happened yet.
    #[must_use]
    pub fn new(id: RelationId, person: PersonName, agent: AgentId, now: Timestamp) -> Self {
        Self {
            id,
            person,
            agent,
            state: RelationState::Active,
            grants: Vec::new(),
            accepted: Manifested { version: 0, hash: None },
            pending: None,
            ledger: Head::START,
            created_at: now,
            updated_at: now,
            revision: 0,
        }
    }

    /// Whether it goes on.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == RelationState::Active
    }

    /// What the person allows of that scope.
    #[must_use]
    pub fn grant(&self, scope: &ScopeId) -> Option<&ScopeGrant> {
        self.grants.iter().find(|grant| grant.scope == *scope)
    }

    /// Whether that scope waits for a new yes.
    #[must_use]
    pub fn is_pending(&self, scope: &ScopeId) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.scopes.contains(scope))
    }

    /// What is allowed and suspended.
    pub fn suspended(&self) -> impl Iterator<Item = &ScopeId> {
        self.grants.iter().map(|grant| &grant.scope).filter(|scope| self.is_pending(scope))
    }

    /// What may be used at that moment: allowed, not suspended, not over.
    pub fn effective(&self, now: Timestamp) -> impl Iterator<Item = &ScopeGrant> {
        let active = self.is_active();
        self.grants.iter().filter(move |grant| active && grant.holds_at(now) && !self.is_pending(&grant.scope))
    }

    /// How carefully the person is asked: as when they said yes or as it is published now, whichever is
    /// more. A sensitivity that was lowered counts only after a new yes.
    #[must_use]
    pub fn sensitivity(&self, scope: &ScopeId, published: Sensitivity) -> Sensitivity {
        self.grant(scope).map_or(published, |grant| grant.sensitivity.max(published))
    }

    /// The entry by which the person allows exactly these scopes, for a device to sign.
    #[must_use]
    pub fn draft_grant(&self, wishes: &[Wish], manifest: Manifested, device: &DeviceId, at: Timestamp) -> Entry {
        let action = if self.pending.is_some() { Action::Reauth } else { Action::Grant };
        let scopes: BTreeSet<_> = wishes.iter().map(|wish| wish.scope.clone()).collect();
        let terms = wishes.iter().filter(|wish| wish.term != Term::UntilRevoked);
        Entry {
            actor: Actor::Person(self.person.clone()),
            terms: terms.map(|wish| (wish.scope.clone(), wish.term)).collect(),
            device_id: Some(device.clone()),
            ..self.draft(action, scopes, manifest, at)
        }
    }

    /// The entry by which the person ends it, for a device to sign.
    #[must_use]
    pub fn draft_revoke(&self, device: &DeviceId, at: Timestamp) -> Entry {
        let scopes = self.grants.iter().map(|grant| grant.scope.clone()).collect();
        Entry {
            actor: Actor::Person(self.person.clone()),
            device_id: Some(device.clone()),
            ..self.draft(Action::Revoke, scopes, self.accepted, at)
        }
    }

    /// The next entry, made by the server.
    fn draft(&self, action: Action, scopes: BTreeSet<ScopeId>, manifest: Manifested, at: Timestamp) -> Entry {
        Entry {
            seq: self.ledger.seq + 1,
            prev_hash: self.ledger.hash,
            relation_id: self.id.clone(),
            agent_id: self.agent.clone(),
            actor: Actor::Server,
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

    /// The person's signed entry takes effect: it allows exactly what it names, and answers what waited.
    /// `level` is how much is at stake with a scope now; `name` makes names for grants.
    ///
    /// # Errors
    /// It is over, or the entry is not the next one.
    pub fn accept(
        &self,
        entry: &Entry,
        level: impl Fn(&ScopeId) -> Sensitivity,
        mut name: impl FnMut() -> GrantId,
    ) -> Result<Self, RelationError> {
        if !entry.action.allows() {
            return Err(RelationError::OtherAction);
        }
        let mut next = self.take(entry)?;
        let granted = |scope: &ScopeId| ScopeGrant {
            id: name(),
            scope: scope.clone(),
            term: entry.term(scope).unwrap_or(Term::UntilRevoked),
            sensitivity: level(scope),
            given_at: entry.at,
        };
        next.grants = entry.scopes.iter().map(granted).collect();
        next.accepted = Manifested { version: entry.manifest_version, hash: entry.manifest_hash };
        next.pending = None;
        Ok(next)
    }

    /// The entry that ends it takes effect.
    ///
    /// # Errors
    /// It is over, or the entry is not the next one.
    pub fn revoke(&self, entry: &Entry) -> Result<Self, RelationError> {
        if entry.action != Action::Revoke {
            return Err(RelationError::OtherAction);
        }
        let mut next = self.take(entry)?;
        next.state = RelationState::Revoked { at: entry.at };
        next.grants.clear();
        next.pending = None;
        Ok(next)
    }

    /// The server ends it: with the entry that says so.
    ///
    /// # Errors
    /// It is over.
    pub fn end(&self, at: Timestamp) -> Result<(Self, Entry), RelationError> {
        let scopes = self.grants.iter().map(|grant| grant.scope.clone()).collect();
        let entry = self.draft(Action::Revoke, scopes, self.accepted, at.max(self.updated_at));
        Ok((self.revoke(&entry)?, entry))
    }

    /// What was allowed for one call is used up; none when it is not there. The ledger does not say so:
    /// what was allowed stays signed, and the record of calls tells the use.
    #[must_use]
    pub fn use_once(&self, grant: &GrantId) -> Option<Self> {
        let place = self.grants.iter().position(|one| one.id == *grant && one.term == Term::Once)?;
        let mut next = self.clone();
        next.grants.remove(place);
        next.revision += 1;
        Some(next)
    }

    /// What was allowed until a moment that has passed is let go of, with the entry that says so; none
    /// when there is nothing.
    #[must_use]
    pub fn expire(&self, now: Timestamp) -> Option<(Self, Entry)> {
        let over = self.grants.iter().filter(|grant| !grant.holds_at(now)).map(|grant| grant.scope.clone()).collect();
        self.prune(over, self.accepted, now)
    }

    /// Takes these scopes away; none when there is nothing to take.
    fn prune(&self, scopes: BTreeSet<ScopeId>, manifest: Manifested, now: Timestamp) -> Option<(Self, Entry)> {
        if scopes.is_empty() || !self.is_active() {
            return None;
        }
        let entry = self.draft(Action::Prune, scopes, manifest, now.max(self.updated_at));
        let mut next = self.take(&entry).ok()?;
        next.grants.retain(|grant| !entry.scopes.contains(&grant.scope));
        Some((next, entry))
    }

    /// The relation with that entry at the end of its ledger.
    fn take(&self, entry: &Entry) -> Result<Self, RelationError> {
        if !self.is_active() {
            return Err(RelationError::Ended);
        }
        let next = entry.seq == self.ledger.seq + 1
            && entry.prev_hash == self.ledger.hash
            && entry.relation_id == self.id
            && entry.agent_id == self.agent;
        if !next {
            return Err(RelationError::NotNext);
        }
        Ok(Self {
            ledger: Head { seq: entry.seq, hash: entry.hash() },
            updated_at: entry.at,
            revision: self.revision + 1,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests;
