//! Contract checks for people, invites, devices and nonces.

use nuncio_core::digest::Digest;
use nuncio_core::person::{Device, Invite};
use nuncio_engine::ports::store::{Change, Conflict, ConsentChange};

use super::consent_sample::{device, invite, name, person, put_person};
use super::sample::later;
use super::{TestDatabase, assert_one_winner, made, race, refusal};

fn create_invite(invite: &Invite) -> Change {
    ConsentChange::CreateInvite(invite.clone()).into()
}

fn enrol(invite: &Invite, device: &Device) -> Change {
    let invite = Invite { used_by: Some(device.id.clone()), ..invite.clone() };
    ConsentChange::Enrol { invite, device: device.clone() }.into()
}

fn revoke(device: &Device, at: i64) -> Change {
    ConsentChange::RevokeDevice { id: device.id.clone(), at: later(at) }.into()
}

fn use_nonce(nonce: &str, now: i64, kept_until: i64) -> Change {
    let digest = Digest::of_bytes(nonce.as_bytes());
    ConsentChange::UseNonce { digest, now: later(now), kept_until: later(kept_until) }.into()
}

pub async fn people_are_stored_once_and_listed_by_name(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.person(&name("ada")).await.unwrap(), None);
    made(&*store, ["eve", "ada"].map(put_person)).await;
    let again = nuncio_core::person::Person { created_at: later(9), ..person("ada") };
    made(&*store, [ConsentChange::PutPerson(again).into()]).await;
    assert_eq!(store.people().await.unwrap(), [person("ada"), person("eve")]);
    assert_eq!(store.person(&name("ada")).await.unwrap(), Some(person("ada")));
}

pub async fn invite_for_unknown_person_or_with_duplicate_code_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [create_invite(&invite("x", "ada"))]).await, Conflict::Missing);
    made(&*store, [put_person("ada"), create_invite(&invite("x", "ada")), create_invite(&invite("y", "ada"))]).await;
    assert_eq!(refusal(&*store, [create_invite(&invite("x", "ada"))]).await, Conflict::Exists);
    assert_eq!(store.invite(&invite("x", "ada").code).await.unwrap(), Some(invite("x", "ada")));
    assert_eq!(store.invite(&Digest::ZERO).await.unwrap(), None);
    assert_eq!(store.invites(&name("ada")).await.unwrap().len(), 2);
    assert_eq!(store.invites(&name("eve")).await.unwrap(), []);
}

pub async fn invite_enrols_only_one_device(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (one, two) = (invite("x", "ada"), invite("y", "ada"));
    made(&*store, [put_person("ada"), create_invite(&one), create_invite(&two)]).await;
    let laptop = device("dev_1", "ada");
    made(&*store, [enrol(&one, &laptop)]).await;
    assert_eq!(store.device(&laptop.id).await.unwrap(), Some(laptop.clone()));
    let used = store.invite(&one.code).await.unwrap().unwrap();
    assert_eq!(used.used_by, Some(laptop.id.clone()));
    assert_eq!(refusal(&*store, [enrol(&one, &device("dev_2", "ada"))]).await, Conflict::Moved);
    assert_eq!(refusal(&*store, [enrol(&invite("z", "ada"), &device("dev_2", "ada"))]).await, Conflict::Moved);
    let same_key = Device { key: laptop.key, ..device("dev_2", "ada") };
    assert_eq!(refusal(&*store, [enrol(&two, &same_key)]).await, Conflict::Exists);
    assert_eq!(refusal(&*store, [enrol(&two, &laptop)]).await, Conflict::Exists);
    assert_eq!(store.invite(&two.code).await.unwrap(), Some(two.clone()), "a refused device uses nothing up");
    made(&*store, [enrol(&two, &device("dev_2", "ada"))]).await;
    assert_eq!(store.devices(&name("ada")).await.unwrap(), [laptop, device("dev_2", "ada")]);
}

pub async fn only_one_of_many_concurrent_enrolments_with_one_invite_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    let one = invite("x", "ada");
    made(&*store, [put_person("ada"), create_invite(&one)]).await;
    let units = (0..16).map(|n| vec![enrol(&one, &device(&format!("dev_{n}"), "ada"))]);
    assert_one_winner(&race(&store, units).await, Conflict::Moved);
    assert_eq!(store.devices(&name("ada")).await.unwrap().len(), 1);
}

pub async fn device_is_revoked_only_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (one, laptop) = (invite("x", "ada"), device("dev_1", "ada"));
    assert_eq!(refusal(&*store, [revoke(&laptop, 5)]).await, Conflict::Missing);
    made(&*store, [put_person("ada"), create_invite(&one), enrol(&one, &laptop), revoke(&laptop, 6)]).await;
    assert_eq!(refusal(&*store, [revoke(&laptop, 7)]).await, Conflict::Missing);
    let gone = Device { revoked_at: Some(later(6)), ..laptop };
    assert_eq!(store.devices(&name("ada")).await.unwrap(), [gone]);
}

pub async fn nonce_is_accepted_only_once_until_its_retention_ends(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [use_nonce("n", 0, 10)]).await;
    assert_eq!(refusal(&*store, [use_nonce("n", 9, 19)]).await, Conflict::Exists);
    made(&*store, [use_nonce("m", 9, 19)]).await;
    made(&*store, [use_nonce("n", 10, 20)]).await;
    assert_eq!(refusal(&*store, [use_nonce("m", 18, 28)]).await, Conflict::Exists);
    drop(store);
    let store = place.open().await;
    assert_eq!(refusal(&*store, [use_nonce("n", 11, 21)]).await, Conflict::Exists);
}
