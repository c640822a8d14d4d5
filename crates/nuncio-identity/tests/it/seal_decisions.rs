//! Decisions of a person about the keys of devices.

use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::digest::Digest;
use nuncio_identity::seal::{DistrustReason, OpenError, PeerKeyChange, TrustError, backup};

use crate::seal_fixtures::{TestIdentity, agent, at, device, person, relay_metadata, send_text, text_message};

const PHRASE: &str = "correct horse battery";

fn device_of_ada(name: &str) -> TestIdentity {
    TestIdentity::new(person("ada"), name, SealMode::Stateful)
}

fn device_of_hotel(name: &str) -> TestIdentity {
    TestIdentity::new(agent("hotel"), name, SealMode::Stateful)
}

fn endorsed(side: &TestIdentity, by: &TestIdentity) -> KeyBundle {
    let endorsement = Some(by.seal_identity.endorse(&side.bundle()).unwrap());
    KeyBundle { endorsement, ..side.bundle() }
}

#[test]
fn removed_device_stays_distrusted_even_if_endorsed() {
    let (mut laptop, mut phone, watch) = (device_of_ada("laptop"), device_of_ada("phone"), device_of_ada("watch"));
    let ada = person("ada");
    let shown = [laptop.bundle(), endorsed(&phone, &laptop)];
    assert_eq!(laptop.seal_identity.review_keys(&ada, &shown, None).unwrap().trusted.len(), 2);
    phone.review_keys(&laptop);
    phone.seal_identity.decisions().accept(&ada, &device("laptop")).unwrap();

    laptop.seal_identity.decisions().remove(&ada, &device("phone")).unwrap();
    assert_eq!(laptop.seal_identity.pinned(&ada).unwrap(), [laptop.bundle()]);
    // The relay shows the removed phone again with its old endorsement, and the phone endorses another device.
    let shown = [laptop.bundle(), endorsed(&phone, &laptop), endorsed(&watch, &phone)];
    let review = laptop.seal_identity.review_keys(&ada, &shown, None).unwrap();
    assert_eq!(review.trusted, [device("laptop")]);
    let expected = [(device("phone"), DistrustReason::Removed), (device("watch"), DistrustReason::NewUnendorsed)];
    assert_eq!(review.distrusted, expected);
    let nothing = TrustError::NothingToAccept(device("phone"));
    assert_eq!(laptop.seal_identity.decisions().accept(&ada, &device("phone")), Err(nothing));
    // Messages of the removed device are refused, and nothing is sealed to that device.
    let plaintext = text_message("m1", "let me in");
    let envelope = phone.seal(&plaintext, &mut laptop).unwrap();
    let opened = laptop.open(&relay_metadata(&plaintext, &phone), &envelope);
    assert!(matches!(opened, Err(OpenError::UnknownSender { .. })), "{opened:?}");
    assert!(laptop.seal(&text_message("m2", "x"), &mut phone).is_err());
    // A device cannot remove itself.
    assert_eq!(laptop.seal_identity.decisions().remove(&ada, &device("laptop")), Err(TrustError::NotOtherOwnDevice));
}

#[test]
fn accepting_a_key_with_another_fingerprint_is_refused() {
    let (mut laptop, phone) = (device_of_ada("laptop"), device_of_ada("phone"));
    let (ada, seen) = (person("ada"), phone.seal_identity.signing_key().fingerprint());
    laptop.review_keys(&phone);
    let other = Digest::of_bytes(b"another");
    let refused = laptop.seal_identity.decisions().accept_key(&ada, &device("phone"), &other);
    assert_eq!(refused, Err(TrustError::OtherFingerprint { owner: ada.clone(), expected: other }));
    assert_eq!(laptop.seal_identity.decisions().waiting(&ada).unwrap()[0].bundle, phone.bundle());
    laptop.seal_identity.decisions().accept_key(&ada, &device("phone"), &seen).unwrap();
    assert!(laptop.seal_identity.decisions().waiting(&ada).unwrap().is_empty());
    let again = laptop.seal_identity.decisions().accept_key(&ada, &device("phone"), &seen);
    assert_eq!(again, Err(TrustError::NothingToAccept(device("phone"))));
}

