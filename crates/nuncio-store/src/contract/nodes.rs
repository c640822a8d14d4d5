//! Contract checks for nodes: registration, the fence of dead incarnations, and the work that they leave.

use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::store::{
    ApprovalChange, CallChange, Change, Conflict, NodeChange, NodeRecord, NodeState, StartedCall, Store, StoreError,
    TaskChange,
};

use super::sample::{self, NOW, later, node};
use super::{TestDatabase, executions, made, refusal, tasks};

fn record(name: &str) -> NodeRecord {
    NodeRecord {
        incarnation: node(name),
        host: "host 1".to_owned(),
        version: "0.2.0".to_owned(),
        started_at: NOW,
        state: NodeState::Alive,
    }
}

fn join(name: &str) -> Change {
    Change::from(NodeChange::Join(record(name)))
}

fn declare_dead(name: &str) -> Change {
    Change::from(NodeChange::DeclareDead(node(name)))
}

async fn states(store: &dyn Store) -> Vec<(String, NodeState)> {
    let nodes = store.nodes().await.unwrap();
    nodes.into_iter().map(|node| (node.incarnation.to_string(), node.state)).collect()
}

async fn orphans(store: &dyn Store) -> Vec<Incarnation> {
    store.orphaned_owners().await.unwrap()
}

pub async fn node_round_trips_and_registers_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [join("a")]).await;
    assert_eq!(store.nodes().await.unwrap(), [record("a")]);
    assert_eq!(refusal(&*store, [join("a")]).await, Conflict::Exists);
    made(&*store, [declare_dead("a"), declare_dead("never")]).await;
    assert_eq!(refusal(&*store, [join("a")]).await, Conflict::Exists, "an incarnation does not live twice");
    assert_eq!(states(&*store).await, [("a".to_owned(), NodeState::Dead)]);
}

pub async fn joining_alone_is_refused_while_another_node_is_alive(place: &dyn TestDatabase) {
    let store = place.open().await;
    let join_alone = |name: &str| Change::from(NodeChange::JoinAlone(record(name)));
    made(&*store, [join_alone("a"), Change::from(NodeChange::RenewLease(node("a")))]).await;
    assert_eq!(refusal(&*store, [join_alone("b")]).await, Conflict::OtherNodeAlive);
    assert_eq!(states(&*store).await, [("a".to_owned(), NodeState::Alive)]);
    made(&*store, [declare_dead("a"), join_alone("b")]).await;
    assert_eq!(refusal(&*store, [declare_dead("b"), join_alone("a")]).await, Conflict::Exists);
}

pub async fn declaring_all_dead_leaves_nodes_that_join_afterwards_alive(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [join("a"), join("b")]).await;
    made(&*store, [Change::from(NodeChange::DeclareAllDead), join("c")]).await;
    let dead = |name: &str| (name.to_owned(), NodeState::Dead);
    assert_eq!(states(&*store).await, [dead("a"), dead("b"), ("c".to_owned(), NodeState::Alive)]);
}

pub async fn only_dead_nodes_that_started_before_the_limit_are_forgotten(place: &dyn TestDatabase) {
    let store = place.open().await;
    let late = NodeRecord { started_at: later(10), ..record("late") };
    made(&*store, [join("old"), join("alive"), Change::from(NodeChange::Join(late)), declare_dead("old")]).await;
    made(&*store, [declare_dead("late"), Change::from(NodeChange::Forget(later(5)))]).await;
    let left = [("alive".to_owned(), NodeState::Alive), ("late".to_owned(), NodeState::Dead)];
    assert_eq!(states(&*store).await, left);
}

