//! Contract checks for executions and their owners.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::agent::SkillVersion;
use nuncio_core::audit::AuditReferences;
use nuncio_core::caller::{AuthenticationMethod, Caller};
use nuncio_core::digest::Digest;
use nuncio_core::execution::{
    AcceptedInvocation, CallAuthorization, Execution, ExecutionFailure, ExecutionState, InvocationTarget, Priority,
    TraceIds,
};
use nuncio_core::ids::{AgentName, ExecutionId, PersonName, ScopeId, SkillId, TaskId, ToolName};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Change, Conflict, ExecutionChange, Store, TaskChange};
use serde_json::{Map, json};

use super::sample::{self, NOW, later, node, owner, stranger};
use super::{TestDatabase, assert_one_winner, made, race, refusal, tasks};

/// Retention of sample executions, in milliseconds.
pub(super) const RETENTION_MS: i64 = 1000;

pub(super) fn id(id: &str) -> ExecutionId {
    ExecutionId::parse(id).unwrap()
}

fn skill(id: &str) -> SkillId {
    SkillId::parse(id).unwrap()
}

fn order() -> AcceptedInvocation {
    let mut inputs = Map::new();
    inputs.insert("room".to_owned(), json!({"floor": [1, -2.5, null], "客": "房\u{0}\""}));
    AcceptedInvocation {
        skill: skill("hotel/book"),
        version: SkillVersion { major: 1, minor: 2, patch: 3 },
        agent: AgentName::parse("hotel").unwrap(),
        target: InvocationTarget::Tool(ToolName::parse("book").unwrap()),
        caller: Caller {
            principal: owner(),
            person: Some(PersonName::parse("ada").unwrap()),
            request: Some("req_1".to_owned()),
            authentication: AuthenticationMethod::Token {
                scopes: [ScopeId::parse("booking:write").unwrap()].into(),
                people: true,
            },
        },
        protocol: Protocol::Skill,
        inputs,
        priority: Priority::High,
        trace: TraceIds { trace_id: Some("t".to_owned()), traceparent: Some("00-1-2-01".to_owned()) },
        callback: Some("https://caller.example/told?x=1".parse().unwrap()),
        created_at: NOW,
        timeout_ms: 60_000,
        keep_ms: 1000,
    }
}

pub(super) fn execution(name: &str) -> Execution {
    Execution::accepted(id(name), order())
}

pub(super) fn create(name: &str) -> Change {
    Change::from(ExecutionChange::Create {
        execution: Box::new(execution(name)),
        owner: sample::here(),
        idempotency: None,
        call: None,
    })
}

fn create_for(name: &str, order: AcceptedInvocation, key: &str, body: Digest) -> Change {
    let execution = Box::new(Execution::accepted(id(name), order));
    let idempotency = Some((key.to_owned(), body));
    Change::from(ExecutionChange::Create { execution, owner: sample::here(), idempotency, call: None })
}

fn create_with_key(name: &str, key: &str) -> Change {
    create_for(name, order(), key, Digest::of_bytes(key.as_bytes()))
}

fn claim(name: &str, attempt: u32, from: &str, to: &str) -> Change {
    Change::from(ExecutionChange::Claim { id: id(name), attempt, from: node(from), to: node(to) })
}

fn start(name: &str, owner: &str, attempt: u32) -> Change {
    start_at(name, owner, attempt, later(5))
}

fn start_at(name: &str, owner: &str, attempt: u32, at: Timestamp) -> Change {
    Change::from(ExecutionChange::Start { id: id(name), owner: node(owner), attempt, at, call: None })
}

pub(super) fn completed() -> ExecutionState {
    ExecutionState::Completed { output: json!({"booked": true, "房": [null, 1.5]}) }
}

pub(super) fn end(name: &str, owner: &str, attempt: u32) -> Change {
    end_at(name, owner, attempt, completed(), later(9))
}

pub(super) fn end_at(name: &str, owner: &str, attempt: u32, state: ExecutionState, at: Timestamp) -> Change {
    let kept_until = Timestamp::from_millis(at.as_millis() + RETENTION_MS);
    Change::from(ExecutionChange::End { id: id(name), owner: node(owner), attempt, state, at, kept_until })
}

