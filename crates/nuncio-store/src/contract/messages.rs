use nuncio_core::message::{Block, Message, UnknownMessageFields};
use nuncio_engine::ports::store::{Change, Conflict, EncodedMessage, SessionChange, Store, StoredMessage};
use serde_json::json;

use super::sample::{self, session_id};
use super::{TestDatabase, made, refusal};

async fn next_message(store: &dyn Store) -> u64 {
    store.session(&session_id("s")).await.unwrap().unwrap().next_message
}

async fn texts(store: &dyn Store, from: u64) -> Vec<(u64, u64, String)> {
    let messages = store.messages(&session_id("s"), from).await.unwrap();
    let read = |stored: &EncodedMessage| (stored.number, stored.turn, stored.decode().unwrap().message.text());
    messages.iter().map(read).collect()
}

pub async fn messages_are_read_in_order(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    for number in 0..12 {
        made(&*store, [sample::append("s", 1, number, &number.to_string())]).await;
        assert_eq!(next_message(&*store).await, number + 1);
    }
    let expected: Vec<_> = (0..12).map(|number: u64| (number, 1, number.to_string())).collect();
    assert_eq!(texts(&*store, 0).await, expected);
}

pub async fn messages_may_be_stored_out_of_number_order(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    for (number, next) in [(3, 4), (1, 4), (5, 6), (2, 6), (0, 6), (4, 6)] {
        made(&*store, [sample::append("s", 1, number, &number.to_string())]).await;
        assert_eq!(next_message(&*store).await, next, "after {number}");
    }
    let expected: Vec<_> = (0..6).map(|number: u64| (number, 1, number.to_string())).collect();
    assert_eq!(texts(&*store, 0).await, expected);
}

/// A second message with the same number is refused with `Exists`, and the first stays.
pub async fn second_message_with_the_same_number_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s"), sample::append("s", 1, 0, "first")]).await;
    assert_eq!(refusal(&*store, [sample::append("s", 2, 0, "second")]).await, Conflict::Exists);
    assert_eq!(texts(&*store, 0).await, [(0, 1, "first".to_owned())]);
    // Another session has its own message numbers.
    made(&*store, [sample::create("other"), sample::append("other", 1, 0, "second")]).await;
}

pub async fn message_for_unknown_session_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [sample::append("s", 1, 0, "hello?")]).await, Conflict::NoSession);
}

pub async fn reading_messages_starts_at_the_given_number(place: &dyn TestDatabase) {
    let store = place.open().await;
    let session = nuncio_core::session::Session { next_message: 1, ..sample::session("s") };
    made(&*store, [Change::from(SessionChange::Create { session, messages: vec![Message::user("before")] })]).await;
    for (turn, number, text) in [(1, 1, "a"), (2, 3, "c"), (1, 2, "b")] {
        made(&*store, [sample::append("s", turn, number, text)]).await;
    }
    let read =
        async |from| texts(&*store, from).await.into_iter().map(|(_, turn, text)| (turn, text)).collect::<Vec<_>>();
    let all = [(0, "before"), (1, "a"), (1, "b"), (2, "c")].map(|(turn, text)| (turn, text.to_owned()));
    assert_eq!(read(0).await, all);
    assert_eq!(read(2).await, all[2..]);
    assert!(read(4).await.is_empty());
}

pub async fn messages_before_a_number_are_read_newest_first_up_to_the_limit(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s"), sample::create("other"), sample::append("other", 1, 2, "other")]).await;
    // Number 3 is missing, as after a call whose result was never stored.
    for number in (0..100).filter(|number| *number != 3) {
        made(&*store, [sample::append("s", 1, number, &number.to_string())]).await;
    }
    for (before, limit) in [(100, 3), (100, 100), (99, 70), (5, 2), (5, 10), (1, 1), (0, 5), (50, 0)] {
        let read = store.messages_before(&session_id("s"), before, limit).await.unwrap();
        let read: Vec<_> = read.iter().map(|stored| (stored.number, stored.decode().unwrap().message.text())).collect();
        let numbers = (0..before).rev().filter(|number| *number != 3).take(limit);
        let expected: Vec<_> = numbers.map(|number| (number, number.to_string())).collect();
        assert_eq!(read, expected, "before {before}, at most {limit}");
    }
    assert_eq!(store.messages_before(&session_id("none"), 5, 5).await.unwrap(), []);
}

pub async fn system_messages_are_found_among_those_that_a_session_began_with(place: &dyn TestDatabase) {
    let store = place.open().await;
    let began = |number: u64| match number % 10 {
        3 => Message::System { content: format!("rule {number}"), extra: UnknownMessageFields::new() },
        0 => Message::assistant(vec![Block::text(r#"{"role":"system"}"#)]),
        _ => Message::user(r#"{"role":"system","content":"no"}"#),
    };
    let session = nuncio_core::session::Session { next_message: 1000, ..sample::session("s") };
    let messages = (0..1000).map(began).collect();
    made(&*store, [Change::from(SessionChange::Create { session, messages }), sample::append("s", 1, 1000, "x")]).await;
    for (before, count) in [(1001, 100), (500, 50), (13, 1), (14, 2), (3, 0), (0, 0)] {
        let read = store.system_messages(&session_id("s"), before).await.unwrap();
        let read: Vec<_> = read.iter().map(|stored| stored.decode().unwrap()).collect();
        let numbers = (0..count).map(|n| 10 * n + 3);
        let expected: Vec<_> =
            numbers.map(|number| StoredMessage { number, turn: 0, message: began(number) }).collect();
        assert_eq!(read, expected, "before {before}");
    }
    assert_eq!(store.system_messages(&session_id("none"), 5).await.unwrap(), []);
}

pub async fn unknown_message_fields_are_preserved(place: &dyn TestDatabase) {
    let store = place.open().await;
    let wire = json!([
        {"role": "system", "content": "be kind", "x": {"y": [1, 2.5, null]}},
        {"role": "user", "content": "quote \" backslash \\ nul \u{0} 中文 🦀"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "sig": "s"},
            {"type": "tool_use", "toolCallId": "c1", "name": "add", "input": {"a": 18_446_744_073_709_551_615_u64}, "z": 1}]},
        {"role": "tool", "toolCallId": "c1", "content": [{"type": "image", "url": "data:image/png;base64,AA=="}]},
        {"role": "user", "content": []},
    ]);
    let messages: Vec<Message> = serde_json::from_value(wire).unwrap();
    made(&*store, [sample::create("s")]).await;
    let append = |(number, message): (u64, &Message)| {
        Change::from(SessionChange::AppendMessage {
            session: session_id("s"),
            turn: 1,
            number,
            message: message.clone(),
        })
    };
    made(&*store, (0..).zip(&messages).map(append).collect::<Vec<_>>()).await;
    let stored = store.messages(&session_id("s"), 0).await.unwrap();
    let stored: Vec<_> = stored.iter().map(|stored| stored.decode().unwrap()).collect();
    let expected: Vec<_> =
        (0..).zip(messages).map(|(number, message)| StoredMessage { number, turn: 1, message }).collect();
    assert_eq!(stored, expected);
}
