//! Contract checks for followed domains.

use nuncio_engine::follow::{FollowSource, FollowedDomain, ServerOrigin};
use nuncio_engine::ports::store::{AgentDirectoryChange, Change, Conflict};

use super::sample::later;
use super::{TestDatabase, made, refusal};

fn domain(text: &str) -> ServerOrigin {
    ServerOrigin::parse(text).unwrap()
}

fn followed(text: &str) -> FollowedDomain {
    FollowedDomain::new(domain(text), FollowSource::Operator, later(0))
}

/// A visited domain that uses every field.
fn visited(text: &str) -> FollowedDomain {
    FollowedDomain {
        by: FollowSource::Settings,
        last_seen: Some(later(5)),
        next_visit: later(900_000),
        failures: 3,
        listed: 7,
        problem: Some("der Index \"fehlt\"\n没有".to_owned()),
        ..followed(text)
    }
}

fn update(followed: &FollowedDomain, offers: Option<&str>) -> Change {
    Change::from(AgentDirectoryChange::UpdateFollowed { followed: followed.clone(), offers: offers.map(str::to_owned) })
}

pub async fn followed_domain_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (new, old) = (followed("localhost:7400"), visited("example.com"));
    made(
        &*store,
        [
            Change::from(AgentDirectoryChange::Follow(new.clone())),
            Change::from(AgentDirectoryChange::Follow(old.clone())),
        ],
    )
    .await;
    assert_eq!(store.followed_domain(&new.domain).await.unwrap(), Some((new, None)));
    made(&*store, [update(&old, Some("{\"客\": 1}"))]).await;
    assert_eq!(store.followed_domain(&old.domain).await.unwrap(), Some((old, Some("{\"客\": 1}".to_owned()))));
    assert_eq!(store.followed_domain(&domain("http://example.com")).await.unwrap(), None);
}

pub async fn followed_domains_are_listed_by_name(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.followed().await.unwrap(), []);
    for name in ["c.example", "a.example", "b.example"] {
        made(&*store, [Change::from(AgentDirectoryChange::Follow(followed(name)))]).await;
    }
    let listed = store.followed().await.unwrap();
    assert_eq!(listed, ["a.example", "b.example", "c.example"].map(followed));
}

/// Following a domain twice is refused with `Exists`, and changes nothing.
pub async fn following_a_domain_twice_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [Change::from(AgentDirectoryChange::Follow(followed("example.com")))]).await;
    assert_eq!(
        refusal(&*store, [Change::from(AgentDirectoryChange::Follow(visited("example.com")))]).await,
        Conflict::Exists
    );
    assert_eq!(store.followed().await.unwrap(), [followed("example.com")]);
}

pub async fn offers_of_a_followed_domain_are_kept_until_replaced(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (new, old) = (followed("example.com"), visited("example.com"));
    let offers = async || store.followed_domain(&new.domain).await.unwrap().unwrap().1;
    made(&*store, [Change::from(AgentDirectoryChange::Follow(new.clone())), update(&new, Some("one"))]).await;
    made(&*store, [update(&old, None)]).await;
    assert_eq!(store.followed().await.unwrap(), [old]);
    assert_eq!(offers().await.as_deref(), Some("one"));
    made(&*store, [update(&new, Some("two"))]).await;
    assert_eq!(offers().await.as_deref(), Some("two"));
}

pub async fn updating_or_unfollowing_a_domain_not_followed_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let gone = followed("example.com");
    assert_eq!(
        refusal(&*store, [Change::from(AgentDirectoryChange::Unfollow(gone.domain.clone()))]).await,
        Conflict::Missing
    );
    made(&*store, [Change::from(AgentDirectoryChange::Follow(gone.clone())), update(&gone, Some("x"))]).await;
    made(&*store, [Change::from(AgentDirectoryChange::Unfollow(gone.domain.clone()))]).await;
    assert_eq!(refusal(&*store, [update(&gone, Some("late"))]).await, Conflict::Missing);
    assert_eq!(store.followed().await.unwrap(), []);
    // A domain that is followed again starts without offers.
    made(&*store, [Change::from(AgentDirectoryChange::Follow(gone.clone()))]).await;
    assert_eq!(store.followed_domain(&gone.domain).await.unwrap(), Some((gone, None)));
}

pub async fn followed_domains_survive_reopening(place: &dyn TestDatabase) {
    let old = visited("example.com");
    let store = place.open().await;
    made(&*store, [Change::from(AgentDirectoryChange::Follow(old.clone())), update(&old, Some("x"))]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(store.followed_domain(&old.domain).await.unwrap(), Some((old, Some("x".to_owned()))));
}
