//! Contract checks for direct messages, pending replies and person links.

use nuncio_core::ids::{AgentName, PersonName, SessionId};
use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{AccessChange, Change, Conflict, DirectMessageChange, SessionChange, Store};
use nuncio_engine::ports::store::{DirectMessageReply, PendingReply, PersonLink, SentDirectMessage};

use super::sample::{create, later, owner};
use super::{TestDatabase, made, refusal};

fn pending_reply(name: &str, answers: &str) -> PendingReply {
    PendingReply {
        id: name.to_owned(),
        session: SessionId::parse("s1").unwrap(),
        request: "operation/1".to_owned(),
        owner: owner(),
        agent: AgentName::parse("desk").unwrap(),
        to: "did:wba:example.com:ada".to_owned(),
        answers: answers.to_owned(),
    }
}

fn owe(name: &str, answers: &str) -> Change {
    Change::from(DirectMessageChange::PutPendingReply(pending_reply(name, answers)))
}

async fn stored(store: &dyn Store, name: &str) -> Option<PendingReply> {
    store.pending_reply(name).await.unwrap()
}

pub async fn pending_reply_can_be_replaced_and_removed(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("s1"), owe("b", "m"), owe("a", "m"), owe("a", "msg \"1\"")]).await;
    assert_eq!(stored(&*store, "a").await, Some(pending_reply("a", "msg \"1\"")));
    for _ in 0..2 {
        made(&*store, [Change::from(DirectMessageChange::RemovePendingReply("a".to_owned()))]).await;
        assert_eq!(stored(&*store, "a").await, None);
    }
    assert_eq!(stored(&*store, "b").await, Some(pending_reply("b", "m")));
}

pub async fn pending_reply_is_deleted_with_its_session(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [owe("a", "m")]).await, Conflict::NoSession);
    made(&*store, [create("s1"), owe("a", "m")]).await;
    made(&*store, [Change::from(SessionChange::Delete(SessionId::parse("s1").unwrap()))]).await;
    assert_eq!(stored(&*store, "a").await, None);
}

fn sent_message(agent: &str, id: &str, sent: i64) -> SentDirectMessage {
    SentDirectMessage {
        id: id.to_owned(),
        agent: AgentName::parse(agent).unwrap(),
        to: "did:wba:example.com:ada".to_owned(),
        sent_at: later(sent),
        answer: None,
    }
}

fn answer(agent: &str, id: &str, from: &str, text: &str) -> Change {
    let (agent, answer) =
        (AgentName::parse(agent).unwrap(), DirectMessageReply { text: text.to_owned(), at: later(7) });
    Change::from(DirectMessageChange::Answer { agent, id: id.to_owned(), from: from.to_owned(), answer })
}

async fn sent(store: &dyn Store, agent: &str, id: &str) -> Option<SentDirectMessage> {
    store.direct_message(&AgentName::parse(agent).unwrap(), id).await.unwrap()
}

pub async fn first_reply_of_the_recipient_is_stored_with_its_message(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(
        &*store,
        [
            Change::from(DirectMessageChange::Create(sent_message("desk", "m1", 0))),
            Change::from(DirectMessageChange::Create(sent_message("hotel", "m1", 0))),
        ],
    )
    .await;
    assert_eq!(
        refusal(&*store, [Change::from(DirectMessageChange::Create(sent_message("desk", "m1", 1)))]).await,
        Conflict::Exists
    );
    assert_eq!(sent(&*store, "desk", "m1").await, Some(sent_message("desk", "m1", 0)));
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

pub async fn old_direct_messages_are_deleted(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(
        &*store,
        [
            Change::from(DirectMessageChange::Create(sent_message("desk", "m1", 9))),
            Change::from(DirectMessageChange::Create(sent_message("desk", "m2", 10))),
        ],
    )
    .await;
    made(&*store, [Change::from(DirectMessageChange::Forget(later(10)))]).await;
    assert_eq!(sent(&*store, "desk", "m1").await, None);
    assert!(sent(&*store, "desk", "m2").await.is_some());
}

pub async fn person_link_can_be_replaced_and_removed_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    let link = |did: &str, person: &str| PersonLink {
        principal: Principal::Did(did.to_owned()),
        person: PersonName::parse(person).unwrap(),
        since: later(3),
    };
    let (one, other) = (link("did:wba:b", "ada"), link("did:wba:a", "bob"));
    made(
        &*store,
        [
            Change::from(AccessChange::LinkPerson(link("did:wba:b", "eve"))),
            Change::from(AccessChange::LinkPerson(other.clone())),
        ],
    )
    .await;
    made(&*store, [Change::from(AccessChange::LinkPerson(one.clone()))]).await;
    assert_eq!(store.links().await.unwrap(), [other.clone(), one.clone()]);
    made(&*store, [Change::from(AccessChange::UnlinkPerson(one.principal.clone()))]).await;
    assert_eq!(refusal(&*store, [Change::from(AccessChange::UnlinkPerson(one.principal))]).await, Conflict::Missing);
    assert_eq!(store.links().await.unwrap(), [other]);
}

pub async fn direct_messages_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(
        &*store,
        [create("s1"), owe("a", "m"), Change::from(DirectMessageChange::Create(sent_message("desk", "m1", 0)))],
    )
    .await;
    made(&*store, [answer("desk", "m1", "did:wba:example.com:ada", "done")]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(stored(&*store, "a").await, Some(pending_reply("a", "m")));
    assert_eq!(sent(&*store, "desk", "m1").await.unwrap().answer.unwrap().text, "done");
}