#[test]
fn pending_safety_number_equals_the_number_after_acceptance() {
    let (mut ada, mut hotel) = (device_of_ada("phone"), device_of_hotel("old"));
    ada.review_keys(&hotel);
    hotel.review_keys(&ada);
    send_text(&mut ada, &mut hotel, "m1").unwrap();
    let before = ada.seal_identity.safety_number(&agent("hotel")).unwrap();
    let mut new = device_of_hotel("new");
    new.review_keys(&ada);
    assert_eq!(ada.review_keys(&new).distrusted, [(device("new"), DistrustReason::NewUnendorsed)]);
    let waiting = ada.seal_identity.decisions().waiting(&agent("hotel")).unwrap().remove(0);
    assert_eq!(ada.seal_identity.safety_number(&agent("hotel")).unwrap(), before);
    ada.seal_identity.decisions().accept(&agent("hotel"), &device("new")).unwrap();
    let after = ada.seal_identity.safety_number(&agent("hotel")).unwrap();
    assert_eq!(waiting.safety_number, after);
    assert_ne!(after, before);
    assert_eq!(new.seal_identity.safety_number(&person("ada")).unwrap(), after, "both sides see the same number");
    send_text(&mut ada, &mut new, "m2").unwrap();
}

#[test]
fn devices_endorsing_each_other_share_one_safety_number() {
    let (mut laptop, mut phone, watch) = (device_of_ada("laptop"), device_of_ada("phone"), device_of_ada("watch"));
    let (mut old, mut new) = (device_of_hotel("main"), device_of_hotel("main"));
    let ada = person("ada");
    old.review_keys(&laptop);
    let shown = [endorsed(&laptop, &phone), endorsed(&phone, &laptop), endorsed(&watch, &phone)];
    laptop.review_keys(&phone);
    laptop.seal_identity.decisions().accept(&ada, &device("phone")).unwrap();
    phone.review_keys(&laptop);
    phone.seal_identity.decisions().accept(&ada, &device("laptop")).unwrap();
    for side in [&mut laptop, &mut phone, &mut old, &mut new] {
        // Reviewed twice, because the first review may be the one that accepts an endorsement.
        side.seal_identity.review_keys(&ada, &shown, None).unwrap();
        assert_eq!(side.seal_identity.review_keys(&ada, &shown, None).unwrap().trusted.len(), 3);
    }
    let number = old.seal_identity.safety_number(&ada).unwrap();
    assert!(number.is_some());
    for side in [&mut laptop, &mut phone] {
        side.review_keys(&old);
        assert_eq!(side.seal_identity.safety_number(&agent("hotel")).unwrap(), number);
    }
    // An agent that reviews all devices at once computes the same number as the devices.
    laptop.review_keys(&new);
    laptop.seal_identity.decisions().accept(&agent("hotel"), &device("main")).unwrap();
    let number = new.seal_identity.safety_number(&ada).unwrap();
    assert!(number.is_some());
    assert_eq!(laptop.seal_identity.safety_number(&agent("hotel")).unwrap(), number);
}

#[test]
fn backup_of_a_lost_device_can_endorse_a_new_device() {
    let (lost, mut phone, mut hotel) = (device_of_ada("laptop"), device_of_ada("phone"), device_of_hotel("main"));
    let ada = person("ada");
    hotel.review_keys(&lost);
    let number = hotel.seal_identity.safety_number(&ada).unwrap();
    let saved = backup::seal(&lost.seal_identity, PHRASE, backup::Argon2Params::LEAST).unwrap();
    phone.review_keys(&hotel);
    assert_eq!(hotel.review_keys(&phone).distrusted, [(device("phone"), DistrustReason::NewUnendorsed)]);
    let before = phone.bundle();
    phone.seal_identity.decisions().endorse_from_backup(&backup::open(&saved, PHRASE).unwrap(), at(5)).unwrap();
    assert!(phone.bundle().keys.seq > before.keys.seq, "the bundle is newer, so the relay accepts it");
    let joined = PeerKeyChange::Joined { device: device("phone"), by: device("laptop") };
    assert_eq!(hotel.review_keys(&phone).changes, [joined]);
    send_text(&mut phone, &mut hotel, "m1").unwrap();
    // The safety number does not change when the lost device is removed, or is no longer published.
    assert_eq!(hotel.seal_identity.safety_number(&ada).unwrap(), number);
    assert_eq!(phone.seal_identity.safety_number(&agent("hotel")).unwrap(), number);
    assert_eq!(phone.review_keys(&lost).trusted, [device("laptop")], "it is the same that was backed up");
    phone.seal_identity.decisions().remove(&ada, &device("laptop")).unwrap();
    assert_eq!(phone.seal_identity.safety_number(&agent("hotel")).unwrap(), number);
    assert_eq!(phone.review_keys(&lost).distrusted, [(device("laptop"), DistrustReason::Removed)]);
    // A device cannot endorse itself.
    let own = backup::seal(&phone.seal_identity, PHRASE, backup::Argon2Params::LEAST).unwrap();
    let refused = phone.seal_identity.decisions().endorse_from_backup(&backup::open(&own, PHRASE).unwrap(), at(6));
    assert_eq!(refused, Err(TrustError::NotOtherOwnDevice));
}
