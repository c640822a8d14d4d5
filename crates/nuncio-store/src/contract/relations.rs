//! Contract checks for relations and ledgers.

use nuncio_core::ids::RelationId;
use nuncio_core::relation::{Relation, RelationState};
use nuncio_engine::ports::store::{AccessChange, Change, Conflict, ConsentChange, Store};

use super::consent_sample::{
    account, agent_id, create_account, create_relation, entry, name, publish, put_person, relation,
};
use super::sample::later;
use super::{TestDatabase, assert_one_winner, made, race, refusal};

/// Creates two people and an agent with manifest version one.
async fn ready(store: &dyn Store) {
    let agent = account("agt_1");
    let changes =
        [put_person("ada"), put_person("eve"), create_account(&agent, ""), publish(&agent, Some("{\"n\":1}"))];
    made(store, changes).await;
}

fn move_on(from: u64, relation: &Relation, manifest_version: Option<u64>) -> Change {
    ConsentChange::MoveRelation { from, relation: relation.clone(), manifest_version }.into()
}

fn append(relation: &str, seq: u64) -> Change {
    ConsentChange::AppendLedger(entry(relation, seq)).into()
}

fn id(text: &str) -> RelationId {
    RelationId::parse(text).unwrap()
}

fn ended(relation: &Relation) -> Relation {
    let state = RelationState::Revoked { at: later(8) };
    Relation { state, grants: Vec::new(), pending: None, revision: relation.revision + 1, ..relation.clone() }
}

async fn revision(store: &dyn Store) -> u64 {
    store.account(&agent_id("agt_1")).await.unwrap().unwrap().revision
}

pub async fn relation_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    let first = relation("rel_1", "ada", "agt_1");
    made(&*store, [create_relation(&first, 1)]).await;
    assert_eq!(store.relation(&first.id).await.unwrap(), Some(first.clone()));
    assert_eq!(store.relation(&id("rel_2")).await.unwrap(), None);
    let between = async |person: &str| store.relation_between(&name(person), &agent_id("agt_1")).await.unwrap();
    assert_eq!(between("ada").await, Some(first.clone()));
    assert_eq!(between("eve").await, None);
    assert_eq!(store.relations_of(&name("ada"), None, 9).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(store.active_relations(Some(&agent_id("agt_1"))).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(store.active_relations(None).await.unwrap(), [first]);
    assert_eq!(store.active_relations(Some(&agent_id("agt_2"))).await.unwrap(), []);
}

pub async fn relation_needs_known_person_and_agent_and_current_manifest_version(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    let cases = [
        (create_relation(&relation("rel_1", "nobody", "agt_1"), 1), Conflict::Missing),
        (create_relation(&relation("rel_1", "ada", "agt_2"), 1), Conflict::Missing),
        (create_relation(&relation("rel_1", "ada", "agt_1"), 0), Conflict::Moved),
        (create_relation(&relation("rel_1", "ada", "agt_1"), 2), Conflict::Moved),
    ];
    for (change, conflict) in cases {
        assert_eq!(refusal(&*store, [change]).await, conflict);
    }
    assert_eq!(store.active_relations(None).await.unwrap(), []);
    assert_eq!(revision(&*store).await, 1, "nothing was touched");
}

pub async fn second_active_relation_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    let first = relation("rel_1", "ada", "agt_1");
    made(&*store, [create_relation(&first, 1), create_relation(&relation("rel_9", "eve", "agt_1"), 1)]).await;
    assert_eq!(refusal(&*store, [create_relation(&relation("rel_2", "ada", "agt_1"), 1)]).await, Conflict::Exists);
    made(&*store, [move_on(0, &ended(&first), None)]).await;
    assert_eq!(store.relation_between(&name("ada"), &agent_id("agt_1")).await.unwrap(), None);
    assert_eq!(refusal(&*store, [create_relation(&relation("rel_1", "ada", "agt_1"), 1)]).await, Conflict::Exists);
    made(&*store, [create_relation(&relation("rel_2", "ada", "agt_1"), 1)]).await;
    let of_ada = store.relations_of(&name("ada"), None, 9).await.unwrap();
    assert_eq!(of_ada, [ended(&first), relation("rel_2", "ada", "agt_1")]);
    assert_eq!(store.relations_of(&name("ada"), Some(&id("rel_1")), 9).await.unwrap(), of_ada[1..]);
    assert_eq!(store.relations_of(&name("ada"), None, 1).await.unwrap(), of_ada[..1]);
    let active = store.active_relations(Some(&agent_id("agt_1"))).await.unwrap();
    assert_eq!(active.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["rel_2", "rel_9"], "by person");
    let with = async |agent: &str, after: Option<&str>, limit| {
        store.relations_with(&agent_id(agent), after.map(name).as_ref(), limit).await.unwrap()
    };
    assert_eq!(with("agt_1", None, 9).await, active);
    assert_eq!(with("agt_1", None, 1).await, active[..1]);
    assert_eq!(with("agt_1", Some("ada"), 9).await, active[1..]);
    assert_eq!(with("agt_2", None, 9).await, []);
}

