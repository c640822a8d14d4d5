//! What a new version of an agent does to a relation.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::ids::ScopeId;
use crate::ledger::{Action, Entry};
use crate::time::Timestamp;

use super::{Manifested, PendingReauth, Relation};

/// A new version, as it looks from a relation that said yes to an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published<'a> {
    /// Its number.
    pub version: u64,
    /// Its hash; none when the manifest was cleared.
    pub hash: Option<Digest>,
    /// The scopes it declares.
    pub declared: &'a BTreeSet<ScopeId>,
    /// Those whose meaning the judge says changed since the accepted version.
    pub changed: &'a BTreeSet<ScopeId>,
    /// Those that were not there all the time since the accepted version: new, or gone and back.
    pub fresh: &'a BTreeSet<ScopeId>,
    /// When.
    pub at: Timestamp,
}

/// What a new version did to a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The relation from now on.
    pub relation: Relation,
    /// What its ledger says of it, in order.
    pub entries: Vec<Entry>,
    /// What the person allowed and the agent no longer asks for.
    pub pruned: Vec<ScopeId>,
    /// What was allowed and is suspended by this version.
    pub suspended: Vec<ScopeId>,
    /// What was suspended before and holds again.
    pub restored: Vec<ScopeId>,
}

impl Relation {
    /// Takes a new version into account: lets go of what it no longer asks for, suspends what changed,
    /// gives back what is again as it was accepted. None when nothing changes.
    #[must_use]
    pub fn judged(&self, new: &Published<'_>) -> Option<Judged> {
        if !self.is_active() {
            return None;
        }
        let manifest = Manifested { version: new.version, hash: new.hash };
        let at = new.at.max(self.updated_at);
        let before: BTreeSet<_> = self.suspended().cloned().collect();
        let gone = self.grants.iter().map(|grant| &grant.scope).filter(|scope| !new.declared.contains(*scope));
        let (mut next, mut entries) = match self.prune(gone.cloned().collect(), manifest, at) {
            Some((next, entry)) => (next, vec![entry]),
            None => (self.clone(), Vec::new()),
        };
        let pruned = entries.iter().flat_map(|entry| entry.scopes.clone()).collect();

        let granted: BTreeSet<_> =
            next.grants.iter().filter(|grant| grant.holds_at(at)).map(|grant| grant.scope.clone()).collect();
        let mut asked: BTreeSet<_> = new.changed.intersection(&granted).cloned().collect();
        asked.extend(new.fresh.iter().cloned());
        let since = self.pending.as_ref().map_or(at, |pending| pending.since);
        let scopes: Vec<_> = asked.iter().cloned().collect();
        next.pending =
            (!scopes.is_empty()).then_some(PendingReauth { scopes, version: new.version, hash: new.hash, since });

        let held = |scope: &&ScopeId| next.grant(scope).is_some();
        let suspended: BTreeSet<_> = asked.difference(&before).filter(held).cloned().collect();
        let restored: BTreeSet<_> = before.difference(&asked).filter(held).cloned().collect();
        for (action, scopes) in [(Action::Suspend, &suspended), (Action::Restore, &restored)] {
            if scopes.is_empty() {
                continue;
            }
            let entry = next.draft(action, scopes.clone(), manifest, at);
            // It is the next one of an active relation: it was drafted so.
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
        Some(Judged {
            relation: next,
            entries,
            pruned,
            suspended: suspended.into_iter().collect(),
            restored: restored.into_iter().collect(),
        })
    }
}
