//! Contract checks for human tasks.

use nuncio_core::ids::{AgentName, CallId, TaskId, ToolName};
use nuncio_core::task::{HumanTask, TaskState};
use nuncio_engine::ports::store::{Change, Conflict, TaskChange};
use serde_json::{Map, json};

use super::sample::{self, later, owner};
use super::{TestDatabase, assert_one_winner, executions, made, race, refusal};

fn id(id: &str) -> TaskId {
    TaskId::parse(id).unwrap()
}

pub(super) fn task(name: &str, execution: Option<&str>) -> HumanTask {
    let mut inputs = Map::new();
    inputs.insert("shelf".to_owned(), json!(["A", 1.5, null]));
    HumanTask {
        id: id(name),
        agent: AgentName::parse("depot").unwrap(),
        tool: ToolName::parse("pickup").unwrap(),
        title: "Abholen \"jetzt\"".to_owned(),
        instructions: "Fetch it\n取货".to_owned(),
        inputs,
        form: Some(json!({"type": "object", "properties": {"weight": {"type": "number"}}})),
        asked_by: owner(),
        call: CallId::parse("c1").unwrap(),
        execution: execution.map(executions::id),
        created_at: later(0),
        due: later(60_000),
        state: TaskState::Open,
    }
}

fn create(task: &HumanTask) -> Change {
    Change::from(TaskChange::Create { task: Box::new(task.clone()), node: Some(sample::here()) })
}

fn moved(from: &HumanTask, to: &HumanTask) -> Change {
    Change::from(TaskChange::Move { from: Box::new(from.clone()), to: Box::new(to.clone()) })
}

pub async fn task_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [executions::create("exe_1")]).await;
    let (mine, other) = (task("a", Some("exe_1")), HumanTask { form: None, ..task("b", None) });
    made(&*store, [create(&mine), create(&other)]).await;
    assert_eq!(store.task(&id("a")).await.unwrap(), Some(mine));
    assert_eq!(store.task(&id("b")).await.unwrap(), Some(other));
    assert_eq!(store.task(&id("c")).await.unwrap(), None);
}

/// A second task with the same id is refused with `Exists`, also when the first is over.
pub async fn duplicate_task_id_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let first = task("a", None);
    made(&*store, [create(&first)]).await;
    let second = HumanTask { title: "Another".to_owned(), ..first.clone() };
    assert_eq!(refusal(&*store, [create(&second)]).await, Conflict::Exists);
    let gone = first.clone().withdraw(later(1));
    made(&*store, [moved(&first, &gone)]).await;
    assert_eq!(refusal(&*store, [create(&second)]).await, Conflict::Exists);
    assert_eq!(store.task(&id("a")).await.unwrap(), Some(gone));
}

/// A change of a task that changed since it was read is refused with `TaskMoved`.
pub async fn task_changes_only_from_the_state_that_was_read(place: &dyn TestDatabase) {
    let store = place.open().await;
    let open = task("a", None);
    made(&*store, [create(&open)]).await;
    let ada = open.clone().take("ada", false, later(1)).unwrap();
    let bob = open.clone().take("bob", false, later(1)).unwrap();
    assert_eq!(refusal(&*store, [moved(&ada, &bob)]).await, Conflict::TaskMoved, "ada never had it");
    made(&*store, [moved(&open, &ada)]).await;
    assert_eq!(refusal(&*store, [moved(&open, &bob)]).await, Conflict::TaskMoved, "ada was first");
    // Taken by the same person at another time: not the stored state.
    let ada_later = open.clone().take("ada", false, later(2)).unwrap();
    assert_eq!(refusal(&*store, [moved(&ada_later, &bob)]).await, Conflict::TaskMoved);
    let done = ada.clone().finish("ada", json!({"weight": 2.5, "客": [null]}), later(3)).unwrap();
    made(&*store, [moved(&ada, &done)]).await;
    assert_eq!(store.task(&id("a")).await.unwrap(), Some(done.clone()));
    assert_eq!(refusal(&*store, [moved(&ada, &open)]).await, Conflict::TaskMoved);
    assert_eq!(store.task(&id("a")).await.unwrap(), Some(done));
}

/// Changing an unknown task is refused with `Missing`.
pub async fn changing_unknown_task_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let open = task("a", None);
    let taken = open.clone().take("ada", false, later(1)).unwrap();
    assert_eq!(refusal(&*store, [moved(&open, &taken)]).await, Conflict::Missing);
    assert_eq!(store.task(&id("a")).await.unwrap(), None);
}

pub async fn open_tasks_are_listed_oldest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.open_tasks(10).await.unwrap(), []);
    let made_at = [("c", 0), ("a", 2), ("b", 1), ("d", 3), ("e", 3)];
    let [c, a, b, d, e] = made_at.map(|(name, at)| HumanTask { created_at: later(at), ..task(name, None) });
    for task in [&a, &b, &c, &d, &e] {
        made(&*store, [create(task)]).await;
    }
    assert_eq!(store.open_tasks(10).await.unwrap(), [c.clone(), b.clone(), a.clone(), d.clone(), e.clone()]);
    assert_eq!(store.open_tasks(2).await.unwrap(), [c.clone(), b.clone()]);
    assert_eq!(store.open_tasks(usize::MAX).await.unwrap().len(), 5);

    let taken = a.clone().take("ada", false, later(5)).unwrap();
    let done = c.clone().finish("ada", json!("x"), later(5)).unwrap();
    let refused = d.clone().refuse("bob", "no", later(5)).unwrap();
    let gone = e.clone().withdraw(later(5));
    made(&*store, [moved(&a, &taken), moved(&c, &done), moved(&d, &refused), moved(&e, &gone)]).await;
    assert_eq!(store.open_tasks(10).await.unwrap(), [b.clone(), taken.clone()]);
    let back = taken.clone().give_back("ada", later(6)).unwrap();
    made(&*store, [moved(&taken, &back)]).await;
    assert_eq!(store.open_tasks(10).await.unwrap(), [b, back]);
}

pub async fn only_one_of_many_concurrent_task_takers_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    let open = task("a", None);
    made(&*store, [create(&open)]).await;
    let taken: Vec<_> = (0..32).map(|n| open.clone().take(&format!("person {n}"), false, later(1)).unwrap()).collect();
    let outcomes = race(&store, taken.iter().map(|taken| vec![moved(&open, taken)])).await;
    assert_one_winner(&outcomes, Conflict::TaskMoved);
    let winner = outcomes.iter().position(Result::is_ok).unwrap();
    assert_eq!(store.task(&id("a")).await.unwrap().as_ref(), Some(&taken[winner]));
}
