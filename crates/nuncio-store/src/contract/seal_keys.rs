//! Contract checks for key bundles and backups.

use nuncio_core::bundle::{DeviceEndorsement, KeyBundle, KeyBundleId, OneTimeKey, X25519PublicKey};
use nuncio_core::notification::RelayParty;
use nuncio_core::signature::Signature;
use nuncio_engine::ports::store::{Change, Conflict, RelayChange, Store};

use super::consent_sample::{name, recipient};
use super::relay_sample::{agent, bundle, device_id, one_time_key, put_bundle};
use super::sample::later;
use super::{TestDatabase, assert_one_winner, made, race, refusal};

/// Limit of one-time keys in most checks.
const MOST: usize = 10;

fn id(device: &str) -> KeyBundleId {
    KeyBundleId { owner: recipient("ada"), device: device_id(device) }
}

fn put_keys(device: &str, keys: impl Into<Vec<OneTimeKey>>, most: usize) -> Change {
    RelayChange::PutOneTimeKeys { id: id(device), keys: keys.into(), most }.into()
}

fn put_ids<const N: usize>(device: &str, ids: [&str; N]) -> Change {
    put_keys(device, ids.map(|id| one_time_key(id, false)), MOST)
}

fn take(device: &str, key_id: &str) -> Change {
    RelayChange::TakeOneTimeKey { id: id(device), key_id: key_id.to_owned() }.into()
}

fn remove(device: &str) -> Change {
    RelayChange::RemoveBundle(id(device)).into()
}

fn endorse(device: &str, endorsement: &DeviceEndorsement) -> Change {
    RelayChange::EndorseBundle { id: id(device), endorsement: endorsement.clone() }.into()
}

async fn one(store: &dyn Store, device: &str) -> Option<KeyBundle> {
    store.bundle(&id(device)).await.unwrap()
}

async fn devices(store: &dyn Store, owner: &RelayParty) -> Vec<String> {
    store.bundles(owner).await.unwrap().into_iter().map(|bundle| bundle.keys.device_id.to_string()).collect()
}

/// Id of the next one-time key of a device, and the number of keys left.
async fn next(store: &dyn Store, device: &str) -> (Option<String>, usize) {
    next_of(store, &id(device)).await
}

async fn next_of(store: &dyn Store, id: &KeyBundleId) -> (Option<String>, usize) {
    let key = store.one_time_key(id).await.unwrap();
    (key.map(|key| key.key_id), store.one_time_keys_left(id).await.unwrap())
}

fn is(key: &str, left: usize) -> (Option<String>, usize) {
    (Some(key.to_owned()), left)
}

const NONE: (Option<String>, usize) = (None, 0);

pub async fn key_bundle_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    let endorsement = Some(DeviceEndorsement { by: device_id("dev_a"), signature: Signature::new([5; 64]) });
    let first = KeyBundle { endorsement, ..bundle("dev_b", &ada, 7) };
    let second = KeyBundle { did: None, ..bundle("dev_a", &ada, 1) };
    let theirs = bundle("dev_c", &recipient("bob"), 1);
    made(&*store, [&first, &second, &theirs].map(put_bundle)).await;
    assert_eq!(one(&*store, "dev_b").await, Some(first.clone()));
    assert_eq!(one(&*store, "dev_d").await, None);
    assert_eq!(store.bundles(&ada).await.unwrap(), [second, first]);
    assert_eq!(store.bundles(&agent("ada")).await.unwrap(), [], "an agent of the person's name");
}

pub async fn key_bundle_with_lower_or_equal_sequence_number_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    let younger = KeyBundle { did: None, ..bundle("dev_1", &ada, 5) };
    made(&*store, [put_bundle(&bundle("dev_1", &ada, 3)), put_ids("dev_1", ["k1"]), put_bundle(&younger)]).await;
    for seq in [0, 3, 5] {
        let mut older = bundle("dev_1", &ada, seq);
        older.keys.olm_key = None;
        assert_eq!(refusal(&*store, [put_bundle(&older)]).await, Conflict::Moved, "{seq}");
    }
    assert_eq!(one(&*store, "dev_1").await, Some(younger));
    assert_eq!(next(&*store, "dev_1").await, is("k1", 1), "an older bundle ends no one-time keys");
    let outcomes = race(&store, (0..8).map(|_| vec![put_bundle(&bundle("dev_1", &ada, 6))])).await;
    assert_one_winner(&outcomes, Conflict::Moved);
}

