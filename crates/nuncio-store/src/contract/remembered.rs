//! Requests with idempotency keys.

use nuncio_core::digest::Digest;
use nuncio_engine::ports::store::{Change, Conflict, Remembered};

use super::sample::{self, session_id};
use super::{Place, made, refusal};

/// Every field comes back, with a turn and without.
pub async fn read_back_as_sent(place: &dyn Place) {
    let store = place.open().await;
    let plain = sample::remembered("s", "k1");
    let of_turn = Remembered { request: "turns/s".into(), turn: Some(7), ..sample::remembered("s", "k 2 \u{1f980}") };
    made(&*store, [sample::create("s"), Change::Remember(plain.clone()), Change::Remember(of_turn.clone())]).await;
    for expected in [plain, of_turn] {
        let found = store.remembered(&expected.owner, &expected.request, &expected.key).await.unwrap();
        assert_eq!(found, Some(expected));
    }
    assert_eq!(store.remembered(&sample::owner(), "sessions", "k3").await.unwrap(), None);
}

/// A second use of a key with the same request is `Exists`, and takes its whole unit with it.
pub async fn a_key_is_used_once(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [sample::create("s"), Change::Remember(sample::remembered("s", "k"))]).await;
    let again = Remembered { body: Digest::ZERO, ..sample::remembered("t", "k") };
    assert_eq!(refusal(&*store, [sample::create("t"), Change::Remember(again)]).await, Conflict::Exists);
    assert_eq!(store.session(&session_id("t")).await.unwrap(), None);
    let found = store.remembered(&sample::owner(), "sessions", "k").await.unwrap();
    assert_eq!(found, Some(sample::remembered("s", "k")));
}

/// The same key of another owner, or with another request, is another key.
pub async fn keys_of_others_and_other_requests_differ(place: &dyn Place) {
    let store = place.open().await;
    let mine = sample::remembered("s", "k");
    let theirs = Remembered { owner: sample::stranger(), ..mine.clone() };
    let elsewhere = Remembered { request: "turns/s".into(), ..mine.clone() };
    let all = [mine, theirs, elsewhere];
    made(&*store, [sample::create("s")]).await;
    made(&*store, all.clone().map(Change::Remember)).await;
    for expected in all {
        let found = store.remembered(&expected.owner, &expected.request, &expected.key).await.unwrap();
        assert_eq!(found, Some(expected));
    }
    assert_eq!(store.remembered(&sample::stranger(), "turns/s", "k").await.unwrap(), None);
}

/// What belongs to a session that is not there is `NoSession`.
pub async fn needs_a_session(place: &dyn Place) {
    let store = place.open().await;
    let change = Change::Remember(sample::remembered("s", "k"));
    assert_eq!(refusal(&*store, [change.clone()]).await, Conflict::NoSession);
    assert_eq!(store.remembered(&sample::owner(), "sessions", "k").await.unwrap(), None);
    // The session may come in the same unit.
    made(&*store, [sample::create("s"), change]).await;
}

/// After its session is deleted a key may be used again.
pub async fn forgotten_with_its_session(place: &dyn Place) {
    let store = place.open().await;
    made(&*store, [sample::create("s"), Change::Remember(sample::remembered("s", "k"))]).await;
    made(&*store, [Change::DeleteSession(session_id("s"))]).await;
    assert_eq!(store.remembered(&sample::owner(), "sessions", "k").await.unwrap(), None);
    made(&*store, [sample::create("t"), Change::Remember(sample::remembered("t", "k"))]).await;
}
