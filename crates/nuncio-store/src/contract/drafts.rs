//! Contract checks for drafted protocols.

use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentName, ApprovalId, DraftId};
use nuncio_core::principal::Principal;
use nuncio_engine::drafting::{ProtocolDefinition, ProtocolDraft, ProtocolDraftState};
use nuncio_engine::ports::store::{Change, Conflict, ProtocolDraftChange, Store};
use serde_json::json;

use super::sample::{later, owner};
use super::{TestDatabase, assert_one_winner, made, race, refusal};

fn id(id: &str) -> DraftId {
    DraftId::parse(id).unwrap()
}

fn draft(name: &str) -> ProtocolDraft {
    let written = json!({
        "description": "Hält \"alles\" fest.",
        "methods": [{
            "name": "hold", "description": "取", "request_schema": {"type": "object"}, "response_schema": {"maximum": 1.50},
        }],
        "examples": [{"method": "hold", "request": {}, "response": 1.0}],
        "test_cases": [{"name": "x", "method": "hold", "request": [], "expected": "invalid"}],
    });
    let document = json!({"protocol_id": name});
    ProtocolDraft {
        id: id(name),
        agent: AgentName::parse("desk").unwrap(),
        with: owner(),
        key: format!("key of {name}"),
        asked: Digest::of_bytes(b"asked"),
        definition: ProtocolDefinition::read(written).unwrap(),
        digest: Digest::of_json(&document),
        document,
        created_at: later(0),
        expires_at: later(60_000),
        approval: Some(ApprovalId::parse("apr_1").unwrap()),
        state: ProtocolDraftState::Draft,
    }
}

fn create(draft: &ProtocolDraft) -> Change {
    Change::from(ProtocolDraftChange::Create(Box::new(draft.clone())))
}

fn moved(draft: &ProtocolDraft, from: &'static str) -> Change {
    Change::from(ProtocolDraftChange::Move { draft: Box::new(draft.clone()), from })
}

fn accepted(draft: &ProtocolDraft) -> ProtocolDraft {
    ProtocolDraft { state: ProtocolDraftState::Accepted { by: Principal::Operator, at: later(9) }, ..draft.clone() }
}

async fn one(store: &dyn Store, name: &str) -> Option<ProtocolDraft> {
    store.draft(&id(name)).await.unwrap()
}

pub async fn draft_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let mine = draft("a");
    made(&*store, [create(&mine)]).await;
    assert_eq!(one(&*store, "a").await, Some(mine.clone()));
    assert_eq!(one(&*store, "b").await, None);
    let by_key = |with: Principal, agent: &str, key: &str| {
        let (store, agent, key) = (&store, AgentName::parse(agent).unwrap(), key.to_owned());
        async move { store.draft_by_key(&with, &agent, &key).await.unwrap() }
    };
    assert_eq!(by_key(owner(), "desk", "key of a").await, Some(mine));
    assert_eq!(by_key(Principal::Local, "desk", "key of a").await, None);
    assert_eq!(by_key(owner(), "hotel", "key of a").await, None);
    assert_eq!(by_key(owner(), "desk", "key of b").await, None);
}

pub async fn duplicate_draft_id_or_key_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create(&draft("a"))]).await;
    let same_id = ProtocolDraft { key: "other".to_owned(), ..draft("a") };
    let same_key = ProtocolDraft { id: id("b"), ..draft("a") };
    assert_eq!(refusal(&*store, [create(&same_id)]).await, Conflict::Exists);
    assert_eq!(refusal(&*store, [create(&same_key)]).await, Conflict::Exists);
    let others = ProtocolDraft { with: Principal::Local, ..same_key.clone() };
    let elsewhere = ProtocolDraft { id: id("c"), agent: AgentName::parse("hotel").unwrap(), ..same_key };
    made(&*store, [create(&others), create(&elsewhere)]).await;
}

pub async fn draft_changes_only_from_the_state_that_was_read(place: &dyn TestDatabase) {
    let store = place.open().await;
    let first = draft("a");
    made(&*store, [create(&first)]).await;
    assert_eq!(refusal(&*store, [moved(&accepted(&first), "accepted_by_them")]).await, Conflict::DraftMoved);
    assert_eq!(one(&*store, "a").await, Some(first.clone()));
    made(&*store, [moved(&accepted(&first), "draft")]).await;
    assert_eq!(one(&*store, "a").await, Some(accepted(&first)));
    assert_eq!(refusal(&*store, [moved(&first, "draft")]).await, Conflict::DraftMoved);
    assert_eq!(refusal(&*store, [moved(&draft("b"), "draft")]).await, Conflict::Missing);
}

pub async fn open_drafts_are_listed_oldest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    let at = |name: &str, millis: i64| ProtocolDraft { created_at: later(millis), ..draft(name) };
    let theirs = ProtocolDraft { state: ProtocolDraftState::AcceptedByThem { at: later(1) }, ..at("c", 1) };
    let over = ProtocolDraft { state: ProtocolDraftState::Expired { at: later(1) }, ..at("d", 0) };
    let all = [at("b", 2), at("a", 2), theirs.clone(), over, accepted(&at("e", 0))];
    made(&*store, all.iter().map(create).collect::<Vec<_>>()).await;
    let names = |drafts: Vec<ProtocolDraft>| drafts.into_iter().map(|draft| draft.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(store.open_drafts(10).await.unwrap()), ["c", "a", "b"]);
    assert_eq!(names(store.open_drafts(1).await.unwrap()), ["c"]);
}

pub async fn expired_drafts_are_deleted_unless_both_accepted(place: &dyn TestDatabase) {
    let store = place.open().await;
    let until = |name: &str, millis: i64| ProtocolDraft { expires_at: later(millis), ..draft(name) };
    let kept = accepted(&until("kept", 1));
    made(&*store, [create(&until("old", 9)), create(&until("new", 10)), create(&kept)]).await;
    made(&*store, [Change::from(ProtocolDraftChange::Forget(later(10)))]).await;
    assert_eq!(one(&*store, "old").await, None);
    assert!(one(&*store, "new").await.is_some() && one(&*store, "kept").await.is_some());
    made(&*store, [create(&until("old", 99))]).await;
}

pub async fn only_one_of_many_concurrent_decisions_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create(&draft("a"))]).await;
    let outcomes = race(&store, (0..8).map(|_| vec![moved(&accepted(&draft("a")), "draft")])).await;
    assert_one_winner(&outcomes, Conflict::DraftMoved);
}

pub async fn drafts_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create(&draft("a")), moved(&accepted(&draft("a")), "draft")]).await;
    drop(store);
    assert_eq!(one(&*place.open().await, "a").await, Some(accepted(&draft("a"))));
}
