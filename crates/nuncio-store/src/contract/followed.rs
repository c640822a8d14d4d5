//! Domains that are followed.

use nuncio_engine::follow::{Domain, Followed, FollowedBy};
use nuncio_engine::ports::store::{Change, Conflict};

use super::sample::later;
use super::{Place, made, refusal};

fn domain(text: &str) -> Domain {
    Domain::parse(text).unwrap()
}

fn followed(text: &str) -> Followed {
    Followed::new(domain(text), FollowedBy::Operator, later(0))
}

/// A domain that has been visited; every field is used.
fn visited(text: &str) -> Followed {
    Followed {
        by: FollowedBy::Settings,
        last_seen: Some(later(5)),
        next_visit: later(900_000),
        failures: 3,
        listed: 7,
        problem: Some("der Index \"fehlt\"\n没有".to_owned()),
        ..followed(text)
    }
}

fn update(followed: &Followed, offers: Option<&str>) -> Change {
    Change::UpdateFollowed { followed: followed.clone(), offers: offers.map(str::to_owned) }
}

/// Every field comes back, and the offers with it; another domain is not there.
pub async fn read_back_whole(place: &dyn Place) {
    let store = place.open().await;
    let (new, old) = (followed("localhost:7400"), visited("example.com"));
    made(&*store, [Change::Follow(new.clone()), Change::Follow(old.clone())]).await;
    assert_eq!(store.followed_domain(&new.domain).await.unwrap(), Some((new, None)));
    made(&*store, [update(&old, Some("{\"客\": 1}"))]).await;
    assert_eq!(store.followed_domain(&old.domain).await.unwrap(), Some((old, Some("{\"客\": 1}".to_owned()))));
    assert_eq!(store.followed_domain(&domain("http://example.com")).await.unwrap(), None);
}

/// They are listed by name.
pub async fn listed_by_name(place: &dyn Place) {
    let store = place.open().await;
    assert_eq!(store.followed().await.unwrap(), []);
    for name in ["c.example", "a.example", "b.example"] {
        made(&*store, [Change::Follow(followed(name))]).await;
    }
    let listed = store.followed().await.unwrap();
    assert_eq!(listed, ["a.example", "b.example", "c.example"].map(followed));
}

/// Following twice is `Exists`, and changes nothing.
pub async fn a_domain_is_followed_once(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [Change::Follow(followed("example.com"))]).await;
    assert_eq!(refusal(&*store, [Change::Follow(visited("example.com"))]).await, Conflict::Exists);
    assert_eq!(store.followed().await.unwrap(), [followed("example.com")]);
}

/// Offers stay as they are unless new ones are given.
pub async fn offers_stay_until_replaced(place: &dyn Place) {
    let store = place.open().await;
    let (new, old) = (followed("example.com"), visited("example.com"));
    let offers = async || store.followed_domain(&new.domain).await.unwrap().unwrap().1;
    made(&*store, [Change::Follow(new.clone()), update(&new, Some("one"))]).await;
    made(&*store, [update(&old, None)]).await;
    assert_eq!(store.followed().await.unwrap(), [old]);
    assert_eq!(offers().await.as_deref(), Some("one"));
    made(&*store, [update(&new, Some("two"))]).await;
    assert_eq!(offers().await.as_deref(), Some("two"));
}

/// What is not followed cannot be updated or unfollowed, and a visit that ends late brings nothing back.
pub async fn an_unknown_one_stays_unknown(place: &dyn Place) {
    let store = place.open().await;
    let gone = followed("example.com");
    assert_eq!(refusal(&*store, [Change::Unfollow(gone.domain.clone())]).await, Conflict::Missing);
    made(&*store, [Change::Follow(gone.clone()), update(&gone, Some("x"))]).await;
    made(&*store, [Change::Unfollow(gone.domain.clone())]).await;
    assert_eq!(refusal(&*store, [update(&gone, Some("late"))]).await, Conflict::Missing);
    assert_eq!(store.followed().await.unwrap(), []);
    // Followed again, it begins with nothing.
    made(&*store, [Change::Follow(gone.clone())]).await;
    assert_eq!(store.followed_domain(&gone.domain).await.unwrap(), Some((gone, None)));
}

/// All of it is there when the store is opened again.
pub async fn kept_across_reopening(place: &dyn Place) {
    let old = visited("example.com");
    let store = place.open().await;
    made(&*store, [Change::Follow(old.clone()), update(&old, Some("x"))]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(store.followed_domain(&old.domain).await.unwrap(), Some((old, Some("x".to_owned()))));
}
