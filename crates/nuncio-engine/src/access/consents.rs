//! In-memory copy of what people allow the agents served here, because every call reads it.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use nuncio_core::agent::Tool;
use nuncio_core::audit::ChainHead;
use nuncio_core::audit::references::{LedgerReference, PermissionSource};
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, AgentName, GrantId, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::relation::Relation;
use nuncio_core::time::Timestamp;

use super::{AccessControl, Caller, KeyAndGrantTable, ScopePermission};
use crate::error::EngineError;

/// Active relations of people with agents of this server.
#[derive(Debug, Default)]
pub(super) struct ActiveRelations {
    table: RwLock<ActiveRelationTable>,
}

#[derive(Debug, Default)]
struct ActiveRelationTable {
    relations: HashMap<PersonName, HashMap<AgentId, Relation>>,
    /// Number incremented by every consent change, so that a reload that started before a change does not undo it.
    edition: u64,
}

impl ActiveRelations {
    /// The permission that the person's consent gives at `now`; `None` also for a principal that is not a person.
    pub(super) fn permission(
        &self,
        principal: &Principal,
        agent: &AgentName,
        scope: &ScopeId,
        now: Timestamp,
    ) -> Option<ScopePermission> {
        let Principal::Person(person) = principal else { return None };
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let relation = table.relations.get(person)?.get(agent.as_str())?;
        let grant = relation.effective(now).find(|grant| grant.scope == *scope)?;
        let ChainHead { seq, hash } = relation.ledger;
        Some(ScopePermission {
            source: PermissionSource::Ledger(LedgerReference { hash, relation: relation.id.clone(), seq }),
            once: (grant.term == GrantTerm::Once).then(|| grant.id.clone()),
        })
    }

    /// Whether the person granted the scope and the agent changed since, so that the person must confirm it again.
    pub(super) fn is_suspended(&self, person: &PersonName, agent: &AgentName, scope: &ScopeId) -> bool {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let relation = table.relations.get(person).and_then(|relations| relations.get(agent.as_str()));
        relation.is_some_and(|relation| relation.is_active() && relation.suspended().any(|id| id == scope))
    }

    /// The relation that has the one-time consent `grant`, with that consent used up; the cache is unchanged. `None` if
    /// no cached relation has it.
    pub(super) fn with_used(&self, grant: &GrantId) -> Option<Relation> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.relations.values().flat_map(HashMap::values).find_map(|relation| relation.use_once(grant))
    }

    fn edition(&self) -> u64 {
        self.table.read().unwrap_or_else(PoisonError::into_inner).edition
    }

    /// Replaces all relations; changes nothing and returns false if one changed since `edition` was read.
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

