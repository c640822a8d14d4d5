//! What people allow agents served here by their own word, kept in memory because every call asks.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use nuncio_core::audit::ChainHead;
use nuncio_core::audit::references::{LedgerReference, PermissionSource};
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, AgentName, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::relation::Relation;
use nuncio_core::time::Timestamp;

use super::{AccessTable, Caller, Hold};
use crate::Engine;
use crate::error::EngineError;

/// The active relations with agents served here.
#[derive(Debug, Default)]
pub(super) struct Consents {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    relations: HashMap<PersonName, HashMap<AgentId, Relation>>,
    /// Counts the changes, so that what was read before one does not undo it.
    edition: u64,
}

impl Consents {
    /// Whether the person allows it at that moment.
    pub(super) fn hold_by_rule(
        &self,
        principal: &Principal,
        agent: &AgentName,
        scope: &ScopeId,
        now: Timestamp,
    ) -> (Hold, Option<PermissionSource>) {
        let no = (Hold::No, None);
        let Principal::Person(person) = principal else { return no };
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let Some(relation) = table.relations.get(person).and_then(|of| of.get(agent.as_str())) else { return no };
        let hold = match relation.effective(now).find(|grant| grant.scope == *scope) {
            None => return no,
            Some(grant) if grant.term == GrantTerm::Once => Hold::Once(grant.id.clone()),
            Some(_) => Hold::Lasting,
        };
        let ChainHead { seq, hash } = relation.ledger;
        (hold, Some(PermissionSource::Ledger(LedgerReference { hash, relation: relation.id.clone(), seq })))
    }

    fn edition(&self) -> u64 {
        self.table.read().unwrap_or_else(PoisonError::into_inner).edition
    }

    /// Takes these for all there are, unless something changed since that edition.
    fn replace(&self, relations: Vec<Relation>, edition: u64) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.edition != edition {
            return false;
        }
        table.relations.clear();
        for relation in relations {
            table.put(relation);
        }
        true
    }
}

impl Table {
    fn put(&mut self, relation: Relation) {
        // The chain runs only tools of agents served here.
        if relation.agent.as_name().is_none() {
            return;
        }
        let of_person = self.relations.entry(relation.person.clone()).or_default();
        if relation.is_active() {
            of_person.insert(relation.agent.clone(), relation);
        } else if of_person.get(&relation.agent).is_some_and(|known| known.id == relation.id) {
            of_person.remove(&relation.agent);
        }
    }
}

impl AccessTable {
    /// A relation is as given from now on.
    pub(crate) fn set_consent(&self, relation: &Relation) {
        let mut table = self.consents.table.write().unwrap_or_else(PoisonError::into_inner);
        table.edition += 1;
        let known = table.relations.get(&relation.person).and_then(|of| of.get(&relation.agent));
        // Two who committed one after the other may come here the other way round.
        let is_old = known.is_some_and(|known| known.id == relation.id && known.revision > relation.revision);
        if !is_old {
            table.put(relation.clone());
        }
    }
}

impl Engine {
    /// Whether a caller has a scope of an agent's that is used on their person's device: the person's word
    /// counts, and a key or token that has less than it has no more by it. Of an agent whose people say
    /// yes elsewhere, their device knows.
    pub(crate) fn hold_on_device(
        &self,
        caller: &Caller,
        agent: &AgentName,
        scope: &ScopeId,
    ) -> (Hold, Option<PermissionSource>) {
        let (table, now) = (self.access_table(), self.now());
        // By principal, not by credential: a call that waited in a queue still has its principal.
        let bounded = matches!(caller.principal, Principal::Key(_) | Principal::OAuth { .. });
        if bounded && table.hold(caller, agent, scope, now) == Hold::No {
            return (Hold::No, None);
        }
        match &caller.person {
            None => (Hold::No, None),
            Some(_) if self.limits().relay.elsewhere.contains(agent) => {
                (Hold::Lasting, Some(PermissionSource::OtherRelay))
            }
            Some(person) => table.consents.hold_by_rule(&Principal::Person(person.clone()), agent, scope, now),
        }
    }

