//! Contract checks for commits of any change.

use std::sync::Arc;

use nuncio_core::approval::ApprovalAnswer;
use nuncio_core::ids::GrantId;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{
    AccessChange, ApprovalChange, AuditChange, CallChange, Change, Conflict, SessionChange, StartedCall, Store,
    StoreError,
};

use super::sample::{self, NOW, later, session_id};
use super::{TestDatabase, audit, made, race, refusal};

pub async fn empty_commit_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, []).await;
}

pub async fn failed_commit_changes_nothing(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, before()).await;
    let seen = snapshot(&*store).await;

    let mut unit = every_change();
    unit.push(Change::from(SessionChange::Delete(session_id("nobody"))));
    assert_eq!(refusal(&*store, unit).await, Conflict::NoSession);
    assert_eq!(snapshot(&*store).await, seen);

    made(&*store, every_change()).await;
    assert_ne!(snapshot(&*store).await, seen, "the same changes alone are taken");
}

pub async fn failed_commit_does_not_affect_concurrent_commits(place: &dyn TestDatabase) {
    let store = place.open().await;
    let unit = |n: usize| match n % 4 {
        0 => vec![sample::create(&format!("s{n}")), sample::begin("nobody", 1)],
        1 => vec![sample::create(&format!("s{n}")), sample::create(&format!("s{n}"))],
        _ => vec![sample::create(&format!("s{n}")), sample::append(&format!("s{n}"), 0, 0, "hello")],
    };
    for (n, outcome) in race(&store, (0..64).map(unit)).await.into_iter().enumerate() {
        let (expected, there) = match n % 4 {
            0 => (Err(StoreError::Conflict(Conflict::NoSession)), false),
            1 => (Err(StoreError::Conflict(Conflict::Exists)), false),
            _ => (Ok(()), true),
        };
        assert_eq!(outcome, expected, "{n}");
        assert_eq!(store.session(&session_id(&format!("s{n}"))).await.unwrap().is_some(), there, "{n}");
    }
}

pub async fn later_changes_of_a_commit_see_earlier_ones(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(
        &*store,
        [
            sample::create("s"),
            sample::begin("s", 1),
            sample::append("s", 1, 0, "hello"),
            sample::end("s", 1),
            sample::begin("s", 2),
            sample::end("s", 2),
            Change::from(SessionChange::Delete(session_id("s"))),
            sample::create("s"),
            sample::begin("s", 1),
        ],
    )
    .await;
    assert_eq!(store.messages(&session_id("s"), 0).await.unwrap(), []);
    assert_eq!(store.session(&session_id("s")).await.unwrap().unwrap().turns, 1);
}

pub async fn commits_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, before()).await;
    made(&*store, every_change()).await;
    let seen = snapshot(&*store).await;
    drop(store);

    let store = place.open().await;
    assert_eq!(snapshot(&*store).await, seen);
    made(&*store, [Change::from(AuditChange::AppendCall(sample::record("later"))), sample::begin("new", 1)]).await;
    audit::verified(&*store).await;
}

pub async fn commits_whose_callers_gave_up_are_stored_completely_or_not_at_all(place: &dyn TestDatabase) {
    let store = place.open().await;
    let unit = |n: usize| vec![sample::create(&format!("s{n}")), sample::append(&format!("s{n}"), 0, 0, "hello")];
    let waiting: Vec<_> = (0..32)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(unit(n)).await })
        })
        .collect();
    made(&*store, [sample::create("last")]).await;
    for task in &waiting {
        task.abort();
    }
    let mut confirmed = Vec::new();
    for task in waiting {
        confirmed.push(matches!(task.await, Ok(Ok(()))));
    }
    drop(store);

    let store = place.open().await;
    assert!(store.session(&session_id("last")).await.unwrap().is_some());
    for (n, confirmed) in confirmed.into_iter().enumerate() {
        let id = session_id(&format!("s{n}"));
        let there = store.session(&id).await.unwrap().is_some();
        assert_eq!(store.messages(&id, 0).await.unwrap().len(), usize::from(there), "{n}: all or none");
        assert!(there || !confirmed, "{n}: a confirmed commit is stored");
    }
}

