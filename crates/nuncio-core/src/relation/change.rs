//! The effect of a new manifest version on a relation.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::ids::ScopeId;
use crate::ledger::{LedgerAction, LedgerEntry};
use crate::time::Timestamp;

use super::{ManifestRef, PendingReauth, Relation};

/// A new manifest version compared with the one that the relation accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestComparison<'a> {
    pub version: u64,
    /// Hash of the new manifest; `None` if the manifest was cleared.
    pub hash: Option<Digest>,
    pub declared: &'a BTreeSet<ScopeId>,
    /// Scopes that the change judge reports as changed since the accepted version.
    pub changed: &'a BTreeSet<ScopeId>,
    /// Scopes that were not declared continuously since the accepted version: new, or removed and added again.
    pub fresh: &'a BTreeSet<ScopeId>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationChange {
    pub relation: Relation,
    /// New ledger entries of the relation, in order.
    pub entries: Vec<LedgerEntry>,
    /// Granted scopes that the manifest no longer declares.
    pub pruned: Vec<ScopeId>,
    /// Granted scopes that the new manifest version suspends.
    pub suspended: Vec<ScopeId>,
    /// Suspended scopes that the new manifest version makes usable again.
    pub restored: Vec<ScopeId>,
}

impl Relation {
    /// Applies a new manifest version to the relation: removes undeclared scopes, suspends changed ones, and restores
    /// those that are again as accepted. `None` if the relation does not change.
    #[must_use]
    pub fn with_manifest(&self, new: &ManifestComparison<'_>) -> Option<RelationChange> {
        if !self.is_active() {
            return None;
        }
        let manifest = ManifestRef { version: new.version, hash: new.hash };
        let at = new.at.max(self.updated_at);
        let before: BTreeSet<_> = self.suspended().cloned().collect();
        let undeclared = self.grants.iter().map(|grant| &grant.scope).filter(|scope| !new.declared.contains(*scope));
        let (mut next, mut entries) = match self.prune(undeclared.cloned().collect(), manifest, at) {
            Some((next, entry)) => (next, vec![entry]),
            None => (self.clone(), Vec::new()),
        };
        let pruned = entries.iter().flat_map(|entry| entry.scopes.clone()).collect();

        let granted: BTreeSet<_> =
            next.grants.iter().filter(|grant| grant.holds_at(at)).map(|grant| grant.scope.clone()).collect();
        let mut unconsented: BTreeSet<_> = new.changed.intersection(&granted).cloned().collect();
        unconsented.extend(new.fresh.iter().cloned());
        let since = self.pending.as_ref().map_or(at, |pending| pending.since);
        let scopes: Vec<_> = unconsented.iter().cloned().collect();
        next.pending =
            (!scopes.is_empty()).then_some(PendingReauth { scopes, version: new.version, hash: new.hash, since });

        let is_granted = |scope: &&ScopeId| next.grant(scope).is_some();
        let suspended: BTreeSet<_> = unconsented.difference(&before).filter(is_granted).cloned().collect();
        let restored: BTreeSet<_> = before.difference(&unconsented).filter(is_granted).cloned().collect();
        for (action, scopes) in [(LedgerAction::Suspend, &suspended), (LedgerAction::Restore, &restored)] {
            if scopes.is_empty() {
                continue;
            }
            let entry = next.draft(action, scopes.clone(), manifest, at);
            // `take` cannot fail, because the entry was drafted as the next one of an active relation.
            next = next.take(&entry).ok()?;
            entries.push(entry);
        }
        if entries.is_empty() {
            if next.pending == self.pending {
                return None;
            }
            next.updated_at = at;
            next.revision += 1;
        }
        Some(RelationChange {
            relation: next,
            entries,
            pruned,
            suspended: suspended.into_iter().collect(),
            restored: restored.into_iter().collect(),
        })
    }
}
