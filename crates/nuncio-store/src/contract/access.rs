//! Contract checks for keys and grants.

use nuncio_core::digest::Digest;
use nuncio_core::grant::{Grant, GrantTerm, KeyScopes};
use nuncio_core::ids::{GrantId, KeyId};
use nuncio_engine::ports::store::{
    AccessChange, ApiKey, CallChange, Change, Conflict, KeyKind, PreviousSecret, StartedCall,
};

use super::sample::{self, later};
use super::{TestDatabase, assert_one_winner, made, race, refusal};

pub async fn api_keys_are_listed_oldest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.keys().await.unwrap(), []);
    let young = sample::key("a", later(2));
    let bare = ApiKey { name: None, person: None, scopes: KeyScopes::All, ..sample::key("b", later(1)) };
    let kind = KeyKind::Signing { sealed: "sealed".to_owned() };
    let old = ApiKey { kind, revoked_at: Some(later(5)), ..rotated(&sample::key("c", later(0)), "next") };
    made(&*store, [&young, &bare, &old].map(|key| Change::from(AccessChange::CreateKey(key.clone())))).await;
    assert_eq!(store.keys().await.unwrap(), [old, bare, young]);
}

/// A second key with the same id is refused with `Exists`.
pub async fn duplicate_key_id_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [Change::from(AccessChange::CreateKey(sample::key("a", later(0))))]).await;
    assert_eq!(
        refusal(&*store, [Change::from(AccessChange::CreateKey(sample::key("a", later(1))))]).await,
        Conflict::Exists
    );
    assert_eq!(store.keys().await.unwrap(), [sample::key("a", later(0))]);
}

/// Revoking an unknown key, or a key twice, is refused with `Missing`; the first revocation time stays.
pub async fn key_is_revoked_only_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    let revoke = |at| [Change::from(AccessChange::RevokeKey { id: KeyId::parse("a").unwrap(), at: later(at) })];
    assert_eq!(refusal(&*store, revoke(1)).await, Conflict::Missing);
    made(&*store, ["a", "b"].map(|id| Change::from(AccessChange::CreateKey(sample::key(id, later(0)))))).await;
    made(&*store, revoke(2)).await;
    assert_eq!(refusal(&*store, revoke(3)).await, Conflict::Missing);
    let revoked = ApiKey { revoked_at: Some(later(2)), ..sample::key("a", later(0)) };
    assert_eq!(store.keys().await.unwrap(), [revoked, sample::key("b", later(0))]);
}

fn rotated(key: &ApiKey, secret: &str) -> ApiKey {
    ApiKey {
        digest: Digest::of_bytes(secret.as_bytes()),
        rotated_at: Some(later(3)),
        expires_at: Some(later(60_003)),
        lifetime_seconds: Some(60),
        previous: Some(PreviousSecret { digest: key.digest, kind: key.kind.clone(), until: later(9) }),
        ..key.clone()
    }
}

pub async fn key_rotation_changes_secret_and_expiry_but_not_name_or_scopes(place: &dyn TestDatabase) {
    let store = place.open().await;
    let signing = |sealed: &str| KeyKind::Signing { sealed: sealed.to_owned() };
    let sent = sample::key("a", later(0));
    let signs = ApiKey { kind: signing("first"), ..sample::key("b", later(0)) };
    made(&*store, [&sent, &signs].map(|key| Change::from(AccessChange::CreateKey(key.clone())))).await;
    let sent_next = rotated(&sent, "a next");
    let signs_next = ApiKey { kind: signing("second"), ..rotated(&signs, "b next") };
    // The store changes secret and expiry of the key; the other fields are ignored.
    let asked = ApiKey { name: None, person: None, scopes: KeyScopes::All, ..sent_next.clone() };
    made(
        &*store,
        [
            Change::from(AccessChange::RotateKey { key: asked, replaced: sent.digest }),
            Change::from(AccessChange::RotateKey { key: signs_next.clone(), replaced: signs.digest }),
        ],
    )
    .await;
    assert_eq!(store.keys().await.unwrap(), [sent_next.clone(), signs_next.clone()]);

    let last = ApiKey { digest: Digest::of_bytes(b"a last"), rotated_at: Some(later(4)), ..sent };
    made(&*store, [Change::from(AccessChange::RotateKey { key: last.clone(), replaced: sent_next.digest })]).await;
    assert_eq!(store.keys().await.unwrap(), [last, signs_next]);
}

