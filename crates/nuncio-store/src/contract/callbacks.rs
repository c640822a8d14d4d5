//! Contract checks for execution callbacks.

use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Change, Conflict, ExecutionCallback, ExecutionChange, Store};

use super::executions::{RETENTION_MS, completed, create, end, end_at, id};
use super::sample::later;
use super::{TestDatabase, made, refusal};

fn pending_callback(name: &str, due: i64, attempts: u32) -> ExecutionCallback {
    ExecutionCallback { execution: id(name), due: later(due), attempts }
}

fn put(name: &str, due: i64, attempts: u32) -> Change {
    Change::from(ExecutionChange::PutCallback(pending_callback(name, due, attempts)))
}

async fn until(store: &dyn Store, until: Timestamp, limit: usize) -> Vec<ExecutionCallback> {
    store.callbacks(until, limit).await.unwrap()
}

async fn all(store: &dyn Store) -> Vec<ExecutionCallback> {
    until(store, Timestamp::LAST, usize::MAX).await
}

pub async fn callbacks_are_listed_in_due_order(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(all(&*store).await, []);
    for (name, due) in [("c", 20), ("a", 30), ("d", 10), ("b", 20)] {
        made(&*store, [create(name), put(name, due, 0)]).await;
    }
    let expected = [
        pending_callback("d", 10, 0),
        pending_callback("b", 20, 0),
        pending_callback("c", 20, 0),
        pending_callback("a", 30, 0),
    ];
    assert_eq!(all(&*store).await, expected);
    assert_eq!(until(&*store, later(9), 10).await, []);
    assert_eq!(until(&*store, later(20), 10).await, expected[..3]);
    assert_eq!(until(&*store, later(20), 2).await, expected[..2]);
    assert_eq!(until(&*store, later(20), 0).await, []);
}

pub async fn second_callback_of_an_execution_replaces_the_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a"), put("a", 5, 0)]).await;
    made(&*store, [put("a", 90_000, u32::MAX)]).await;
    assert_eq!(all(&*store).await, [pending_callback("a", 90_000, u32::MAX)]);
    assert_eq!(until(&*store, later(5), 10).await, [], "not at its old time as well");
}

/// A callback of an unknown execution is refused with `Missing`, and its whole commit fails.
pub async fn callback_of_unknown_execution_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [create("a"), put("b", 5, 0)]).await, Conflict::Missing);
    assert_eq!(all(&*store).await, []);
    assert_eq!(store.execution(&id("a")).await.unwrap(), None);
}

pub async fn removing_a_missing_callback_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a"), put("a", 5, 3), create("b"), put("b", 6, 4)]).await;
    for _ in 0..2 {
        made(&*store, [Change::from(ExecutionChange::RemoveCallback(id("a")))]).await;
        assert_eq!(all(&*store).await, [pending_callback("b", 6, 4)]);
    }
    made(&*store, [Change::from(ExecutionChange::RemoveCallback(id("unknown")))]).await;
    assert!(store.execution(&id("a")).await.unwrap().is_some(), "the execution stays");
    made(&*store, [put("a", 7, 0)]).await;
    assert_eq!(all(&*store).await, [pending_callback("b", 6, 4), pending_callback("a", 7, 0)]);
}

pub async fn callback_is_stored_atomically_with_the_end_of_its_execution(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a")]).await;
    assert_eq!(refusal(&*store, [put("a", 9, 0), end("a", "there", 0)]).await, Conflict::OwnerChanged);
    assert_eq!(all(&*store).await, []);
    made(&*store, [end("a", "here", 0), put("a", 9, 0)]).await;
    assert_eq!(all(&*store).await, [pending_callback("a", 9, 0)]);
    assert!(store.execution(&id("a")).await.unwrap().unwrap().state.is_over());
}

pub async fn callback_is_deleted_with_its_execution(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("old"), end_at("old", "here", 0, completed(), later(0)), put("old", 5, 2)]).await;
    made(&*store, [create("new"), end_at("new", "here", 0, completed(), later(1)), put("new", 6, 2)]).await;
    made(&*store, [Change::from(ExecutionChange::Forget { at: later(RETENTION_MS), limit: 10 })]).await;
    assert_eq!(all(&*store).await, [pending_callback("new", 6, 2)]);
    assert_eq!(refusal(&*store, [put("old", 7, 3)]).await, Conflict::Missing);
    made(&*store, [Change::from(ExecutionChange::RemoveCallback(id("old")))]).await;
}

pub async fn callbacks_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("a"), put("a", 5, 3), create("b"), put("b", 4, 0)]).await;
    made(&*store, [create("c"), put("c", 3, 0), Change::from(ExecutionChange::RemoveCallback(id("c")))]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(all(&*store).await, [pending_callback("b", 4, 0), pending_callback("a", 5, 3)]);
}