pub async fn owners_may_use_the_same_device_id_for_their_bundles(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob, hotel) = (recipient("ada"), recipient("bob"), agent("agt_1"));
    let of = |owner: &RelayParty| KeyBundleId { owner: owner.clone(), device: device_id("dev_1") };
    let mut expected = Vec::new();
    for (owner, seq) in [(&hotel, 9), (&bob, 1), (&ada, 3)] {
        let bundle = bundle("dev_1", owner, seq);
        let keys = vec![one_time_key(&format!("k{seq}"), false)];
        made(&*store, [put_bundle(&bundle)]).await;
        made(&*store, [RelayChange::PutOneTimeKeys { id: of(owner), keys, most: MOST }.into()]).await;
        expected.push((of(owner), bundle, is(&format!("k{seq}"), 1)));
    }
    for (id, bundle, keys) in &expected {
        assert_eq!(store.bundle(id).await.unwrap().as_ref(), Some(bundle));
        assert_eq!(next_of(&*store, id).await, *keys);
    }
    assert_eq!(store.bundle_owners(&device_id("dev_1"), 9).await.unwrap(), [hotel.clone(), ada, bob.clone()]);
    assert_eq!(store.bundle_owners(&device_id("dev_1"), 2).await.unwrap().len(), 2);
    assert_eq!(store.bundle_owners(&device_id("dev_2"), 2).await.unwrap(), []);
    made(&*store, [remove("dev_1")]).await;
    assert_eq!((one(&*store, "dev_1").await, next(&*store, "dev_1").await), (None, NONE));
    for (id, bundle, keys) in &expected[..2] {
        assert_eq!(store.bundle(id).await.unwrap().as_ref(), Some(bundle), "after another owner's was removed");
        assert_eq!(next_of(&*store, id).await, *keys);
    }
}

pub async fn new_agent_bundle_replaces_the_bundle_of_its_previous_device(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel, other) = (recipient("ada"), agent("agt_1"), agent("agt_2"));
    let first = KeyBundleId { owner: hotel.clone(), device: device_id("dev_1") };
    let keys = vec![one_time_key("k1", false)];
    let put = RelayChange::PutOneTimeKeys { id: first.clone(), keys, most: MOST };
    made(&*store, [put_bundle(&bundle("dev_1", &hotel, 5)), put.into()]).await;
    let others = [("dev_0", &agent("agt_0")), ("dev_2", &other), ("dev_3", &ada), ("dev_4", &hotel), ("dev_5", &ada)];
    made(&*store, others.map(|(device, owner)| put_bundle(&bundle(device, owner, 1)))).await;
    assert_eq!(devices(&*store, &hotel).await, ["dev_4"]);
    assert_eq!(store.bundle(&first).await.unwrap(), None);
    assert_eq!(next_of(&*store, &first).await, NONE);
    assert_eq!(devices(&*store, &agent("agt_0")).await, ["dev_0"]);
    assert_eq!(devices(&*store, &other).await, ["dev_2"]);
    assert_eq!(devices(&*store, &ada).await, ["dev_3", "dev_5"]);
}

pub async fn one_time_keys_are_handed_out_oldest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    made(&*store, ["dev_1", "dev_2"].map(|device| put_bundle(&bundle(device, &ada, 1)))).await;
    assert_eq!(next(&*store, "dev_1").await, NONE);
    let keys = [one_time_key("f", true), one_time_key("b", false)];
    made(&*store, [put_keys("dev_1", keys, MOST), put_ids("dev_1", ["a", "c"]), put_ids("dev_2", ["b"])]).await;
    assert_eq!(store.one_time_key(&id("dev_1")).await.unwrap(), Some(one_time_key("b", false)));
    for (key, then) in [("b", is("a", 2)), ("c", is("a", 1)), ("a", is("f", 0))] {
        made(&*store, [take("dev_1", key)]).await;
        assert_eq!(next(&*store, "dev_1").await, then);
        assert_eq!(refusal(&*store, [take("dev_1", key)]).await, Conflict::Missing, "{key} again");
    }
    made(&*store, [take("dev_1", "f")]).await;
    assert_eq!(store.one_time_key(&id("dev_1")).await.unwrap(), Some(one_time_key("f", true)));
    assert_eq!(refusal(&*store, [take("dev_1", "z")]).await, Conflict::Missing);
    assert_eq!(refusal(&*store, [take("dev_9", "b")]).await, Conflict::Missing);
    assert_eq!(next(&*store, "dev_2").await, is("b", 1), "keys of another device");
}

