//! Contract checks for the storage quota.

use nuncio_core::conversation::SubmittedMessage;
use nuncio_core::message::Message;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;
use nuncio_engine::ports::store::{Change, ExecutionChange, RelayChange, SessionChange, Store};

use super::consent_sample::{self, account, create_account, publish, put_person, recipient};
use super::executions::{self, RETENTION_MS};
use super::relay_sample::{begin, group, post, send};
use super::sample::{self, later, owner, session_id, stranger};
use super::{TestDatabase, made};

async fn stored(store: &dyn Store, owner: &Principal) -> u64 {
    store.bytes_stored(owner).await.unwrap()
}

fn append_message(session: &str, number: u64, bytes: usize) -> Change {
    let message = Message::user("x".repeat(bytes));
    Change::from(SessionChange::AppendMessage { session: session_id(session), turn: 1, number, message })
}

pub async fn session_bytes_count_for_their_owner_until_deletion(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(stored(&*store, &owner()).await, 0);
    made(&*store, [sample::create("s"), sample::create("t")]).await;
    let empty = stored(&*store, &owner()).await;
    assert!(empty > 0);
    made(&*store, [sample::begin("s", 1), append_message("s", 0, 10_000)]).await;
    let said = stored(&*store, &owner()).await;
    assert!((10_000..11_000).contains(&(said - empty)), "{said} {empty}");
    made(&*store, [sample::end("s", 1)]).await;
    assert!(stored(&*store, &owner()).await > said);
    assert_eq!(stored(&*store, &stranger()).await, 0);

    drop(store);
    let store = place.open().await;
    assert!(stored(&*store, &owner()).await > said, "it is known after a restart");
    made(&*store, [Change::from(SessionChange::Delete(session_id("s")))]).await;
    assert_eq!(stored(&*store, &owner()).await, empty / 2);
    made(&*store, [Change::from(SessionChange::Delete(session_id("t")))]).await;
    assert_eq!(stored(&*store, &owner()).await, 0);
}

pub async fn execution_bytes_count_for_their_caller_until_deletion(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [executions::create("a")]).await;
    let accepted = stored(&*store, &owner()).await;
    assert!(accepted > 0);
    made(&*store, [executions::end("a", "here", 0)]).await;
    assert!(stored(&*store, &owner()).await > accepted);
    made(&*store, [Change::from(ExecutionChange::Forget { at: later(9 + RETENTION_MS), limit: 10 })]).await;
    assert_eq!(stored(&*store, &owner()).await, 0);
}

pub async fn bytes_stored_by_the_local_caller_are_not_counted(place: &dyn TestDatabase) {
    let store = place.open().await;
    let session = Session { owner: Principal::Local, ..sample::session("s") };
    made(&*store, [Change::from(SessionChange::Create { session, messages: vec![Message::user("hello")] })]).await;
    made(&*store, [sample::begin("s", 1), sample::end("s", 1)]).await;
    assert_eq!(stored(&*store, &Principal::Local).await, 0);
    made(&*store, [Change::from(SessionChange::Delete(session_id("s")))]).await;
}

pub async fn failed_commit_adds_no_stored_bytes(place: &dyn TestDatabase) {
    let store = place.open().await;
    let twice = vec![sample::create("s"), sample::create("s")];
    store.commit(twice).await.unwrap_err();
    assert_eq!(stored(&*store, &owner()).await, 0);
}

pub async fn bytes_of_messages_and_manifests_count_for_their_authors(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob) = (recipient("ada"), recipient("bob"));
    let person = |name: &str| Principal::Person(consent_sample::name(name));
    made(&*store, [put_person("ada"), put_person("bob"), begin(&group("con_1", [ada.clone(), bob.clone()]))]).await;
    let long = SubmittedMessage { envelope: vec![7; 10_000].into(), ..post(&bob, "m1") };
    made(&*store, [send("con_1", &long, &[ada], 1)]).await;
    let sent = stored(&*store, &person("bob")).await;
    assert!((10_000..11_000).contains(&sent), "{sent}");
    assert_eq!(stored(&*store, &person("ada")).await, 0);
    made(&*store, [RelayChange::ForgetMessages { before: later(2), limit: 10 }.into()]).await;
    assert_eq!(stored(&*store, &person("bob")).await, 0);
    let agent = account("agt_1");
    let manifest = "x".repeat(10_000);
    made(&*store, [create_account(&agent, ""), publish(&agent, Some(&manifest))]).await;
    let published = stored(&*store, &person("ada")).await;
    assert!((10_000..11_000).contains(&published), "{published}");
}
