//! Pinning and reviewing keys.

use std::sync::Arc;

use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::conversation::ConversationType;
use nuncio_core::digest::Digest;
use nuncio_identity::seal::{
    DidProofError, Distrust, KeyChange, MeetError, MemoryKeep, NewParty, OpenError, Party, backup, verify_did_proof,
    vouch,
};
use nuncio_identity::{BoundDocument, Did, DidDocument, DidUrl, K1Proof, NewDocument, SigningKey};

use crate::seal_world::{Side, agent, at, device, pair, person, say, text, told, words};

fn adas(name: &str) -> Side {
    Side::new(person("ada"), name, SealMode::Stateful)
}

fn endorsed(side: &Side, by: &Side) -> KeyBundle {
    let endorsement = Some(by.party.endorse(&side.bundle()).unwrap());
    KeyBundle { endorsement, ..side.bundle() }
}

#[test]
fn first_keys_are_pinned_and_later_keys_need_endorsement() {
    let mut hotel = Side::new(agent("hotel"), "main", SealMode::Stateful);
    let (phone, laptop, watch, spy) = (adas("phone"), adas("laptop"), adas("watch"), adas("spy"));
    let ada = person("ada");
    let meeting = hotel.party.meet(&ada, &[phone.bundle()], None).unwrap();
    assert!(meeting.first_contact && meeting.distrusted.is_empty() && meeting.changes.is_empty());
    let meeting = hotel.party.meet(&ada, &[phone.bundle(), spy.bundle()], None).unwrap();
    assert!(!meeting.first_contact);
    assert_eq!(meeting.trusted, [device("phone")]);
    assert_eq!(meeting.distrusted, [(device("spy"), Distrust::NewUnendorsed)]);
    // A chain: the phone endorses the laptop and the laptop the watch; the order of the list does not matter.
    let chain = [endorsed(&watch, &laptop), endorsed(&laptop, &phone), phone.bundle()];
    let meeting = hotel.party.meet(&ada, &chain, None).unwrap();
    assert_eq!(meeting.trusted.len(), 3);
    let joined = |name, by| KeyChange::Joined { device: device(name), by: device(by) };
    assert_eq!(meeting.changes, [joined("laptop", "phone"), joined("watch", "laptop")]);
    // An endorsement by an untrusted device, or about another device, is ignored.
    let forged = KeyBundle { endorsement: endorsed(&laptop, &phone).endorsement, ..spy.bundle() };
    let itself = endorsed(&spy, &spy);
    for bundle in [forged, itself] {
        let meeting = hotel.party.meet(&ada, &[phone.bundle(), bundle], None).unwrap();
        assert_eq!(meeting.distrusted, [(device("spy"), Distrust::NewUnendorsed)]);
    }
}

#[test]
fn invite_fingerprint_selects_the_pinned_key() {
    let mut ada = adas("phone");
    let (hotel, spy) =
        (Side::new(agent("hotel"), "main", SealMode::Stateful), Side::new(agent("hotel"), "spy", SealMode::Stateful));
    let expect = hotel.party.signing_key().fingerprint();
    let wrong = Digest::of_bytes(b"another");
    for shown in [vec![], vec![spy.bundle()]] {
        let refused = ada.party.meet(&agent("hotel"), &shown, Some(&expect));
        assert_eq!(refused, Err(MeetError::OtherFingerprint { owner: agent("hotel"), expected: expect }));
    }
    let meeting = ada.party.meet(&agent("hotel"), &[spy.bundle(), hotel.bundle()], Some(&expect)).unwrap();
    assert!(meeting.first_contact);
    assert_eq!(meeting.trusted, [device("main")]);
    assert_eq!(meeting.distrusted, [(device("spy"), Distrust::NewUnendorsed)]);
    // A later invite with another fingerprint does not match the pinned key.
    assert!(ada.party.meet(&agent("hotel"), &[hotel.bundle()], Some(&wrong)).is_err());
    assert!(ada.party.meet(&agent("hotel"), &[hotel.bundle()], Some(&expect)).is_ok());
}

#[test]
fn changed_key_is_refused_until_a_person_accepts_it() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    say(&mut ada, &mut hotel, "m1").unwrap();
    let before = ada.party.safety_number(&agent("hotel")).unwrap().unwrap();
    assert_eq!(hotel.party.safety_number(&person("ada")).unwrap().unwrap(), before);
    let mut other = Side::new(agent("hotel"), "main", SealMode::Stateful);
    other.meet(&ada);
    let meeting = ada.party.meet(&agent("hotel"), &[other.bundle()], None).unwrap();
    assert_eq!(meeting.distrusted, [(device("main"), Distrust::KeyChanged)]);
    let letter = words("m2", "it is me");
    let envelope = other.seal(&letter, &mut ada).unwrap();
    let untrusted = OpenError::Untrusted { device: device("main"), why: Distrust::KeyChanged };
    assert_eq!(ada.open(&told(&letter, &other), &envelope), Err(untrusted));
    ada.party.accept(&agent("hotel"), &device("main")).unwrap();
    assert_eq!(text(&ada.open(&told(&letter, &other), &envelope).unwrap()), "it is me");
    say(&mut ada, &mut other, "m3").unwrap();
    let after = ada.party.safety_number(&agent("hotel")).unwrap().unwrap();
    assert_eq!(other.party.safety_number(&person("ada")).unwrap().as_ref(), Some(&after));
    assert_ne!(before, after);
    let nothing = ada.party.accept(&agent("hotel"), &device("main"));
    assert_eq!(nothing, Err(MeetError::NothingToAccept(device("main"))));
}