/// Changes that create the data that [`every_change`] needs.
fn before() -> Vec<Change> {
    vec![
        sample::create("s"),
        sample::append("s", 0, 0, "hello"),
        sample::begin("s", 1),
        sample::create("old"),
        Change::from(AccessChange::CreateKey(sample::key("old", NOW))),
        Change::from(AccessChange::CreateGrant(sample::grant("old", NOW))),
        Change::from(AccessChange::CreateGrant(sample::grant("once", NOW))),
        Change::from(ApprovalChange::Create { approval: sample::approval("old", NOW), node: None }),
        Change::from(CallChange::Start(Box::new(StartedCall {
            key: "old".into(),
            node: sample::here(),
            record: sample::record("old"),
            target: None,
        }))),
        Change::from(AuditChange::AppendCall(sample::record("before"))),
    ]
}

fn every_change() -> Vec<Change> {
    let decided = sample::approval("old", NOW).decide(ApprovalAnswer::Allow, Principal::Operator, later(1)).unwrap();
    vec![
        sample::create("new"),
        Change::from(SessionChange::Delete(session_id("old"))),
        sample::append("s", 1, 1, "again"),
        Change::from(SessionChange::SetPending { session: session_id("s"), pending: vec![sample::pending("c1")] }),
        sample::end("s", 1),
        sample::begin("s", 2),
        Change::from(SessionChange::Remember(sample::idempotency_record("s", "k"))),
        Change::from(CallChange::Start(Box::new(StartedCall {
            key: "new".into(),
            node: sample::here(),
            record: sample::record("new"),
            target: None,
        }))),
        Change::from(CallChange::Finish("old".into())),
        Change::from(AuditChange::AppendCall(sample::record("after"))),
        Change::from(AccessChange::CreateKey(sample::key("new", NOW))),
        Change::from(AccessChange::RevokeKey { id: sample::key("old", NOW).id, at: later(1) }),
        Change::from(AccessChange::CreateGrant(sample::grant("new", NOW))),
        Change::from(AccessChange::RevokeGrant(sample::grant("old", NOW).id)),
        Change::from(AccessChange::UseGrant(GrantId::parse("once").unwrap())),
        Change::from(ApprovalChange::Create { approval: sample::approval("new", NOW), node: None }),
        Change::from(ApprovalChange::Move { approval: decided, from: "pending" }),
    ]
}

/// All readable data of the store as text.
async fn snapshot(store: &dyn Store) -> Vec<String> {
    let mut seen = vec![
        format!("{:#?}", store.sessions(&sample::owner(), None, 100).await.unwrap()),
        format!("{:#?}", store.running_turns(&sample::here()).await.unwrap()),
        format!("{:#?}", store.idempotency_record(&sample::owner(), "sessions", "k").await.unwrap()),
        format!("{:#?}", store.keys().await.unwrap()),
        format!("{:#?}", store.grants().await.unwrap()),
        format!("{:#?}", store.pending_approvals().await.unwrap()),
        format!("{:#?}", store.approval(&sample::approval("old", NOW).id).await.unwrap()),
        format!("{:#?}", store.audit_links(0, 100).await.unwrap()),
        format!("{:#?}", store.audit_heads().await.unwrap()),
        format!("{:#?}", store.started_calls(&sample::here()).await.unwrap()),
    ];
    for id in ["s", "new", "old"].map(session_id) {
        seen.push(format!("{:#?}", store.messages(&id, 0).await.unwrap()));
        for number in 1..=2 {
            seen.push(format!("{:#?}", store.turn(&id, number).await.unwrap()));
            seen.push(format!("{:#?}", store.turn_events(&id, number).await.unwrap()));
        }
    }
    seen
}

pub async fn healthy_store_passes_write_check_compaction_and_damage_check(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s"), sample::create("t")]).await;
    made(&*store, [Change::from(SessionChange::Delete(session_id("t")))]).await;
    store.check_writable().await.unwrap();
    store.compact().await.unwrap();
    let check = store.check().await.unwrap();
    assert!(check.complete && check.problems.is_empty(), "{check:?}");
    assert!(store.session(&session_id("s")).await.unwrap().is_some());
}