fn create_and_finish(name: &str, at: Timestamp) -> [Change; 3] {
    [create(name), start_at(name, "here", 1, at), end_at(name, "here", 1, completed(), at)]
}

async fn read(store: &dyn Store, name: &str) -> Execution {
    store.execution(&id(name)).await.unwrap().unwrap()
}

async fn unfinished(store: &dyn Store) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for owner in ["here", "there"] {
        let executions = store.unfinished_executions(&node(owner)).await.unwrap();
        found.extend(executions.into_iter().map(|execution| (execution.id.to_string(), owner.to_owned())));
    }
    found
}

async fn by_key(store: &dyn Store, caller: &Principal, of: &str, key: &str) -> Option<(ExecutionId, Digest)> {
    store.execution_by_key(caller, &skill(of), key).await.unwrap()
}

pub async fn execution_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let mut expected = execution("a");
    made(&*store, [create("a")]).await;
    assert_eq!(read(&*store, "a").await, expected);
    assert_eq!(store.execution(&id("b")).await.unwrap(), None);
    assert_eq!(store.unfinished_executions(&sample::here()).await.unwrap(), std::slice::from_ref(&expected));

    made(&*store, [start("a", "here", 1)]).await;
    expected.begin(later(5)).unwrap();
    assert_eq!(read(&*store, "a").await, expected);

    made(&*store, [end("a", "here", 1)]).await;
    expected.end(completed(), later(9)).unwrap();
    assert_eq!(read(&*store, "a").await, expected);
    assert_eq!(expected.kept_until(), Some(later(9).after(Duration::from_millis(1000))));
}

pub async fn failed_and_timed_out_executions_round_trip(place: &dyn TestDatabase) {
    let store = place.open().await;
    let failure = |code| ExecutionFailure { code, message: "it \"broke\"\n坏".to_owned() };
    for (name, state) in [
        ("failed", ExecutionState::Failed { failure: failure(ErrorCode::Cancelled) }),
        ("late", ExecutionState::TimedOut { failure: failure(ErrorCode::ToolTimeout) }),
    ] {
        let caller = Caller::new(Principal::Anonymous);
        let whole = AcceptedInvocation { target: InvocationTarget::Agent, caller, callback: None, ..order() };
        let mut expected = Execution::accepted(id(name), whole);
        made(
            &*store,
            [Change::from(ExecutionChange::Create {
                execution: Box::new(expected.clone()),
                owner: sample::here(),
                idempotency: None,
                call: None,
            })],
        )
        .await;
        made(&*store, [end_at(name, "here", 0, state.clone(), later(3))]).await;
        expected.end(state, later(3)).unwrap();
        assert_eq!(read(&*store, name).await, expected);
        assert_eq!(expected.attempt, 0);
    }
    assert_eq!(unfinished(&*store).await, []);
}

/// A second execution with the same id is refused with `Exists`, also when the first is over.
pub async fn duplicate_execution_id_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a")]).await;
    let other = AcceptedInvocation { priority: Priority::Low, ..order() };
    let again = || create_for("a", other.clone(), "k", Digest::ZERO);
    assert_eq!(refusal(&*store, [again()]).await, Conflict::Exists);
    made(&*store, [start("a", "here", 1), end("a", "here", 1)]).await;
    assert_eq!(refusal(&*store, [again()]).await, Conflict::Exists);
    assert_eq!(read(&*store, "a").await.order, order().into());
    assert_eq!(by_key(&*store, &owner(), "hotel/book", "k").await, None, "nor is its key taken");
}

/// A key that the caller used for the skill before is refused with `Exists`, and the execution is not stored.
pub async fn reused_idempotency_key_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create_with_key("a", "k")]).await;
    let found = Some((id("a"), Digest::of_bytes(b"k")));
    assert_eq!(by_key(&*store, &owner(), "hotel/book", "k").await, found);
    for body in [Digest::of_bytes(b"k"), Digest::of_bytes(b"another")] {
        assert_eq!(refusal(&*store, [create_for("b", order(), "k", body)]).await, Conflict::Exists);
    }
    assert_eq!(store.execution(&id("b")).await.unwrap(), None);
    assert_eq!(by_key(&*store, &owner(), "hotel/book", "k").await, found);
    made(&*store, [start("a", "here", 1), end("a", "here", 1)]).await;
    assert_eq!(refusal(&*store, [create_with_key("b", "k")]).await, Conflict::Exists, "also once it is over");
}

