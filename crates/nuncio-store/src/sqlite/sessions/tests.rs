//! The work of the statements of a turn.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::path::Path;

use nuncio_core::ids::{AgentName, CallId, KeyId};
use nuncio_core::message::ToolCall;
use nuncio_core::policy::Protocol;
use nuncio_core::session::{AwaitedAnswer, PendingCall, SessionSettings};
use nuncio_core::turn::{StopReason, StreamMode, TurnOutcome, turn_id};
use nuncio_engine::ports::store::Store as _;

use super::*;
use crate::sqlite::rows::steps;
use crate::sqlite::{connection, migrations};

fn id() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn owner() -> Principal {
    Principal::Key(KeyId::parse("key_ada").unwrap())
}

fn at() -> Timestamp {
    Timestamp::from_millis(0)
}

fn begin(turn: u64) -> Vec<SessionChange> {
    let begin = SessionChange::BeginTurn {
        session: id(),
        number: turn,
        node: Incarnation::parse("here").unwrap(),
        mode: StreamMode::None,
        protocol: Protocol::Aap,
        at: at(),
        settings: Some(SessionSettings::default()),
    };
    vec![begin, said(turn, 2 * turn)]
}

fn end(turn: u64) -> Vec<SessionChange> {
    let stop = TurnOutcome {
        stop_reason: StopReason::EndTurn,
        turn_id: turn_id(&id(), turn),
        cancelled: false,
        usage: None,
        error: None,
    };
    let end = SessionChange::EndTurn { session: id(), number: turn, at: at(), stop, events: b"events".to_vec() };
    vec![said(turn, 2 * turn + 1), end]
}

fn said(turn: u64, number: u64) -> SessionChange {
    SessionChange::AppendMessage { session: id(), turn, number, message: Message::user("hello") }
}

fn pending() -> PendingCall {
    let name = nuncio_core::ids::ToolName::parse("book").unwrap();
    let call = ToolCall { id: CallId::parse("c1").unwrap(), name, input: serde_json::Map::new() };
    let arguments_digest = nuncio_core::digest::Digest::ZERO;
    PendingCall { call, arguments_digest, awaits: AwaitedAnswer::Permission, elsewhere: false }
}

fn database_after(turns: u64, began_with: Vec<Message>, file: &Path) -> Connection {
    let connection = connection::writing(file).unwrap();
    migrations::run(&connection).unwrap();
    let session = Session {
        id: id(),
        owner: owner(),
        agent: AgentName::parse("hotel").unwrap(),
        settings: SessionSettings::default(),
        pending: Vec::new(),
        turns: 0,
        running: false,
        next_message: began_with.len() as u64,
        summary: None,
        created_at: at(),
    };
    connection.execute_batch("BEGIN").unwrap();
    apply(&connection, &SessionChange::Create { session, messages: began_with }).unwrap();
    for change in (1..=turns).flat_map(|turn| begin(turn).into_iter().chain(end(turn))) {
        apply(&connection, &change).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    connection
}

/// Steps of each statement of a turn, in a session with this number of earlier turns.
async fn steps_of_a_turn(earlier: u64) -> Vec<(&'static str, i32)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nuncio.db");
    let connection = database_after(earlier, Vec::new(), &file);
    let store = SqliteStore::open(&file).unwrap();
    let mut counted = Vec::new();
    steps::take();
    let session = store.session(&id()).await.unwrap().unwrap();
    assert_eq!((session.turns, session.running), (earlier, false));
    counted.push(("session", steps::take()));
    assert!(store.bytes_stored(&owner()).await.unwrap() > 0);
    counted.push(("bytes_stored", steps::take()));
    assert_eq!(store.idempotency_record(&owner(), "turns/s", "k").await.unwrap(), None);
    counted.push(("idempotency_record", steps::take()));
    assert_eq!(store.messages_before(&id(), session.next_message, 4).await.unwrap().len(), 4);
    counted.push(("messages_before", steps::take()));
    assert!(store.system_messages(&id(), session.next_message).await.unwrap().is_empty());
    counted.push(("system_messages", steps::take()));
    let this = earlier + 1;
    let record = IdempotencyRecord {
        owner: owner(),
        request: "turns/s".to_owned(),
        key: "k".to_owned(),
        body: nuncio_core::digest::Digest::ZERO,
        session: id(),
        turn: Some(this),
    };
    let called = SessionChange::SetPending { session: id(), pending: vec![pending()] };
    let changes = begin(this).into_iter().chain([SessionChange::Remember(record), called]).chain(end(this));
    for change in changes {
        apply(&connection, &change).unwrap();
        counted.push(("change", steps::take()));
    }
    assert_eq!(store.messages(&id(), 2 * this + 1).await.unwrap().len(), 1);
    counted.push(("messages", steps::take()));
    assert!(store.turn(&id(), this).await.unwrap().is_some());
    counted.push(("turn", steps::take()));
    assert_eq!(store.session(&id()).await.unwrap().unwrap().turns, this);
    counted.push(("session after the turn", steps::take()));
    counted
}

#[tokio::test]
async fn statements_of_a_turn_take_as_many_steps_after_1000_turns_as_after_10() {
    let first = steps_of_a_turn(10).await;
    assert!(first.iter().all(|(_, steps)| *steps > 0), "{first:?}");
    for earlier in [100, 1000] {
        assert_eq!(steps_of_a_turn(earlier).await, first, "after {earlier} turns");
    }
}

#[tokio::test]
async fn system_messages_take_as_many_steps_among_1000_first_messages_as_among_10() {
    let mut counted = Vec::new();
    for others in [10, 1000] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nuncio.db");
        let system =
            Message::System { content: "be kind".to_owned(), extra: nuncio_core::message::UnknownMessageFields::new() };
        let began_with = std::iter::once(system).chain(std::iter::repeat_n(Message::user("hello"), others)).collect();
        drop(database_after(0, began_with, &file));
        let store = SqliteStore::open(&file).unwrap();
        steps::take();
        assert_eq!(store.system_messages(&id(), u64::MAX >> 1).await.unwrap().len(), 1);
        counted.push(steps::take());
    }
    assert!(counted[0] > 0);
    assert_eq!(counted[0], counted[1]);
}