pub async fn relation_changes_only_from_the_revision_that_was_read(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    let first = relation("rel_1", "ada", "agt_1");
    assert_eq!(refusal(&*store, [move_on(0, &first, None)]).await, Conflict::Missing);
    made(&*store, [create_relation(&first, 1)]).await;
    let second = Relation { grants: first.grants[1..].to_vec(), pending: None, revision: 5, ..first.clone() };
    assert_eq!(refusal(&*store, [move_on(0, &second, Some(2))]).await, Conflict::Moved);
    assert_eq!(refusal(&*store, [move_on(1, &second, Some(1))]).await, Conflict::Moved);
    assert_eq!(store.relation(&first.id).await.unwrap(), Some(first.clone()));
    made(&*store, [move_on(0, &second, Some(1))]).await;
    assert_eq!(store.relation(&first.id).await.unwrap(), Some(second));
    let units = (0..16).map(|n| vec![move_on(5, &Relation { revision: 10 + n, ..first.clone() }, None)]);
    assert_one_winner(&race(&store, units).await, Conflict::Moved);
}

pub async fn relation_change_invalidates_concurrent_publication(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    let seen = store.account(&agent_id("agt_1")).await.unwrap().unwrap();
    let first = relation("rel_1", "ada", "agt_1");
    made(&*store, [create_relation(&first, 1)]).await;
    assert_eq!(refusal(&*store, [publish(&seen, Some("{\"n\":2}"))]).await, Conflict::Moved);
    let seen = store.account(&agent_id("agt_1")).await.unwrap().unwrap();
    made(&*store, [move_on(0, &Relation { revision: 1, ..first.clone() }, None)]).await;
    assert_eq!(refusal(&*store, [publish(&seen, Some("{\"n\":2}"))]).await, Conflict::Moved);
    let seen = store.account(&agent_id("agt_1")).await.unwrap().unwrap();
    // A publication may change relations within its own commit.
    made(&*store, [publish(&seen, Some("{\"n\":2}")), move_on(1, &Relation { revision: 2, ..first }, None)]).await;
    assert_eq!(revision(&*store).await, seen.revision + 2);
}

pub async fn one_time_grant_is_used_only_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    let first = relation("rel_1", "ada", "agt_1");
    made(&*store, [create_relation(&first, 1)]).await;
    let once = first.grants[0].id.clone();
    let lasting = first.grants[1].id.clone();
    assert_eq!(refusal(&*store, [Change::from(AccessChange::UseGrant(lasting))]).await, Conflict::GrantUsed);
    let units = (0..16).map(|_| vec![Change::from(AccessChange::UseGrant(once.clone()))]);
    assert_one_winner(&race(&store, units).await, Conflict::GrantUsed);
    let used = Relation { grants: first.grants[1..].to_vec(), revision: 1, ..first };
    assert_eq!(store.relation(&used.id).await.unwrap(), Some(used));
}

pub async fn ledger_entry_must_have_the_next_sequence_number(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    assert_eq!(refusal(&*store, [append("rel_1", 1)]).await, Conflict::Missing);
    made(&*store, [create_relation(&relation("rel_1", "ada", "agt_1"), 1)]).await;
    assert_eq!(refusal(&*store, [append("rel_1", 2)]).await, Conflict::Moved);
    made(&*store, [append("rel_1", 1), append("rel_1", 2), append("rel_1", 3)]).await;
    for taken in 1..=3 {
        assert_eq!(refusal(&*store, [append("rel_1", taken)]).await, Conflict::Moved);
    }
    assert_eq!(store.ledger(&id("rel_1"), 0, 2).await.unwrap(), [entry("rel_1", 1), entry("rel_1", 2)]);
    assert_eq!(store.ledger(&id("rel_1"), 2, 9).await.unwrap(), [entry("rel_1", 3)]);
    assert_eq!(store.ledger(&id("rel_2"), 0, 9).await.unwrap(), []);
}

pub async fn relations_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    ready(&*store).await;
    let first = relation("rel_1", "ada", "agt_1");
    made(&*store, [create_relation(&first, 1), append("rel_1", 1)]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(store.relation(&first.id).await.unwrap(), Some(first));
    assert_eq!(store.ledger(&id("rel_1"), 0, 9).await.unwrap(), [entry("rel_1", 1)]);
}
