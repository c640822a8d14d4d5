//! Decisions of a person about keys.

use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::digest::Digest;
use nuncio_identity::seal::{Distrust, KeyChange, MeetError, OpenError, backup};

use crate::seal_world::{Side, agent, at, device, person, say, told, words};

const PHRASE: &str = "correct horse battery";

fn adas(name: &str) -> Side {
    Side::new(person("ada"), name, SealMode::Stateful)
}

fn hotels(name: &str) -> Side {
    Side::new(agent("hotel"), name, SealMode::Stateful)
}

fn endorsed(side: &Side, by: &Side) -> KeyBundle {
    let endorsement = Some(by.party.endorse(&side.bundle()).unwrap());
    KeyBundle { endorsement, ..side.bundle() }
}

#[test]
fn removed_device_stays_distrusted_even_if_endorsed() {
    let (mut laptop, mut phone, watch) = (adas("laptop"), adas("phone"), adas("watch"));
    let ada = person("ada");
    let shown = [laptop.bundle(), endorsed(&phone, &laptop)];
    assert_eq!(laptop.party.meet(&ada, &shown, None).unwrap().trusted.len(), 2);
    phone.meet(&laptop);
    phone.party.accept(&ada, &device("laptop")).unwrap();

    laptop.party.remove(&ada, &device("phone")).unwrap();
    assert_eq!(laptop.party.pinned(&ada).unwrap(), [laptop.bundle()]);
    // The relay shows the removed phone again with its old endorsement, and the phone endorses another device.
    let shown = [laptop.bundle(), endorsed(&phone, &laptop), endorsed(&watch, &phone)];
    let meeting = laptop.party.meet(&ada, &shown, None).unwrap();
    assert_eq!(meeting.trusted, [device("laptop")]);
    let expected = [(device("phone"), Distrust::Removed), (device("watch"), Distrust::NewUnendorsed)];
    assert_eq!(meeting.distrusted, expected);
    let nothing = MeetError::NothingToAccept(device("phone"));
    assert_eq!(laptop.party.accept(&ada, &device("phone")), Err(nothing));
    // Its messages are refused, and nothing is sealed to it.
    let letter = words("m1", "let me in");
    let envelope = phone.seal(&letter, &mut laptop).unwrap();
    let opened = laptop.open(&told(&letter, &phone), &envelope);
    assert!(matches!(opened, Err(OpenError::UnknownSender { .. })), "{opened:?}");
    assert!(laptop.seal(&words("m2", "x"), &mut phone).is_err());
    // A device cannot remove itself.
    assert_eq!(laptop.party.remove(&ada, &device("laptop")), Err(MeetError::NotOurs));
}

#[test]
fn accept_key_refuses_another_fingerprint() {
    let (mut laptop, phone) = (adas("laptop"), adas("phone"));
    let (ada, seen) = (person("ada"), phone.party.signing_key().fingerprint());
    laptop.meet(&phone);
    let other = Digest::of_bytes(b"another");
    let refused = laptop.party.accept_key(&ada, &device("phone"), &other);
    assert_eq!(refused, Err(MeetError::OtherFingerprint { owner: ada.clone(), expected: other }));
    assert_eq!(laptop.party.waiting(&ada).unwrap()[0].bundle, phone.bundle());
    laptop.party.accept_key(&ada, &device("phone"), &seen).unwrap();
    assert!(laptop.party.waiting(&ada).unwrap().is_empty());
    let again = laptop.party.accept_key(&ada, &device("phone"), &seen);
    assert_eq!(again, Err(MeetError::NothingToAccept(device("phone"))));
}