pub async fn only_one_of_many_concurrent_takers_of_a_key_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put_bundle(&bundle("dev_1", &recipient("ada"), 1)), put_ids("dev_1", ["a", "b"])]).await;
    let outcomes = race(&store, (0..16).map(|_| vec![take("dev_1", "a")])).await;
    assert_one_winner(&outcomes, Conflict::Missing);
    assert_eq!(next(&*store, "dev_1").await, is("b", 1));
}

pub async fn upload_keeps_one_time_keys_and_replaces_fallback_key(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put_bundle(&bundle("dev_1", &recipient("ada"), 1)), put_ids("dev_1", ["a", "b"])]).await;
    let other = OneTimeKey { key: X25519PublicKey::new([9; 32]), ..one_time_key("a", false) };
    made(&*store, [put_keys("dev_1", [one_time_key("b", false), other, one_time_key("f", true)], MOST)]).await;
    assert_eq!(store.one_time_key(&id("dev_1")).await.unwrap(), Some(one_time_key("a", false)));
    assert_eq!(next(&*store, "dev_1").await, is("a", 2));
    // A key with this id exists, so it does not become the fallback key.
    made(&*store, [put_keys("dev_1", [one_time_key("b", true)], MOST)]).await;
    made(&*store, [take("dev_1", "a"), take("dev_1", "b")]).await;
    assert_eq!(next(&*store, "dev_1").await, is("f", 0));
    made(&*store, [put_keys("dev_1", [one_time_key("g", true)], MOST)]).await;
    assert_eq!(next(&*store, "dev_1").await, is("g", 0));
    assert_eq!(refusal(&*store, [take("dev_1", "f")]).await, Conflict::Missing);
}

pub async fn oldest_one_time_keys_over_limit_are_deleted(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    made(&*store, ["dev_1", "dev_2"].map(|device| put_bundle(&bundle(device, &ada, 1)))).await;
    let keys = |ids: &[&str]| ids.iter().map(|id| one_time_key(id, *id == "f")).collect::<Vec<_>>();
    made(&*store, [put_ids("dev_2", ["a", "b", "c"]), put_keys("dev_1", keys(&["f", "a", "b"]), 2)]).await;
    assert_eq!(next(&*store, "dev_1").await, is("a", 2));
    made(&*store, [put_keys("dev_1", keys(&["c", "d", "e"]), 2)]).await;
    assert_eq!(next(&*store, "dev_1").await, is("d", 2));
    made(&*store, [take("dev_1", "d"), take("dev_1", "e")]).await;
    assert_eq!(next(&*store, "dev_1").await, is("f", 0));
    assert_eq!(next(&*store, "dev_2").await, is("a", 3));
}

pub async fn one_time_keys_without_bundle_are_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [put_ids("dev_1", ["a"])]).await, Conflict::Missing);
    made(&*store, [put_bundle(&bundle("dev_1", &recipient("ada"), 1))]).await;
    assert_eq!(next(&*store, "dev_1").await, NONE);
    made(&*store, [put_ids("dev_1", ["a"]), remove("dev_1")]).await;
    assert_eq!(refusal(&*store, [put_ids("dev_1", ["b"])]).await, Conflict::Missing);
}