pub async fn same_idempotency_key_is_allowed_for_another_caller_or_skill(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create_with_key("a", "k")]).await;
    made(
        &*store,
        [create_for("b", AcceptedInvocation { caller: Caller::new(stranger()), ..order() }, "k", Digest::ZERO)],
    )
    .await;
    made(&*store, [create_for("c", AcceptedInvocation { skill: skill("hotel/find"), ..order() }, "k", Digest::ZERO)])
        .await;
    made(&*store, [create_with_key("d", "K")]).await;
    let find = |of: &'static str, key: &'static str, caller: Principal| {
        let store = &store;
        async move { by_key(&**store, &caller, of, key).await.map(|(id, _)| id.to_string()) }
    };
    assert_eq!(find("hotel/book", "k", owner()).await.as_deref(), Some("a"));
    assert_eq!(find("hotel/book", "k", stranger()).await.as_deref(), Some("b"));
    assert_eq!(find("hotel/find", "k", owner()).await.as_deref(), Some("c"));
    assert_eq!(find("hotel/book", "K", owner()).await.as_deref(), Some("d"));
    assert_eq!(find("hotel/find", "k", stranger()).await, None);
    assert_eq!(find("hotel/book", "k", Principal::Anonymous).await, None);
}

/// A claim must name the current owner and attempt; any other is refused with `OwnerChanged`.
pub async fn claim_must_name_the_current_owner_and_attempt(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a"), start("a", "here", 1)]).await;
    for (attempt, from) in [(1, "there"), (0, "here"), (2, "here"), (1, "other")] {
        assert_eq!(refusal(&*store, [claim("a", attempt, from, "thief")]).await, Conflict::OwnerChanged, "{from}");
    }
    assert_eq!(refusal(&*store, [claim("b", 0, "here", "there")]).await, Conflict::OwnerChanged);
    let before = read(&*store, "a").await;
    made(&*store, [claim("a", 1, "here", "there")]).await;
    assert_eq!(read(&*store, "a").await, before, "nothing else changes");
    assert_eq!(unfinished(&*store).await, [("a".to_owned(), "there".to_owned())]);

    for late in [start("a", "here", 2), end("a", "here", 1), claim("a", 1, "here", "thief")] {
        assert_eq!(refusal(&*store, [late]).await, Conflict::OwnerChanged);
    }
    made(&*store, [start("a", "there", 2), end("a", "there", 2)]).await;
    for holder in ["here", "there", "other"] {
        assert_eq!(refusal(&*store, [claim("a", 2, holder, "ghost")]).await, Conflict::OwnerChanged, "it is over");
    }
}

/// Only the owner begins the next attempt; any other begin is refused with `OwnerChanged`.
pub async fn attempts_begin_in_order_and_only_by_the_owner(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a")]).await;
    for (owner, attempt) in [("there", 1), ("here", 0), ("here", 2), ("here", u32::MAX)] {
        assert_eq!(refusal(&*store, [start("a", owner, attempt)]).await, Conflict::OwnerChanged, "{owner} {attempt}");
    }
    assert_eq!(refusal(&*store, [start("b", "here", 1)]).await, Conflict::OwnerChanged);
    assert_eq!(read(&*store, "a").await, execution("a"));
    made(&*store, [start("a", "here", 1)]).await;
    assert_eq!(refusal(&*store, [start("a", "here", 1)]).await, Conflict::OwnerChanged);
    made(&*store, [start("a", "here", 2)]).await;
    assert_eq!(read(&*store, "a").await.attempt, 2);
    made(&*store, [end("a", "here", 2)]).await;
    assert_eq!(refusal(&*store, [start("a", "here", 3)]).await, Conflict::OwnerChanged);
}