/// Rotating a key that is unknown, revoked, or rotated since it was read is refused with `Moved`.
pub async fn rotation_of_missing_revoked_or_already_rotated_key_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let key = sample::key("a", later(0));
    let rotate =
        |secret: &str| [Change::from(AccessChange::RotateKey { key: rotated(&key, secret), replaced: key.digest })];
    assert_eq!(refusal(&*store, rotate("early")).await, Conflict::Moved);
    made(&*store, [Change::from(AccessChange::CreateKey(key.clone()))]).await;
    made(&*store, rotate("first")).await;
    assert_eq!(refusal(&*store, rotate("second")).await, Conflict::Moved);
    assert_eq!(store.keys().await.unwrap(), [rotated(&key, "first")]);
    let first = Digest::of_bytes(b"first");
    made(&*store, [Change::from(AccessChange::RevokeKey { id: key.id.clone(), at: later(5) })]).await;
    let late = Change::from(AccessChange::RotateKey { key: rotated(&key, "late"), replaced: first });
    assert_eq!(refusal(&*store, [late]).await, Conflict::Moved);
}

pub async fn only_one_of_many_concurrent_key_rotations_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    let key = sample::key("a", later(0));
    made(&*store, [Change::from(AccessChange::CreateKey(key.clone()))]).await;
    let rotation =
        |n| Change::from(AccessChange::RotateKey { key: rotated(&key, &format!("secret {n}")), replaced: key.digest });
    assert_one_winner(&race(&store, (0..32).map(|n| vec![rotation(n)])).await, Conflict::Moved);
}

pub async fn grants_are_listed_oldest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.grants().await.unwrap(), []);
    let young = sample::grant("a", later(2));
    let timed = Grant { term: GrantTerm::Until(later(9)), ..sample::grant("b", later(1)) };
    let old = Grant { term: GrantTerm::UntilRevoked, scopes: Vec::new(), ..sample::grant("c", later(0)) };
    made(&*store, [&young, &timed, &old].map(|grant| Change::from(AccessChange::CreateGrant(grant.clone())))).await;
    assert_eq!(store.grants().await.unwrap(), [old, timed, young]);
}

/// A second grant with the same id is refused with `Exists`.
pub async fn duplicate_grant_id_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [Change::from(AccessChange::CreateGrant(sample::grant("a", later(0))))]).await;
    assert_eq!(
        refusal(&*store, [Change::from(AccessChange::CreateGrant(sample::grant("a", later(1))))]).await,
        Conflict::Exists
    );
    assert_eq!(store.grants().await.unwrap(), [sample::grant("a", later(0))]);
}

/// Revoking an unknown grant, or a grant twice, is refused with `Missing`.
pub async fn grant_is_revoked_only_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    let revoke = || [Change::from(AccessChange::RevokeGrant(GrantId::parse("a").unwrap()))];
    assert_eq!(refusal(&*store, revoke()).await, Conflict::Missing);
    made(&*store, ["a", "b"].map(|id| Change::from(AccessChange::CreateGrant(sample::grant(id, later(0)))))).await;
    made(&*store, revoke()).await;
    assert_eq!(refusal(&*store, revoke()).await, Conflict::Missing);
    assert_eq!(store.grants().await.unwrap(), [sample::grant("b", later(0))]);
}

/// Using an unknown, used or revoked grant is refused with `GrantUsed`.
pub async fn one_time_grant_is_used_only_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    let used = |id: &str| [Change::from(AccessChange::UseGrant(GrantId::parse(id).unwrap()))];
    assert_eq!(refusal(&*store, used("a")).await, Conflict::GrantUsed);
    made(&*store, ["a", "b"].map(|id| Change::from(AccessChange::CreateGrant(sample::grant(id, later(0)))))).await;
    made(&*store, used("a")).await;
    assert_eq!(refusal(&*store, used("a")).await, Conflict::GrantUsed);
    assert_eq!(store.grants().await.unwrap(), [sample::grant("b", later(0))]);
    made(&*store, [Change::from(AccessChange::RevokeGrant(GrantId::parse("b").unwrap()))]).await;
    assert_eq!(refusal(&*store, used("b")).await, Conflict::GrantUsed);
}

pub async fn only_one_of_many_concurrent_grant_uses_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [Change::from(AccessChange::CreateGrant(sample::grant("a", later(0))))]).await;
    let units = (0..32).map(|n| {
        let (key, record) = (format!("call {n}"), sample::record("c"));
        vec![
            Change::from(CallChange::Start(Box::new(StartedCall { key, node: sample::here(), record, target: None }))),
            Change::from(AccessChange::UseGrant(GrantId::parse("a").unwrap())),
        ]
    });
    assert_one_winner(&race(&store, units).await, Conflict::GrantUsed);
    assert_eq!(store.started_calls(&sample::here()).await.unwrap().len(), 1, "only the winner's call begins");
}