pub async fn commits_of_a_dead_incarnation_are_refused_and_change_nothing(place: &dyn TestDatabase) {
    let (first, second) = (place.open().await, place.open().await);
    made(&*first, [join("a")]).await;
    first.fence(&node("a"));
    made(&*second, [join("b")]).await;
    second.fence(&node("b"));
    made(&*first, [sample::create("s")]).await;
    made(&*second, [declare_dead("a")]).await;
    for _ in 0..2 {
        assert_eq!(first.commit(vec![sample::create("late")]).await, Err(StoreError::Fenced));
    }
    assert_eq!(second.session(&sample::session_id("late")).await.unwrap(), None);
    made(&*second, [sample::create("t")]).await;
    assert!(first.session(&sample::session_id("t")).await.unwrap().is_some(), "a dead node may still read");
}

pub async fn incarnation_is_fenced_from_the_commit_that_declares_it_dead(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [join("a")]).await;
    store.fence(&node("a"));
    store.fence(&node("other"));
    made(&*store, [sample::create("s"), declare_dead("a")]).await;
    assert_eq!(store.commit(vec![sample::create("t")]).await, Err(StoreError::Fenced));
}

pub async fn unfinished_work_of_every_kind_is_orphaned_when_its_owner_is_not_alive(place: &dyn TestDatabase) {
    let store = place.open().await;
    let approval = || sample::approval("a", NOW);
    let call = StartedCall { key: "k".to_owned(), node: sample::here(), record: sample::record("k"), target: None };
    let task = |node| TaskChange::Create { task: Box::new(tasks::task("t", None)), node };
    let begun = vec![sample::create("s"), sample::begin("s", 1)];
    let each: [(Vec<Change>, Change); 5] = [
        (begun, sample::end("s", 1)),
        (vec![CallChange::Start(Box::new(call)).into()], CallChange::Finish("k".to_owned()).into()),
        (vec![executions::create("e")], executions::end("e", "here", 0)),
        (
            vec![ApprovalChange::Create { approval: approval(), node: Some(sample::here()) }.into()],
            ApprovalChange::Move { approval: approval().expire(later(9)).unwrap(), from: "pending" }.into(),
        ),
        (
            vec![task(Some(sample::here())).into()],
            TaskChange::Move {
                from: Box::new(tasks::task("t", None)),
                to: Box::new(tasks::task("t", None).withdraw(later(9))),
            }
            .into(),
        ),
    ];
    assert_eq!(orphans(&*store).await, []);
    for (work, end) in each {
        let kind = format!("{end:?}");
        made(&*store, work).await;
        assert_eq!(orphans(&*store).await, [sample::here()], "{kind}");
        made(&*store, [end]).await;
        assert_eq!(orphans(&*store).await, [], "{kind}");
    }
}

pub async fn work_of_living_nodes_and_work_without_an_owner_is_not_orphaned(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [join("here"), sample::create("s"), sample::begin("s", 1), executions::create("e")]).await;
    made(
        &*store,
        [
            Change::from(ApprovalChange::Create { approval: sample::approval("a", NOW), node: None }),
            Change::from(TaskChange::Create { task: Box::new(tasks::task("t", None)), node: None }),
        ],
    )
    .await;
    assert_eq!(orphans(&*store).await, []);
    made(&*store, [declare_dead("here")]).await;
    assert_eq!(orphans(&*store).await, [sample::here()]);
}

pub async fn work_is_listed_by_the_incarnation_that_runs_it(place: &dyn TestDatabase) {
    let store = place.open().await;
    let approval =
        Change::from(ApprovalChange::Create { approval: sample::approval("a", NOW), node: Some(sample::here()) });
    let task = Change::from(TaskChange::Create { task: Box::new(tasks::task("t", None)), node: Some(sample::here()) });
    made(&*store, [sample::create("s"), sample::begin("s", 1), approval, task]).await;
    for (name, count) in [("here", 1), ("there", 0)] {
        let owner = node(name);
        assert_eq!(store.running_turns(&owner).await.unwrap().len(), count);
        assert_eq!(store.pending_approvals_of(&owner).await.unwrap().len(), count);
        assert_eq!(store.open_tasks_of(&owner).await.unwrap().len(), count);
    }
    assert_eq!(store.pending_approvals().await.unwrap().len(), 1);
    assert_eq!(store.open_tasks(10).await.unwrap().len(), 1);
}