/// Only the owner ends the running attempt, once; any other end is refused with `OwnerChanged`.
pub async fn execution_ends_once_and_only_by_the_owner(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a"), start("a", "here", 1)]).await;
    let running = read(&*store, "a").await;
    for (owner, attempt) in [("there", 1), ("here", 0), ("here", 2)] {
        assert_eq!(refusal(&*store, [end("a", owner, attempt)]).await, Conflict::OwnerChanged, "{owner} {attempt}");
    }
    assert_eq!(refusal(&*store, [end("b", "here", 0)]).await, Conflict::OwnerChanged);
    assert_eq!(read(&*store, "a").await, running);

    made(&*store, [end("a", "here", 1)]).await;
    let over = read(&*store, "a").await;
    let failure = ExecutionFailure { code: ErrorCode::ToolFailed, message: "late news".to_owned() };
    let again = end_at("a", "here", 1, ExecutionState::Failed { failure }, later(90));
    assert_eq!(refusal(&*store, [again]).await, Conflict::OwnerChanged);
    assert_eq!(read(&*store, "a").await, over, "what is over never changes");
}

pub async fn unfinished_executions_are_listed_oldest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(unfinished(&*store).await, []);
    // Execution ids sort by their creation time.
    for name in ["exe_2", "exe_1", "exe_4", "exe_3"] {
        made(&*store, [create(name)]).await;
    }
    made(&*store, [start("exe_3", "here", 1), claim("exe_4", 0, "here", "there")]).await;
    made(&*store, [end("exe_2", "here", 0)]).await;
    let held = |name: &str, by: &str| (name.to_owned(), by.to_owned());
    assert_eq!(unfinished(&*store).await, [held("exe_1", "here"), held("exe_3", "here"), held("exe_4", "there")]);
    let states = store.unfinished_executions(&sample::here()).await.unwrap();
    assert_eq!((&states[1].state, states[1].attempt), (&ExecutionState::Running, 1));
}

pub async fn update_time_of_an_execution_never_decreases(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a"), start_at("a", "here", 1, later(-60_000))]).await;
    assert_eq!(read(&*store, "a").await.updated_at, NOW);
    made(&*store, [start_at("a", "here", 2, later(50))]).await;
    made(&*store, [end_at("a", "here", 2, completed(), later(20))]).await;
    assert_eq!(read(&*store, "a").await.updated_at, later(50));
}

pub async fn ended_executions_are_deleted_after_their_retention(place: &dyn TestDatabase) {
    let store = place.open().await;
    let forget = |at| Change::from(ExecutionChange::Forget { at, limit: 100 });
    made(&*store, [create_with_key("old", "old"), end_at("old", "here", 0, completed(), later(0))]).await;
    made(&*store, [create_with_key("new", "new"), end_at("new", "here", 0, completed(), later(1))]).await;
    made(&*store, [create_with_key("open", "open")]).await;
    for name in ["old", "new", "open"] {
        made(&*store, [Change::from(TaskChange::Create { task: Box::new(tasks::task(name, Some(name))), node: None })])
            .await;
    }
    made(
        &*store,
        [Change::from(TaskChange::Create { task: Box::new(tasks::task("alone", None)), node: Some(sample::here()) })],
    )
    .await;

    assert!(!store.is_any_execution_to_forget(later(RETENTION_MS - 1)).await.unwrap());
    made(&*store, [forget(later(RETENTION_MS - 1))]).await;
    assert!(store.execution(&id("old")).await.unwrap().is_some(), "not before its time");

    assert!(store.is_any_execution_to_forget(later(RETENTION_MS)).await.unwrap());
    made(&*store, [forget(later(RETENTION_MS))]).await;
    assert!(!store.is_any_execution_to_forget(later(RETENTION_MS)).await.unwrap());
    assert_eq!(store.execution(&id("old")).await.unwrap(), None);
    assert_eq!(by_key(&*store, &owner(), "hotel/book", "old").await, None);
    assert_eq!(store.task(&TaskId::parse("old").unwrap()).await.unwrap(), None);

    made(&*store, [forget(later(1_000_000_000))]).await;
    assert_eq!(store.execution(&id("new")).await.unwrap(), None);
    assert_eq!(read(&*store, "open").await, execution("open"), "what is not over is kept for ever");
    assert!(by_key(&*store, &owner(), "hotel/book", "open").await.is_some());
    for name in ["open", "alone"] {
        assert!(store.task(&TaskId::parse(name).unwrap()).await.unwrap().is_some(), "{name}");
    }
    made(&*store, [create_with_key("again", "old")]).await;
    assert_eq!(by_key(&*store, &owner(), "hotel/book", "old").await.map(|(id, _)| id), Some(id("again")));
}