#[test]
fn older_bundle_is_distrusted() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let old = hotel.bundle();
    hotel.party.set_owner_device(agent("hotel"), device("second"), at(1)).unwrap();
    hotel.party.set_owner_device(agent("hotel"), device("main"), at(2)).unwrap();
    assert!(hotel.bundle().keys.seq > old.keys.seq);
    assert_eq!(hotel.party.pinned(&agent("hotel")).unwrap(), [hotel.bundle()], "it knows itself by one name");
    assert_eq!(ada.meet(&hotel).trusted, [device("main")]);
    let meeting = ada.party.meet(&agent("hotel"), &[old], None).unwrap();
    assert_eq!(meeting.distrusted, [(device("main"), Distrust::OldBundle)]);
    assert!(ada.party.accept(&agent("hotel"), &device("main")).is_err(), "nobody accepts that");
}

#[test]
fn agent_that_becomes_stateless_is_distrusted_until_accepted() {
    let keep = Arc::new(MemoryKeep::new());
    let mut ada = adas("phone");
    let mut hotel = Side::new(agent("hotel"), "main", SealMode::Stateful);
    ada.meet(&hotel);
    hotel.meet(&ada);
    say(&mut ada, &mut hotel, "m1").unwrap();
    // The same keys in an agent that became stateless.
    let saved = backup::seal(&hotel.party, "correct horse battery", backup::Argon2Params::LEAST).unwrap();
    let restored = backup::open(&saved, "correct horse battery").unwrap();
    let named = Some((agent("hotel"), device("main")));
    let new = NewParty { named, mode: SealMode::Stateless, now: at(10) };
    let mut weak = Side { party: Party::restore(keep, restored, &new).unwrap(), keys: [].into() };
    weak.meet(&ada);
    let letter = words("m2", "x");
    let envelope = weak.seal(&letter, &mut ada).unwrap();
    assert_eq!(ada.open(&told(&letter, &weak), &envelope), Err(OpenError::Downgraded));
    assert_eq!(ada.meet(&weak).distrusted, [(device("main"), Distrust::Downgraded)]);
    assert_eq!(ada.open(&told(&letter, &weak), &envelope), Err(OpenError::Downgraded));
    assert!(ada.seal(&words("m3", "x"), &mut weak).is_err());
    ada.party.accept(&agent("hotel"), &device("main")).unwrap();
    assert_eq!(ada.open(&told(&letter, &weak), &envelope).unwrap().mode, SealMode::Stateless);
    // A stateless agent does not accept session messages.
    let letter = words("m4", "x");
    let in_session = hotel.seal(&letter, &mut ada).unwrap();
    assert_eq!(ada.open(&told(&letter, &hotel), &in_session), Err(OpenError::WrongWrap));
}

#[test]
fn restored_backup_publishes_new_keys_of_the_same_device() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    say(&mut ada, &mut hotel, "m1").unwrap();
    let saved = backup::seal(&hotel.party, "correct horse battery", backup::Argon2Params::LEAST).unwrap();
    let restored = backup::open(&saved, "correct horse battery").unwrap();
    let named = Some((agent("hotel"), restored.device().clone()));
    let new = NewParty { named, mode: SealMode::Stateful, now: at(10) };
    let mut party = Party::restore(Arc::new(MemoryKeep::new()), restored, &new).unwrap();
    let keys = party.one_time_keys(0, at(10)).unwrap().into();
    let mut again = Side { party, keys };
    again.meet(&ada);
    let letter = words("m2", "back");
    let envelope = again.seal(&letter, &mut ada).unwrap();
    let stale = OpenError::StaleBundle { device: device("main") };
    assert_eq!(ada.open(&told(&letter, &again), &envelope), Err(stale));
    let meeting = ada.meet(&again);
    assert_eq!(
        (meeting.trusted, meeting.changes),
        (vec![device("main")], vec![KeyChange::Renewed { device: device("main") }])
    );
    assert_eq!(text(&ada.open(&told(&letter, &again), &envelope).unwrap()), "back");
    assert!(!ada.party.wants_key(ConversationType::H2a, &again.bundle()).unwrap(), "the new session is used");
    say(&mut ada, &mut again, "m3").unwrap();
}

