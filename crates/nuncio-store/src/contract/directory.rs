//! Contract checks for directory listings.

use nuncio_core::principal::Principal;
use nuncio_engine::directory::DirectoryListing;
use nuncio_engine::ports::store::{AgentDirectoryChange, Change, Conflict};
use url::Url;

use super::sample::later;
use super::{TestDatabase, made, refusal};

fn entry(address: &str) -> DirectoryListing {
    DirectoryListing {
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

/// A listing with a failed check that uses every field.
fn stale(address: &str) -> DirectoryListing {
    DirectoryListing {
        did: "did:wba:a.example:agents:客:e1_x".to_owned(),
        by: Principal::Did("did:wba:a.example".to_owned()),
        verified: later(5),
        next_check: later(1_800_000),
        failures: 3,
        problem: Some("die Beschreibung \"fehlt\"\n没有".to_owned()),
        ..entry(address)
    }
}

fn put(entry: &DirectoryListing, description: &str) -> Change {
    Change::from(AgentDirectoryChange::PutListing { entry: entry.clone(), description: description.to_owned() })
}

pub async fn listing_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.directory().await.unwrap(), []);
    let (new, old) = (entry("https://a.example/ad.json"), stale("http://localhost:7400/agents/b/ad.json?x=1"));
    made(&*store, [put(&new, "{\"客\": 1}"), put(&old, "two")]).await;
    let mut all = vec![(new, "{\"客\": 1}".to_owned()), (old, "two".to_owned())];
    all.sort_by_key(|(entry, _)| entry.id());
    assert_eq!(store.directory().await.unwrap(), all);
}

pub async fn second_listing_of_a_url_replaces_the_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (new, old) = (entry("https://a.example/ad.json"), stale("https://a.example/ad.json"));
    made(&*store, [put(&old, "one")]).await;
    made(&*store, [put(&new, "two")]).await;
    assert_eq!(store.directory().await.unwrap(), [(new, "two".to_owned())]);
}

pub async fn listing_update_keeps_description_and_needs_an_existing_listing(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (new, old) = (entry("https://a.example/ad.json"), stale("https://a.example/ad.json"));
    assert_eq!(
        refusal(&*store, [Change::from(AgentDirectoryChange::UpdateListing(old.clone()))]).await,
        Conflict::Missing
    );
    made(&*store, [put(&new, "one")]).await;
    made(&*store, [Change::from(AgentDirectoryChange::UpdateListing(old.clone()))]).await;
    assert_eq!(store.directory().await.unwrap(), [(old, "one".to_owned())]);
}

pub async fn listing_is_removed_only_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (one, two) = (entry("https://a.example/ad.json"), entry("https://b.example/ad.json"));
    made(&*store, [put(&one, "one"), put(&two, "two")]).await;
    made(&*store, [Change::from(AgentDirectoryChange::RemoveListing(one.id()))]).await;
    assert_eq!(store.directory().await.unwrap(), [(two, "two".to_owned())]);
    assert_eq!(
        refusal(&*store, [Change::from(AgentDirectoryChange::RemoveListing(one.id()))]).await,
        Conflict::Missing
    );
    assert_eq!(refusal(&*store, [Change::from(AgentDirectoryChange::UpdateListing(one))]).await, Conflict::Missing);
}

pub async fn listings_survive_reopening(place: &dyn TestDatabase) {
    let old = stale("https://a.example/ad.json");
    let store = place.open().await;
    made(&*store, [put(&old, "x")]).await;
    drop(store);
    assert_eq!(place.open().await.directory().await.unwrap(), [(old, "x".to_owned())]);
}