pub async fn deletion_of_old_executions_respects_its_limit(place: &dyn TestDatabase) {
    let store = place.open().await;
    for (name, at) in [("a", 30), ("b", 10), ("c", 20), ("d", 40)] {
        made(&*store, create_and_finish(name, later(at))).await;
    }
    let left = || async {
        let mut left = Vec::new();
        for name in ["a", "b", "c", "d"] {
            left.extend(store.execution(&id(name)).await.unwrap().map(|_| name));
        }
        left
    };
    let forget = |limit| [Change::from(ExecutionChange::Forget { at: later(10_000), limit })];
    made(&*store, forget(0)).await;
    assert_eq!(left().await, ["a", "b", "c", "d"]);
    made(&*store, forget(2)).await;
    assert_eq!(left().await, ["a", "d"]);
    assert!(store.is_any_execution_to_forget(later(10_000)).await.unwrap());
    made(&*store, forget(usize::MAX)).await;
    assert_eq!(left().await, [] as [&str; 0]);
}

pub async fn only_one_of_many_concurrent_creations_with_one_key_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    let units = (0..32).map(|n| vec![create_with_key(&format!("exe_{n}"), "k")]);
    assert_one_winner(&race(&store, units).await, Conflict::Exists);
    assert_eq!(unfinished(&*store).await.len(), 1);
}

pub async fn only_one_of_many_concurrent_claims_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a")]).await;
    let claims = (0..32).map(|n| vec![claim("a", 0, "here", &format!("node_{n}"))]);
    let outcomes = race(&store, claims).await;
    assert_one_winner(&outcomes, Conflict::OwnerChanged);
    let holder = format!("node_{}", outcomes.iter().position(Result::is_ok).unwrap());
    assert_eq!(store.unfinished_executions(&node(&holder)).await.unwrap().len(), 1);
    let starts = (0..32).map(|_| vec![start("a", &holder, 1)]);
    assert_one_winner(&race(&store, starts).await, Conflict::OwnerChanged);
    let ends = (0..32).map(|n| {
        let state = ExecutionState::Completed { output: json!(n) };
        vec![end_at("a", &holder, 1, state, later(n))]
    });
    let outcomes = race(&store, ends).await;
    assert_one_winner(&outcomes, Conflict::OwnerChanged);
    let winner = outcomes.iter().position(Result::is_ok).unwrap();
    assert_eq!(read(&*store, "a").await.state, ExecutionState::Completed { output: json!(winner) });
}

pub async fn executions_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create_with_key("a", "k"), start("a", "here", 1)]).await;
    made(&*store, create_and_finish("b", later(1))).await;
    let before = [read(&*store, "a").await, read(&*store, "b").await];
    drop(store);
    let store = place.open().await;
    assert_eq!([read(&*store, "a").await, read(&*store, "b").await], before);
    assert_eq!(unfinished(&*store).await, [("a".to_owned(), "here".to_owned())]);
    assert!(by_key(&*store, &owner(), "hotel/book", "k").await.is_some());
}

fn begun(name: &str, attempt: u32, by: &str) -> (Change, CallAuthorization) {
    let authorization = CallAuthorization {
        at: later(2),
        by: vec![by.to_owned()],
        scope: Some(ScopeId::parse("booking:write").unwrap()),
        started: false,
        references: AuditReferences::default(),
    };
    let (id, owner, call) = (id(name), sample::here(), Some(authorization.clone()));
    (Change::from(ExecutionChange::Start { id, owner, attempt, at: later(5), call }), authorization)
}

async fn authorizations(store: &dyn Store) -> Vec<(ExecutionId, u32, CallAuthorization)> {
    let begun = store.begun_calls(&sample::here()).await.unwrap().into_iter();
    begun.map(|(execution, authorization)| (execution.id, execution.attempt, authorization)).collect()
}

