//! Contract checks for idempotency records.

use nuncio_core::digest::Digest;
use nuncio_engine::ports::store::{Change, Conflict, IdempotencyRecord, SessionChange};

use super::sample::{self, session_id};
use super::{TestDatabase, made, refusal};

pub async fn idempotency_record_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let plain = sample::idempotency_record("s", "k1");
    let of_turn = IdempotencyRecord {
        request: "turns/s".into(),
        turn: Some(7),
        ..sample::idempotency_record("s", "k 2 \u{1f980}")
    };
    made(
        &*store,
        [
            sample::create("s"),
            Change::from(SessionChange::Remember(plain.clone())),
            Change::from(SessionChange::Remember(of_turn.clone())),
        ],
    )
    .await;
    for expected in [plain, of_turn] {
        let found = store.idempotency_record(&expected.owner, &expected.request, &expected.key).await.unwrap();
        assert_eq!(found, Some(expected));
    }
    assert_eq!(store.idempotency_record(&sample::owner(), "sessions", "k3").await.unwrap(), None);
}

/// A second use of a key with the same request is refused with `Exists`, and its whole commit fails.
pub async fn reused_idempotency_key_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s"), Change::from(SessionChange::Remember(sample::idempotency_record("s", "k")))])
        .await;
    let again = IdempotencyRecord { body: Digest::ZERO, ..sample::idempotency_record("t", "k") };
    assert_eq!(
        refusal(&*store, [sample::create("t"), Change::from(SessionChange::Remember(again))]).await,
        Conflict::Exists
    );
    assert_eq!(store.session(&session_id("t")).await.unwrap(), None);
    let found = store.idempotency_record(&sample::owner(), "sessions", "k").await.unwrap();
    assert_eq!(found, Some(sample::idempotency_record("s", "k")));
}

pub async fn same_idempotency_key_is_allowed_for_another_owner_or_request(place: &dyn TestDatabase) {
    let store = place.open().await;
    let mine = sample::idempotency_record("s", "k");
    let theirs = IdempotencyRecord { owner: sample::stranger(), ..mine.clone() };
    let elsewhere = IdempotencyRecord { request: "turns/s".into(), ..mine.clone() };
    let all = [mine, theirs, elsewhere];
    made(&*store, [sample::create("s")]).await;
    made(&*store, all.clone().map(|record| Change::from(SessionChange::Remember(record)))).await;
    for expected in all {
        let found = store.idempotency_record(&expected.owner, &expected.request, &expected.key).await.unwrap();
        assert_eq!(found, Some(expected));
    }
    assert_eq!(store.idempotency_record(&sample::stranger(), "turns/s", "k").await.unwrap(), None);
}

/// A record for an unknown session is refused with `NoSession`.
pub async fn idempotency_record_for_unknown_session_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let change = Change::from(SessionChange::Remember(sample::idempotency_record("s", "k")));
    assert_eq!(refusal(&*store, [change.clone()]).await, Conflict::NoSession);
    assert_eq!(store.idempotency_record(&sample::owner(), "sessions", "k").await.unwrap(), None);
    // The session may be created in the same commit.
    made(&*store, [sample::create("s"), change]).await;
}

pub async fn idempotency_record_is_deleted_with_its_session(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s"), Change::from(SessionChange::Remember(sample::idempotency_record("s", "k")))])
        .await;
    made(&*store, [Change::from(SessionChange::Delete(session_id("s")))]).await;
    assert_eq!(store.idempotency_record(&sample::owner(), "sessions", "k").await.unwrap(), None);
    made(&*store, [sample::create("t"), Change::from(SessionChange::Remember(sample::idempotency_record("t", "k")))])
        .await;
}