    /// Reads what people allow anew.
    pub(super) async fn reload_consents(&self) -> Result<(), EngineError> {
        let consents = &self.access_table().consents;
        loop {
            let edition = consents.edition();
            let relations = self.store().active_relations(None).await?;
            if consents.replace(relations, edition) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Caller;
    use nuncio_core::agent::Sensitivity;
    use nuncio_core::ids::{GrantId, RelationId};
    use nuncio_core::relation::{PendingReauth, RelationState, ScopeGrant};

    fn relation(term: GrantTerm) -> Relation {
        let mut relation = Relation::new(
            RelationId::parse("rel_1").unwrap(),
            PersonName::parse("ada").unwrap(),
            AgentId::parse("hotel").unwrap(),
            Timestamp::from_millis(0),
        );
        relation.grants.push(ScopeGrant {
            id: GrantId::parse("con_1").unwrap(),
            scope: ScopeId::parse("clipboard:read").unwrap(),
            term,
            sensitivity: Sensitivity::Medium,
            given_at: Timestamp::from_millis(0),
        });
        relation
    }

    fn hold(table: &AccessTable, person: &str, scope: &str, now: i64) -> Hold {
        let caller = Caller::new(Principal::Person(PersonName::parse(person).unwrap()));
        let agent = AgentName::parse("hotel").unwrap();
        table.hold(&caller, &agent, &ScopeId::parse(scope).unwrap(), Timestamp::from_millis(now))
    }

    #[test]
    fn a_persons_word_holds_for_them_their_scope_and_its_time() {
        let table = AccessTable::new(Vec::new());
        table.set_consent(&relation(GrantTerm::Until(Timestamp::from_millis(10))));
        assert_eq!(hold(&table, "ada", "clipboard:read", 9), Hold::Lasting);
        assert_eq!(hold(&table, "ada", "clipboard:read", 10), Hold::No);
        assert_eq!(hold(&table, "ada", "location:read", 9), Hold::No);
        assert_eq!(hold(&table, "bob", "clipboard:read", 9), Hold::No);
    }

    #[test]
    fn what_is_suspended_used_or_revoked_holds_no_more() {
        let table = AccessTable::new(Vec::new());
        let once = relation(GrantTerm::Once);
        table.set_consent(&once);
        assert_eq!(hold(&table, "ada", "clipboard:read", 0), Hold::Once(once.grants[0].id.clone()));
        let pending = PendingReauth {
            scopes: vec![once.grants[0].scope.clone()],
            version: 2,
            hash: None,
            since: Timestamp::from_millis(0),
        };
        table.set_consent(&Relation { pending: Some(pending), revision: 1, ..once.clone() });
        assert_eq!(hold(&table, "ada", "clipboard:read", 0), Hold::No);
        // One that comes late does not bring back what was.
        table.set_consent(&once);
        assert_eq!(hold(&table, "ada", "clipboard:read", 0), Hold::No);
        table.set_consent(&Relation { revision: 2, ..once.clone() });
        assert_ne!(hold(&table, "ada", "clipboard:read", 0), Hold::No);
        let state = RelationState::Revoked { at: Timestamp::from_millis(0) };
        table.set_consent(&Relation { state, revision: 3, ..once });
        assert_eq!(hold(&table, "ada", "clipboard:read", 0), Hold::No);
    }

    #[test]
    fn what_was_read_before_a_change_does_not_undo_it() {
        let table = AccessTable::new(Vec::new());
        let edition = table.consents.edition();
        table.set_consent(&relation(GrantTerm::UntilRevoked));
        assert!(!table.consents.replace(Vec::new(), edition));
        assert_eq!(hold(&table, "ada", "clipboard:read", 0), Hold::Lasting);
        assert!(table.consents.replace(Vec::new(), table.consents.edition()));
        assert_eq!(hold(&table, "ada", "clipboard:read", 0), Hold::No);
    }
}
