//! Agents of other hosts that are listed.

use nuncio_core::principal::Principal;
use nuncio_engine::directory::Entry;
use nuncio_engine::ports::store::{Change, Conflict};
use url::Url;

use super::sample::later;
use super::{Place, made, refusal};

fn entry(address: &str) -> Entry {
    Entry {
        url: Url::parse(address).unwrap(),
        did: "did:wba:a.example".to_owned(),
        by: Principal::Operator,
        since: later(0),
        verified: later(0),
        next_check: later(900_000),
        failures: 0,
        problem: None,
    }
}

/// An entry that was looked at again in vain; every field is used.
fn stale(address: &str) -> Entry {
    Entry {
        did: "did:wba:a.example:agents:客:e1_x".to_owned(),
        by: Principal::Did("did:wba:a.example".to_owned()),
        verified: later(5),
        next_check: later(1_800_000),
        failures: 3,
        problem: Some("die Beschreibung \"fehlt\"\n没有".to_owned()),
        ..entry(address)
    }
}

fn put(entry: &Entry, description: &str) -> Change {
    Change::PutEntry { entry: entry.clone(), description: description.to_owned() }
}

/// Every field comes back, and what is kept of the description with it.
pub async fn read_back_whole(place: &dyn Place) {
    let store = place.open().await;
    assert_eq!(store.directory().await.unwrap(), []);
    let (new, old) = (entry("https://a.example/ad.json"), stale("http://localhost:7400/agents/b/ad.json?x=1"));
    made(&*store, [put(&new, "{\"客\": 1}"), put(&old, "two")]).await;
    let mut all = vec![(new, "{\"客\": 1}".to_owned()), (old, "two".to_owned())];
    all.sort_by_key(|(entry, _)| entry.id());
    assert_eq!(store.directory().await.unwrap(), all);
}

/// The same address again is the same entry, as it is now.
pub async fn an_address_is_listed_once(place: &dyn Place) {
    let store = place.open().await;
    let (new, old) = (entry("https://a.example/ad.json"), stale("https://a.example/ad.json"));
    made(&*store, [put(&old, "one")]).await;
    made(&*store, [put(&new, "two")]).await;
    assert_eq!(store.directory().await.unwrap(), [(new, "two".to_owned())]);
}

/// A look changes the entry and leaves what is kept of its description; of an unknown one nothing is kept.
pub async fn a_look_is_kept_of_what_is_listed(place: &dyn Place) {
    let store = place.open().await;
    let (new, old) = (entry("https://a.example/ad.json"), stale("https://a.example/ad.json"));
    assert_eq!(refusal(&*store, [Change::UpdateEntry(old.clone())]).await, Conflict::Missing);
    made(&*store, [put(&new, "one")]).await;
    made(&*store, [Change::UpdateEntry(old.clone())]).await;
    assert_eq!(store.directory().await.unwrap(), [(old, "one".to_owned())]);
}

/// What is removed is gone, once.
pub async fn removed_once(place: &dyn Place) {
    let store = place.open().await;
    let (one, two) = (entry("https://a.example/ad.json"), entry("https://b.example/ad.json"));
    made(&*store, [put(&one, "one"), put(&two, "two")]).await;
    made(&*store, [Change::RemoveEntry(one.id())]).await;
    assert_eq!(store.directory().await.unwrap(), [(two, "two".to_owned())]);
    assert_eq!(refusal(&*store, [Change::RemoveEntry(one.id())]).await, Conflict::Missing);
    assert_eq!(refusal(&*store, [Change::UpdateEntry(one)]).await, Conflict::Missing);
}

/// All of it is there when the store is opened again.
pub async fn kept_across_reopening(place: &dyn Place) {
    let old = stale("https://a.example/ad.json");
    let store = place.open().await;
    made(&*store, [put(&old, "x")]).await;
    drop(store);
    assert_eq!(place.open().await.directory().await.unwrap(), [(old, "x".to_owned())]);
}