impl ActiveRelationTable {
    fn put(&mut self, relation: Relation) {
        // The call chain runs only tools of this server's agents, so other relations are not cached.
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

impl KeyAndGrantTable {
    /// Updates the cached relation after a commit.
    pub(crate) fn set_consent(&self, relation: &Relation) {
        let mut table = self.consents.table.write().unwrap_or_else(PoisonError::into_inner);
        table.edition += 1;
        let known = table.relations.get(&relation.person).and_then(|of| of.get(&relation.agent));
        // Two commits may reach the cache in reverse order.
        let is_old = known.is_some_and(|known| known.id == relation.id && known.revision > relation.revision);
        if !is_old {
            table.put(relation.clone());
        }
    }
}

impl AccessControl {
    /// The caller's permission to use a tool now; whatever needs to know it asks this function. For a tool on the
    /// person's device the person's consent decides, and a key or OAuth caller also needs the scope itself; a caller
    /// without a person has no permission. For agents whose people use another relay, the device decides.
    pub(crate) fn tool_permission(&self, caller: &Caller, agent: &AgentName, tool: &Tool) -> Option<ScopePermission> {
        let Some(scope) = &tool.scope else { return Some(ScopePermission::lasting(PermissionSource::NoScope)) };
        let now = self.context.now();
        if !tool.on_device() {
            return self.table.permission(caller, agent, scope, now);
        }
        // Decided by principal, not by credential: a call that waited in the queue still has its principal.
        let bounded = matches!(caller.principal, Principal::Key(_) | Principal::OAuth { .. });
        if bounded && !self.has_scope(caller, agent, scope) {
            return None;
        }
        let person = Principal::Person(caller.person.clone()?);
        match self.context.limits.relay.elsewhere.contains(agent) {
            true => Some(ScopePermission::lasting(PermissionSource::OtherRelay)),
            false => self.table.consents.permission(&person, agent, scope, now),
        }
    }

    /// Whether the caller's person must confirm the scope again, because the agent changed since they granted it.
    pub(crate) fn is_suspended(&self, caller: &Caller, agent: &AgentName, scope: &ScopeId) -> bool {
        caller.person.as_ref().is_some_and(|person| self.table.consents.is_suspended(person, agent, scope))
    }

    pub(super) async fn reload_consents(&self) -> Result<(), EngineError> {
        let consents = &self.table.consents;
        loop {
            let edition = consents.edition();
            let relations = self.relation_store.active_relations(None).await?;
            if consents.replace(relations, edition) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::agent::Sensitivity;
    use nuncio_core::ids::RelationId;
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

    const LASTING: Option<Option<GrantId>> = Some(None);
    const DENIED: Option<Option<GrantId>> = None;

    /// Permission of a person: `None` if denied, `Some(None)` if lasting, or the one-time consent.
    fn check(table: &KeyAndGrantTable, person: &str, scope: &str, now: i64) -> Option<Option<GrantId>> {
        let caller = Caller::new(Principal::Person(PersonName::parse(person).unwrap()));
        let agent = AgentName::parse("hotel").unwrap();
        let scope = ScopeId::parse(scope).unwrap();
        let permission = table.permission(&caller, &agent, &scope, Timestamp::from_millis(now));
        permission.map(|permission| permission.once)
    }

    #[test]
    fn consent_allows_only_its_person_and_scope_until_its_expiry() {
        let table = KeyAndGrantTable::new(Vec::new());
        table.set_consent(&relation(GrantTerm::Until(Timestamp::from_millis(10))));
        assert_eq!(check(&table, "ada", "clipboard:read", 9), LASTING);
        assert_eq!(check(&table, "ada", "clipboard:read", 10), DENIED);
        assert_eq!(check(&table, "ada", "location:read", 9), DENIED);
        assert_eq!(check(&table, "bob", "clipboard:read", 9), DENIED);
    }

    #[test]
    fn permission_is_denied_while_consent_is_suspended_or_revoked() {
        let table = KeyAndGrantTable::new(Vec::new());
        let once = relation(GrantTerm::Once);
        table.set_consent(&once);
        assert_eq!(check(&table, "ada", "clipboard:read", 0), Some(Some(once.grants[0].id.clone())));
        let pending = PendingReauth {
            scopes: vec![once.grants[0].scope.clone()],
            version: 2,
            hash: None,
            since: Timestamp::from_millis(0),
        };
        table.set_consent(&Relation { pending: Some(pending), revision: 1, ..once.clone() });
        assert_eq!(check(&table, "ada", "clipboard:read", 0), DENIED);
        let is_suspended = |person: &str, scope: &str| {
            let (person, agent) = (PersonName::parse(person).unwrap(), AgentName::parse("hotel").unwrap());
            table.consents.is_suspended(&person, &agent, &ScopeId::parse(scope).unwrap())
        };
        assert!(is_suspended("ada", "clipboard:read"));
        assert!(!is_suspended("ada", "location:read") && !is_suspended("bob", "clipboard:read"));
        // An older revision that arrives late is ignored.
        table.set_consent(&once);
        assert_eq!(check(&table, "ada", "clipboard:read", 0), DENIED);
        table.set_consent(&Relation { revision: 2, ..once.clone() });
        assert_ne!(check(&table, "ada", "clipboard:read", 0), DENIED);
        let state = RelationState::Revoked { at: Timestamp::from_millis(0) };
        table.set_consent(&Relation { state, revision: 3, ..once });
        assert_eq!(check(&table, "ada", "clipboard:read", 0), DENIED);
    }

    #[test]
    fn consent_reload_started_before_a_change_does_not_overwrite_it() {
        let table = KeyAndGrantTable::new(Vec::new());
        let edition = table.consents.edition();
        table.set_consent(&relation(GrantTerm::UntilRevoked));
        assert!(!table.consents.replace(Vec::new(), edition));
        assert_eq!(check(&table, "ada", "clipboard:read", 0), LASTING);
        assert!(table.consents.replace(Vec::new(), table.consents.edition()));
        assert_eq!(check(&table, "ada", "clipboard:read", 0), DENIED);
    }
}