pub async fn begun_calls_are_listed_with_their_authorization_until_finished(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ((first, ada), (second, bob)) = (begun("a", 1, "ada"), begun("a", 2, "bob"));
    made(&*store, [create("a"), create("b"), start("b", "here", 1), first]).await;
    assert_eq!(authorizations(&*store).await, [(id("a"), 1, ada)]);
    made(&*store, [finish("a", 1, true)]).await;
    assert_eq!(authorizations(&*store).await, []);
    for without_call in ["a", "b"] {
        assert_eq!(refusal(&*store, [finish(without_call, 1, true)]).await, Conflict::OwnerChanged);
    }
    made(&*store, [second]).await;
    assert_eq!(authorizations(&*store).await, [(id("a"), 2, bob)]);
    made(&*store, [end("a", "here", 2)]).await;
    assert_eq!(authorizations(&*store).await, []);
}

fn finish(name: &str, attempt: u32, started: bool) -> Change {
    Change::from(ExecutionChange::FinishAttempt { id: id(name), owner: sample::here(), attempt, started })
}

pub async fn only_the_owner_finishes_its_attempt(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (first, ada) = begun("a", 1, "ada");
    made(&*store, [create("a"), first]).await;
    let by_another = Change::from(ExecutionChange::FinishAttempt {
        id: id("a"),
        owner: node("elsewhere"),
        attempt: 1,
        started: false,
    });
    for other in [by_another, finish("a", 0, false), finish("a", 2, false), finish("missing", 1, false)] {
        assert_eq!(refusal(&*store, [other]).await, Conflict::OwnerChanged);
    }
    assert_eq!(authorizations(&*store).await, [(id("a"), 1, ada)]);
    assert_eq!(read(&*store, "a").await.unstarted, 0);
    made(&*store, [end("a", "here", 1)]).await;
    assert_eq!(refusal(&*store, [finish("a", 1, false)]).await, Conflict::OwnerChanged, "it is over");
}

pub async fn only_the_owner_marks_an_attempt_as_started(place: &dyn TestDatabase) {
    let store = place.open().await;
    let mark =
        |owner: &str, attempt| Change::from(ExecutionChange::MarkStarted { id: id("a"), owner: node(owner), attempt });
    let (first, ada) = begun("a", 1, "ada");
    made(&*store, [create("a"), mark("here", 0), first]).await;
    made(&*store, [mark("elsewhere", 1), mark("here", 2)]).await;
    assert_eq!(authorizations(&*store).await, [(id("a"), 1, ada.clone())]);
    made(&*store, [mark("here", 1)]).await;
    assert_eq!(authorizations(&*store).await, [(id("a"), 1, CallAuthorization { started: true, ..ada })]);
    made(&*store, [finish("a", 1, true), mark("here", 1)]).await;
    assert_eq!(authorizations(&*store).await, []);
    made(&*store, [begun("a", 2, "bob").0]).await;
    assert!(!authorizations(&*store).await[0].2.started, "the next attempt begins unmarked");
}

pub async fn attempts_whose_program_never_started_are_counted_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a")]).await;
    for (attempt, started, unstarted) in [(1, false, 1), (2, true, 1), (3, false, 2)] {
        made(&*store, [begun("a", attempt, "ada").0, finish("a", attempt, started)]).await;
        assert_eq!(refusal(&*store, [finish("a", attempt, started)]).await, Conflict::OwnerChanged, "it has ended");
        assert_eq!((read(&*store, "a").await.attempt, read(&*store, "a").await.unstarted), (attempt, unstarted));
    }
}

pub async fn execution_may_be_created_with_its_first_attempt_begun(place: &dyn TestDatabase) {
    let store = place.open().await;
    let mut running = execution("a");
    running.begin(later(3)).unwrap();
    let authorization = begun("a", 1, "ada").1;
    let create = Change::from(ExecutionChange::Create {
        execution: Box::new(running.clone()),
        owner: sample::here(),
        idempotency: None,
        call: Some(authorization.clone()),
    });
    made(&*store, [create]).await;
    assert_eq!(store.begun_calls(&sample::here()).await.unwrap(), [(running, authorization)]);
    made(&*store, [end("a", "here", 1)]).await;
    assert_eq!(authorizations(&*store).await, []);
}