#[test]
fn pending_safety_number_equals_the_number_after_acceptance() {
    let (mut ada, mut hotel) = (adas("phone"), hotels("old"));
    ada.meet(&hotel);
    hotel.meet(&ada);
    say(&mut ada, &mut hotel, "m1").unwrap();
    let before = ada.party.safety_number(&agent("hotel")).unwrap();
    let mut new = hotels("new");
    new.meet(&ada);
    assert_eq!(ada.meet(&new).distrusted, [(device("new"), Distrust::NewUnendorsed)]);
    let waiting = ada.party.waiting(&agent("hotel")).unwrap().remove(0);
    assert_eq!(ada.party.safety_number(&agent("hotel")).unwrap(), before);
    ada.party.accept(&agent("hotel"), &device("new")).unwrap();
    let after = ada.party.safety_number(&agent("hotel")).unwrap();
    assert_eq!(waiting.safety_number, after);
    assert_ne!(after, before);
    assert_eq!(new.party.safety_number(&person("ada")).unwrap(), after, "both see the same");
    say(&mut ada, &mut new, "m2").unwrap();
}

#[test]
fn devices_endorsing_each_other_share_one_safety_number() {
    let (mut laptop, mut phone, watch) = (adas("laptop"), adas("phone"), adas("watch"));
    let (mut old, mut new) = (hotels("main"), hotels("main"));
    let ada = person("ada");
    old.meet(&laptop);
    let shown = [endorsed(&laptop, &phone), endorsed(&phone, &laptop), endorsed(&watch, &phone)];
    laptop.meet(&phone);
    laptop.party.accept(&ada, &device("phone")).unwrap();
    phone.meet(&laptop);
    phone.party.accept(&ada, &device("laptop")).unwrap();
    for side in [&mut laptop, &mut phone, &mut old, &mut new] {
        // Twice, since the first review may be the one that accepts an endorsement.
        side.party.meet(&ada, &shown, None).unwrap();
        assert_eq!(side.party.meet(&ada, &shown, None).unwrap().trusted.len(), 3);
    }
    let number = old.party.safety_number(&ada).unwrap();
    assert!(number.is_some());
    for side in [&mut laptop, &mut phone] {
        side.meet(&old);
        assert_eq!(side.party.safety_number(&agent("hotel")).unwrap(), number);
    }
    // An agent that reviews all of them at once gets the same result.
    laptop.meet(&new);
    laptop.party.accept(&agent("hotel"), &device("main")).unwrap();
    let number = new.party.safety_number(&ada).unwrap();
    assert!(number.is_some());
    assert_eq!(laptop.party.safety_number(&agent("hotel")).unwrap(), number);
}

#[test]
fn lost_device_endorses_its_successor_from_backup() {
    let (lost, mut phone, mut hotel) = (adas("laptop"), adas("phone"), hotels("main"));
    let ada = person("ada");
    hotel.meet(&lost);
    let number = hotel.party.safety_number(&ada).unwrap();
    let saved = backup::seal(&lost.party, PHRASE, backup::Argon2Params::LEAST).unwrap();
    phone.meet(&hotel);
    assert_eq!(hotel.meet(&phone).distrusted, [(device("phone"), Distrust::NewUnendorsed)]);
    let before = phone.bundle();
    phone.party.vouch_by_backup(&backup::open(&saved, PHRASE).unwrap(), at(5)).unwrap();
    assert!(phone.bundle().keys.seq > before.keys.seq, "the relay takes it");
    let joined = KeyChange::Joined { device: device("phone"), by: device("laptop") };
    assert_eq!(hotel.meet(&phone).changes, [joined]);
    say(&mut phone, &mut hotel, "m1").unwrap();
    // The number stays the same before and after the lost device is removed, and whether or not it is published.
    assert_eq!(hotel.party.safety_number(&ada).unwrap(), number);
    assert_eq!(phone.party.safety_number(&agent("hotel")).unwrap(), number);
    assert_eq!(phone.meet(&lost).trusted, [device("laptop")], "it is the same that was backed up");
    phone.party.remove(&ada, &device("laptop")).unwrap();
    assert_eq!(phone.party.safety_number(&agent("hotel")).unwrap(), number);
    assert_eq!(phone.meet(&lost).distrusted, [(device("laptop"), Distrust::Removed)]);
    // A device cannot endorse itself.
    let own = backup::seal(&phone.party, PHRASE, backup::Argon2Params::LEAST).unwrap();
    let refused = phone.party.vouch_by_backup(&backup::open(&own, PHRASE).unwrap(), at(6));
    assert_eq!(refused, Err(MeetError::NotOurs));
}