pub async fn new_olm_key_deletes_one_time_keys(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    let keys = [one_time_key("a", false), one_time_key("f", true)];
    made(&*store, ["dev_1", "dev_2"].map(|device| put_bundle(&bundle(device, &ada, 1)))).await;
    made(&*store, ["dev_1", "dev_2"].map(|device| put_keys(device, keys.clone(), MOST))).await;
    made(&*store, [put_bundle(&bundle("dev_1", &ada, 2))]).await;
    assert_eq!(next(&*store, "dev_1").await, is("a", 1), "the same Olm key");
    let mut other = bundle("dev_1", &ada, 3);
    other.keys.olm_key = Some(X25519PublicKey::new([8; 32]));
    made(&*store, [put_bundle(&other)]).await;
    assert_eq!(next(&*store, "dev_1").await, NONE);
    assert_eq!(next(&*store, "dev_2").await, is("a", 1), "another device");
    made(&*store, [put_ids("dev_1", ["a"])]).await;
    assert_eq!(next(&*store, "dev_1").await, is("a", 1));
}

pub async fn removing_a_bundle_deletes_its_keys(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    for device in ["dev_1", "dev_2"] {
        made(&*store, [put_bundle(&bundle(device, &ada, 5)), put_ids(device, ["a"])]).await;
    }
    made(&*store, [remove("dev_1"), remove("dev_9")]).await;
    made(&*store, [remove("dev_1")]).await;
    assert_eq!(one(&*store, "dev_1").await, None);
    assert_eq!(devices(&*store, &ada).await, ["dev_2"]);
    assert_eq!((next(&*store, "dev_1").await, next(&*store, "dev_2").await), (NONE, is("a", 1)));
    made(&*store, [put_bundle(&bundle("dev_1", &ada, 1))]).await;
    assert_eq!(next(&*store, "dev_1").await, NONE);
}

pub async fn bundle_endorsement_by_another_device_is_stored(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    let by = |device: &str| DeviceEndorsement { by: device_id(device), signature: Signature::new([6; 64]) };
    assert_eq!(refusal(&*store, [endorse("dev_1", &by("dev_2"))]).await, Conflict::Missing);
    assert_eq!(one(&*store, "dev_1").await, None);
    let (first, second) = (bundle("dev_1", &ada, 4), bundle("dev_2", &ada, 1));
    made(&*store, [put_bundle(&first), put_bundle(&second), put_ids("dev_1", ["a"])]).await;
    for device in ["dev_2", "dev_3"] {
        made(&*store, [endorse("dev_1", &by(device))]).await;
        let endorsed = KeyBundle { endorsement: Some(by(device)), ..first.clone() };
        assert_eq!(one(&*store, "dev_1").await, Some(endorsed));
    }
    assert_eq!(one(&*store, "dev_2").await, Some(second));
    assert_eq!(next(&*store, "dev_1").await, is("a", 1));
    assert_eq!(refusal(&*store, [put_bundle(&first)]).await, Conflict::Moved, "its number is as it was");
}

pub async fn key_backup_can_be_replaced_and_removed_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    let put = |person: &str, content: &str, at| {
        let (person, content, at) = (name(person), content.to_owned(), later(at));
        Change::from(RelayChange::PutBackup { person, content, at })
    };
    let remove = || Change::from(RelayChange::RemoveBackup(name("ada")));
    let backup = async |person: &str| store.backup(&name(person)).await.unwrap();
    assert_eq!(refusal(&*store, [remove()]).await, Conflict::Missing);
    assert_eq!(backup("ada").await, None);
    made(&*store, [put("ada", "{\"n\": 1.50}", 1), put("bob", "{}", 2)]).await;
    assert_eq!(backup("ada").await, Some(("{\"n\": 1.50}".to_owned(), later(1))));
    made(&*store, [put("ada", "[]", 3)]).await;
    assert_eq!(backup("ada").await, Some(("[]".to_owned(), later(3))));
    made(&*store, [remove()]).await;
    assert_eq!(backup("ada").await, None);
    assert_eq!(refusal(&*store, [remove()]).await, Conflict::Missing);
    assert_eq!(backup("bob").await, Some(("{}".to_owned(), later(2))));
}

pub async fn key_bundles_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    let keys = bundle("dev_1", &recipient("ada"), 1);
    made(&*store, [put_bundle(&keys), put_ids("dev_1", ["b", "a"]), take("dev_1", "b")]).await;
    drop(store);
    let store = place.open().await;
    made(&*store, [put_ids("dev_1", ["0"])]).await;
    assert_eq!((one(&*store, "dev_1").await, next(&*store, "dev_1").await), (Some(keys), is("a", 2)));
}
