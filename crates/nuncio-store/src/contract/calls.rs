//! Contract checks for started calls.

use nuncio_core::audit::AuditRecord;
use nuncio_core::ids::CallId;
use nuncio_engine::ports::store::{
    CallChange, Change, Conflict, HistorySlot, ResultTarget, SessionChange, StartedCall,
};

use super::sample::{self, later, session_id};
use super::{TestDatabase, made, refusal};

fn started(key: &str, asked: i64, target: Option<ResultTarget>) -> StartedCall {
    let record = AuditRecord { asked_at: later(asked), ..sample::record(key) };
    StartedCall { key: key.to_owned(), node: sample::here(), record, target }
}

fn start(call: &StartedCall) -> Change {
    Change::from(CallChange::Start(Box::new(call.clone())))
}

fn in_history() -> ResultTarget {
    ResultTarget::Message(HistorySlot {
        session: session_id("s"),
        turn: 2,
        number: 7,
        call: CallId::parse("c 1").unwrap(),
    })
}

pub async fn started_calls_are_stored_until_they_end(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.started_calls(&sample::here()).await.unwrap(), []);
    let (one, two) = (started("k1", 0, Some(in_history())), started("k2", 1, None));
    made(&*store, [start(&one), start(&two)]).await;
    assert_eq!(store.started_calls(&sample::here()).await.unwrap(), [one, two.clone()]);
    made(&*store, [Change::from(CallChange::Finish("k1".into()))]).await;
    assert_eq!(store.started_calls(&sample::here()).await.unwrap(), std::slice::from_ref(&two));
    for key in ["k1", "never"] {
        assert_eq!(refusal(&*store, [Change::from(CallChange::Finish(key.into()))]).await, Conflict::Missing);
    }
}

/// A second call with the same key is refused with `Exists` until the first has ended.
pub async fn duplicate_key_of_a_started_call_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (first, second) = (started("k", 0, None), started("k", 1, Some(in_history())));
    made(&*store, [start(&first)]).await;
    assert_eq!(refusal(&*store, [start(&second)]).await, Conflict::Exists);
    assert_eq!(store.started_calls(&sample::here()).await.unwrap(), [first]);
    made(&*store, [Change::from(CallChange::Finish("k".into())), start(&second)]).await;
    assert_eq!(store.started_calls(&sample::here()).await.unwrap(), [second]);
}

pub async fn started_call_survives_deletion_of_its_session(place: &dyn TestDatabase) {
    let store = place.open().await;
    let call = started("k", 0, Some(in_history()));
    made(&*store, [sample::create("s"), start(&call)]).await;
    made(&*store, [Change::from(SessionChange::Delete(session_id("s")))]).await;
    assert_eq!(store.started_calls(&sample::here()).await.unwrap(), [call]);
}
