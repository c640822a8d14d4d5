//! Messages between agents, and who belongs to whom.

use nuncio_core::ids::{AgentName, PersonName, SessionId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::peers::{Letter, LetterAnswer, Link, OwedAnswer};
use nuncio_engine::ports::store::{Change, Conflict, Store};

use super::sample::{create, later, owner};
use super::{Place, made, refusal};

fn owed(name: &str, due: i64, attempts: u32) -> OwedAnswer {
    OwedAnswer {
        id: name.to_owned(),
        session: SessionId::parse("s1").unwrap(),
        request: "operation/1".to_owned(),
        owner: owner(),
        agent: AgentName::parse("desk").unwrap(),
        to: "did:wba:example.com:ada".to_owned(),
        answers: "msg \"1\"".to_owned(),
        due: later(due),
        attempts,
    }
}

fn owe(name: &str, due: i64, attempts: u32) -> Change {
    Change::OweAnswer(owed(name, due, attempts))
}

async fn until(store: &dyn Store, until: Timestamp, limit: usize) -> Vec<OwedAnswer> {
    store.owed_answers(until, limit).await.unwrap()
}

async fn all(store: &dyn Store) -> Vec<OwedAnswer> {
    until(store, Timestamp::LAST, usize::MAX).await
}

/// Answers due until a time, that time included, the first first, and no more than asked for.
pub async fn the_first_to_be_taken_come_first(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [create("s1")]).await;
    made(&*store, [owe("c", 20, 0), owe("a", 30, 1), owe("d", 10, 2), owe("b", 20, 3)]).await;
    let expected = [owed("d", 10, 2), owed("b", 20, 3), owed("c", 20, 0), owed("a", 30, 1)];
    assert_eq!(all(&*store).await, expected);
    assert_eq!(until(&*store, later(20), 9).await, expected[..3]);
    assert_eq!(until(&*store, later(20), 1).await, expected[..1]);
    assert_eq!(until(&*store, later(9), 9).await, []);
}

/// Owed again is owed at another time, and once; settled is gone, and settled again is no fault.
pub async fn owed_once_and_settled(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [create("s1"), owe("a", 5, 0), owe("a", 9, 4)]).await;
    assert_eq!(all(&*store).await, [owed("a", 9, 4)]);
    for _ in 0..2 {
        made(&*store, [Change::SettleAnswer("a".to_owned())]).await;
        assert_eq!(all(&*store).await, []);
    }
}

/// Nothing is owed in a conversation that is not there, or not any more.
pub async fn owed_with_their_session_alone(place: &dyn Place) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [owe("a", 5, 0)]).await, Conflict::NoSession);
    made(&*store, [create("s1"), owe("a", 5, 0)]).await;
    made(&*store, [Change::DeleteSession(SessionId::parse("s1").unwrap())]).await;
    assert_eq!(all(&*store).await, []);
}

fn letter(agent: &str, id: &str, sent: i64) -> Letter {
    Letter {
        id: id.to_owned(),
        agent: AgentName::parse(agent).unwrap(),
        to: "did:wba:example.com:ada".to_owned(),
        sent_at: later(sent),
        answer: None,
    }
}

fn answer(agent: &str, id: &str, from: &str, text: &str) -> Change {
    let (agent, answer) = (AgentName::parse(agent).unwrap(), LetterAnswer { text: text.to_owned(), at: later(7) });
    Change::AnswerLetter { agent, id: id.to_owned(), from: from.to_owned(), answer }
}

async fn sent(store: &dyn Store, agent: &str, id: &str) -> Option<Letter> {
    store.letter(&AgentName::parse(agent).unwrap(), id).await.unwrap()
}

/// A message is an agent's own; its answer is taken once, and only from whom it went to.
pub async fn an_answer_finds_its_message(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [Change::CreateLetter(letter("desk", "m1", 0)), Change::CreateLetter(letter("hotel", "m1", 0))])
        .await;
    assert_eq!(refusal(&*store, [Change::CreateLetter(letter("desk", "m1", 1))]).await, Conflict::Exists);
    assert_eq!(sent(&*store, "desk", "m1").await, Some(letter("desk", "m1", 0)));
    assert_eq!(sent(&*store, "desk", "m2").await, None);
    let ada = "did:wba:example.com:ada";
    assert_eq!(refusal(&*store, [answer("desk", "m2", ada, "x")]).await, Conflict::Missing);
    assert_eq!(refusal(&*store, [answer("desk", "m1", "did:wba:example.com:eve", "x")]).await, Conflict::Missing);
    made(&*store, [answer("desk", "m1", ada, "first")]).await;
    made(&*store, [answer("desk", "m1", ada, "second")]).await;
    let kept = sent(&*store, "desk", "m1").await.unwrap().answer.unwrap();
    assert_eq!((kept.text.as_str(), kept.at), ("first", later(7)));
    assert_eq!(sent(&*store, "hotel", "m1").await.unwrap().answer, None, "another agent's is another message");
}

/// What was sent long ago is forgotten, with its answer.
pub async fn old_messages_are_forgotten(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [Change::CreateLetter(letter("desk", "m1", 9)), Change::CreateLetter(letter("desk", "m2", 10))])
        .await;
    made(&*store, [Change::ForgetLetters(later(10))]).await;
    assert_eq!(sent(&*store, "desk", "m1").await, None);
    assert!(sent(&*store, "desk", "m2").await.is_some());
}

/// Someone belongs to one person at a time, until they do not.
pub async fn a_link_is_replaced_and_cut(place: &dyn Place) {
    let store = place.open().await;
    let link = |did: &str, person: &str| Link {
        principal: Principal::Did(did.to_owned()),
        person: PersonName::parse(person).unwrap(),
        since: later(3),
    };
    let (one, other) = (link("did:wba:b", "ada"), link("did:wba:a", "bob"));
    made(&*store, [Change::LinkPerson(link("did:wba:b", "eve")), Change::LinkPerson(other.clone())]).await;
    made(&*store, [Change::LinkPerson(one.clone())]).await;
    assert_eq!(store.links().await.unwrap(), [other.clone(), one.clone()]);
    made(&*store, [Change::UnlinkPerson(one.principal.clone())]).await;
    assert_eq!(refusal(&*store, [Change::UnlinkPerson(one.principal)]).await, Conflict::Missing);
    assert_eq!(store.links().await.unwrap(), [other]);
}

/// Everything is there after the store was closed and opened again.
pub async fn kept_across_reopening(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [create("s1"), owe("a", 5, 3), Change::CreateLetter(letter("desk", "m1", 0))]).await;
    made(&*store, [answer("desk", "m1", "did:wba:example.com:ada", "done")]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(all(&*store).await, [owed("a", 5, 3)]);
    assert_eq!(sent(&*store, "desk", "m1").await.unwrap().answer.unwrap().text, "done");
}