#[test]
fn bundle_with_invalid_signature_is_distrusted() {
    let mut ada = adas("phone");
    let hotel = Side::new(agent("hotel"), "main", SealMode::Stateful);
    let mut changed = hotel.bundle();
    changed.keys.hpke_key = ada.bundle().keys.hpke_key;
    let mut weaker = hotel.bundle();
    weaker.keys.mode = SealMode::Stateless;
    let taxis = Side::new(agent("taxi"), "main", SealMode::Stateful).bundle();
    for bundle in [changed, weaker, taxis] {
        let meeting = ada.party.meet(&agent("hotel"), &[bundle], None).unwrap();
        assert_eq!(meeting.distrusted, [(device("main"), Distrust::BadSignature)]);
        assert!(meeting.first_contact && meeting.trusted.is_empty());
    }
    assert!(ada.meet(&hotel).first_contact, "nothing was pinned");
    let many = vec![hotel.bundle(); 65];
    assert_eq!(ada.party.meet(&agent("hotel"), &many, None), Err(MeetError::TooMany(65)));
}

#[test]
fn only_one_of_two_bundles_with_the_same_device_id_is_pinned() {
    let mut ada = adas("phone");
    let (one, two) =
        (Side::new(agent("hotel"), "main", SealMode::Stateful), Side::new(agent("hotel"), "main", SealMode::Stateful));
    let meeting = ada.party.meet(&agent("hotel"), &[one.bundle(), two.bundle()], None).unwrap();
    assert_eq!(meeting.trusted, [device("main")]);
    assert_eq!(meeting.distrusted, [(device("main"), Distrust::KeyChanged)]);
    assert!(ada.party.accept(&agent("hotel"), &device("main")).is_err(), "which of the two?");
    assert_eq!(ada.party.pinned(&agent("hotel")).unwrap(), [one.bundle()]);
}

#[test]
fn missing_device_is_reported_once() {
    let mut hotel = Side::new(agent("hotel"), "main", SealMode::Stateful);
    let (phone, laptop) = (adas("phone"), adas("laptop"));
    hotel.party.meet(&person("ada"), &[phone.bundle(), laptop.bundle()], None).unwrap();
    let gone = [KeyChange::Gone { device: device("laptop") }];
    assert_eq!(hotel.party.meet(&person("ada"), &[phone.bundle()], None).unwrap().changes, gone);
    assert_eq!(hotel.party.meet(&person("ada"), &[phone.bundle()], None).unwrap().changes, []);
}

#[test]
fn interceptor_device_changes_the_safety_number() {
    let (mut ada, mut hotel) = (adas("phone"), Side::new(agent("hotel"), "main", SealMode::Stateful));
    let spy = Side::new(agent("hotel"), "spy", SealMode::Stateful);
    hotel.meet(&ada);
    ada.party.meet(&agent("hotel"), &[hotel.bundle(), spy.bundle()], None).unwrap();
    let (hers, its) = (ada.party.safety_number(&agent("hotel")), hotel.party.safety_number(&person("ada")));
    assert_ne!(hers.unwrap().unwrap(), its.unwrap().unwrap());
    assert_eq!(ada.party.safety_number(&agent("taxi")).unwrap(), None);
}

#[test]
fn did_proof_on_a_bundle_verifies_only_for_its_did() {
    let bound = |key: &SigningKey| -> (Did, BoundDocument) {
        let did = Did::for_key("hotel.example", None, &["agents", "hotel"], key).unwrap();
        let document = DidDocument::from_json(NewDocument::new(&did, at(0)).sign(key)).unwrap();
        let bound = document.bind(&did, at(0), K1Proof::Optional).unwrap();
        (did, bound)
    };
    let (key, other) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
    let ((did, document), (_, strange)) = (bound(&key), bound(&other));
    let mut hotel = Side::new(agent("hotel"), "main", SealMode::Stateful);
    assert_eq!(verify_did_proof(&hotel.bundle(), &document), Err(DidProofError::Missing));
    hotel.party.vouch_by_did(&DidUrl::new(did.clone(), "key-1").unwrap(), &key).unwrap();
    assert_eq!(verify_did_proof(&hotel.bundle(), &document), Ok(()));
    assert_eq!(verify_did_proof(&hotel.bundle(), &strange), Err(DidProofError::OtherDid));
    let mut forged = hotel.bundle();
    forged.keys.seq += 1;
    assert_eq!(verify_did_proof(&forged, &document), Err(DidProofError::Signature));
    forged.did = Some(vouch(&forged.keys, &DidUrl::new(did.clone(), "key-1").unwrap(), &other));
    assert_eq!(verify_did_proof(&forged, &document), Err(DidProofError::Signature));
    forged.did = Some(vouch(&forged.keys, &DidUrl::new(did.clone(), "key-9").unwrap(), &key));
    assert_eq!(verify_did_proof(&forged, &document), Err(DidProofError::Key));
}
