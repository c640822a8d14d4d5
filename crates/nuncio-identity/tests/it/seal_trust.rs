//! Pinning and reviewing the keys of peers.

use std::sync::Arc;

use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::conversation::ConversationType;
use nuncio_core::digest::Digest;
use nuncio_identity::seal::{
    DidProofError, DistrustReason, MemoryKeyStore, NewSealIdentity, OpenError, PeerKeyChange, SealIdentity, TrustError,
    backup, sign_did_proof, verify_did_proof,
};
use nuncio_identity::{BoundDidDocument, Did, DidDocument, DidUrl, K1ProofRule, NewDidDocument, SigningKey};

use crate::seal_fixtures::{
    TestIdentity, agent, at, device, pair, person, relay_metadata, send_text, text, text_message,
};

fn device_of_ada(name: &str) -> TestIdentity {
    TestIdentity::new(person("ada"), name, SealMode::Stateful)
}

fn endorsed(side: &TestIdentity, by: &TestIdentity) -> KeyBundle {
    let endorsement = Some(by.seal_identity.endorse(&side.bundle()).unwrap());
    KeyBundle { endorsement, ..side.bundle() }
}

#[test]
fn first_keys_are_pinned_and_later_keys_need_endorsement() {
    let mut hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    let (phone, laptop, watch, spy) =
        (device_of_ada("phone"), device_of_ada("laptop"), device_of_ada("watch"), device_of_ada("spy"));
    let ada = person("ada");
    let review = hotel.seal_identity.review_keys(&ada, &[phone.bundle()], None).unwrap();
    assert!(review.first_contact && review.distrusted.is_empty() && review.changes.is_empty());
    let review = hotel.seal_identity.review_keys(&ada, &[phone.bundle(), spy.bundle()], None).unwrap();
    assert!(!review.first_contact);
    assert_eq!(review.trusted, [device("phone")]);
    assert_eq!(review.distrusted, [(device("spy"), DistrustReason::NewUnendorsed)]);
    // A chain: the phone endorses the laptop and the laptop the watch; the order of the list does not matter.
    let chain = [endorsed(&watch, &laptop), endorsed(&laptop, &phone), phone.bundle()];
    let review = hotel.seal_identity.review_keys(&ada, &chain, None).unwrap();
    assert_eq!(review.trusted.len(), 3);
    let joined = |name, by| PeerKeyChange::Joined { device: device(name), by: device(by) };
    assert_eq!(review.changes, [joined("laptop", "phone"), joined("watch", "laptop")]);
    // An endorsement by an untrusted device, or about another device, is ignored.
    let forged = KeyBundle { endorsement: endorsed(&laptop, &phone).endorsement, ..spy.bundle() };
    let itself = endorsed(&spy, &spy);
    for bundle in [forged, itself] {
        let review = hotel.seal_identity.review_keys(&ada, &[phone.bundle(), bundle], None).unwrap();
        assert_eq!(review.distrusted, [(device("spy"), DistrustReason::NewUnendorsed)]);
    }
}

#[test]
fn invite_fingerprint_selects_the_pinned_key() {
    let mut ada = device_of_ada("phone");
    let (hotel, spy) = (
        TestIdentity::new(agent("hotel"), "main", SealMode::Stateful),
        TestIdentity::new(agent("hotel"), "spy", SealMode::Stateful),
    );
    let expect = hotel.seal_identity.signing_key().fingerprint();
    let wrong = Digest::of_bytes(b"another");
    for shown in [vec![], vec![spy.bundle()]] {
        let refused = ada.seal_identity.review_keys(&agent("hotel"), &shown, Some(&expect));
        assert_eq!(refused, Err(TrustError::OtherFingerprint { owner: agent("hotel"), expected: expect }));
    }
    let review =
        ada.seal_identity.review_keys(&agent("hotel"), &[spy.bundle(), hotel.bundle()], Some(&expect)).unwrap();
    assert!(review.first_contact);
    assert_eq!(review.trusted, [device("main")]);
    assert_eq!(review.distrusted, [(device("spy"), DistrustReason::NewUnendorsed)]);
    // A later invite with another fingerprint does not match the pinned key.
    assert!(ada.seal_identity.review_keys(&agent("hotel"), &[hotel.bundle()], Some(&wrong)).is_err());
    assert!(ada.seal_identity.review_keys(&agent("hotel"), &[hotel.bundle()], Some(&expect)).is_ok());
}

#[test]
fn changed_key_is_refused_until_a_person_accepts_it() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "m1").unwrap();
    let before = ada.seal_identity.safety_number(&agent("hotel")).unwrap().unwrap();
    assert_eq!(hotel.seal_identity.safety_number(&person("ada")).unwrap().unwrap(), before);
    let mut other = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    other.review_keys(&ada);
    let review = ada.seal_identity.review_keys(&agent("hotel"), &[other.bundle()], None).unwrap();
    assert_eq!(review.distrusted, [(device("main"), DistrustReason::KeyChanged)]);
    let plaintext = text_message("m2", "it is me");
    let envelope = other.seal(&plaintext, &mut ada).unwrap();
    let untrusted = OpenError::Untrusted { device: device("main"), why: DistrustReason::KeyChanged };
    assert_eq!(ada.open(&relay_metadata(&plaintext, &other), &envelope), Err(untrusted));
    ada.seal_identity.decisions().accept(&agent("hotel"), &device("main")).unwrap();
    assert_eq!(text(&ada.open(&relay_metadata(&plaintext, &other), &envelope).unwrap()), "it is me");
    send_text(&mut ada, &mut other, "m3").unwrap();
    let after = ada.seal_identity.safety_number(&agent("hotel")).unwrap().unwrap();
    assert_eq!(other.seal_identity.safety_number(&person("ada")).unwrap().as_ref(), Some(&after));
    assert_ne!(before, after);
    let nothing = ada.seal_identity.decisions().accept(&agent("hotel"), &device("main"));
    assert_eq!(nothing, Err(TrustError::NothingToAccept(device("main"))));
}

#[test]
fn key_bundle_with_lower_sequence_number_is_distrusted() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let old = hotel.bundle();
    hotel.seal_identity.set_owner_device(agent("hotel"), device("second"), at(1)).unwrap();
    hotel.seal_identity.set_owner_device(agent("hotel"), device("main"), at(2)).unwrap();
    assert!(hotel.bundle().keys.seq > old.keys.seq);
    assert_eq!(hotel.seal_identity.pinned(&agent("hotel")).unwrap(), [hotel.bundle()], "a device has one id");
    assert_eq!(ada.review_keys(&hotel).trusted, [device("main")]);
    let review = ada.seal_identity.review_keys(&agent("hotel"), &[old], None).unwrap();
    assert_eq!(review.distrusted, [(device("main"), DistrustReason::OldBundle)]);
    assert!(
        ada.seal_identity.decisions().accept(&agent("hotel"), &device("main")).is_err(),
        "an older bundle cannot be accepted"
    );
}

#[test]
fn agent_that_becomes_stateless_is_distrusted_until_accepted() {
    let keep = Arc::new(MemoryKeyStore::new());
    let mut ada = device_of_ada("phone");
    let mut hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    ada.review_keys(&hotel);
    hotel.review_keys(&ada);
    send_text(&mut ada, &mut hotel, "m1").unwrap();
    // The same keys in an agent that became stateless.
    let saved = backup::seal(&hotel.seal_identity, "correct horse battery", backup::Argon2Params::LEAST).unwrap();
    let restored = backup::open(&saved, "correct horse battery").unwrap();
    let named = Some((agent("hotel"), device("main")));
    let new = NewSealIdentity { named, mode: SealMode::Stateless, now: at(10) };
    let mut weak =
        TestIdentity { seal_identity: SealIdentity::restore(keep, restored, &new).unwrap(), keys: [].into() };
    weak.review_keys(&ada);
    let plaintext = text_message("m2", "x");
    let envelope = weak.seal(&plaintext, &mut ada).unwrap();
    assert_eq!(ada.open(&relay_metadata(&plaintext, &weak), &envelope), Err(OpenError::Downgraded));
    assert_eq!(ada.review_keys(&weak).distrusted, [(device("main"), DistrustReason::Downgraded)]);
    assert_eq!(ada.open(&relay_metadata(&plaintext, &weak), &envelope), Err(OpenError::Downgraded));
    assert!(ada.seal(&text_message("m3", "x"), &mut weak).is_err());
    ada.seal_identity.decisions().accept(&agent("hotel"), &device("main")).unwrap();
    assert_eq!(ada.open(&relay_metadata(&plaintext, &weak), &envelope).unwrap().mode, SealMode::Stateless);
    // Session messages of a device that was accepted as stateless are refused.
    let plaintext = text_message("m4", "x");
    let in_session = hotel.seal(&plaintext, &mut ada).unwrap();
    assert_eq!(ada.open(&relay_metadata(&plaintext, &hotel), &in_session), Err(OpenError::WrongWrap));
}

#[test]
fn restored_backup_publishes_new_keys_of_the_same_device() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "m1").unwrap();
    let saved = backup::seal(&hotel.seal_identity, "correct horse battery", backup::Argon2Params::LEAST).unwrap();
    let restored = backup::open(&saved, "correct horse battery").unwrap();
    let named = Some((agent("hotel"), restored.device().clone()));
    let new = NewSealIdentity { named, mode: SealMode::Stateful, now: at(10) };
    let mut seal_identity = SealIdentity::restore(Arc::new(MemoryKeyStore::new()), restored, &new).unwrap();
    let keys = seal_identity.one_time_keys(0, at(10)).unwrap().into();
    let mut again = TestIdentity { seal_identity, keys };
    again.review_keys(&ada);
    let plaintext = text_message("m2", "back");
    let envelope = again.seal(&plaintext, &mut ada).unwrap();
    let stale = OpenError::StaleBundle { device: device("main") };
    assert_eq!(ada.open(&relay_metadata(&plaintext, &again), &envelope), Err(stale));
    let review = ada.review_keys(&again);
    assert_eq!(
        (review.trusted, review.changes),
        (vec![device("main")], vec![PeerKeyChange::Renewed { device: device("main") }])
    );
    assert_eq!(text(&ada.open(&relay_metadata(&plaintext, &again), &envelope).unwrap()), "back");
    assert!(
        !ada.seal_identity.needs_one_time_key(ConversationType::H2a, &again.bundle()).unwrap(),
        "the new session is used"
    );
    send_text(&mut ada, &mut again, "m3").unwrap();
}

#[test]
fn key_bundle_with_invalid_signature_is_distrusted() {
    let mut ada = device_of_ada("phone");
    let hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    let mut changed = hotel.bundle();
    changed.keys.hpke_key = ada.bundle().keys.hpke_key;
    let mut weaker = hotel.bundle();
    weaker.keys.mode = SealMode::Stateless;
    let taxis = TestIdentity::new(agent("taxi"), "main", SealMode::Stateful).bundle();
    for bundle in [changed, weaker, taxis] {
        let review = ada.seal_identity.review_keys(&agent("hotel"), &[bundle], None).unwrap();
        assert_eq!(review.distrusted, [(device("main"), DistrustReason::BadSignature)]);
        assert!(review.first_contact && review.trusted.is_empty());
    }
    assert!(ada.review_keys(&hotel).first_contact, "no key was pinned");
    let many = vec![hotel.bundle(); 65];
    assert_eq!(ada.seal_identity.review_keys(&agent("hotel"), &many, None), Err(TrustError::TooMany(65)));
}

#[test]
fn only_one_of_two_bundles_with_the_same_device_id_is_pinned() {
    let mut ada = device_of_ada("phone");
    let (one, two) = (
        TestIdentity::new(agent("hotel"), "main", SealMode::Stateful),
        TestIdentity::new(agent("hotel"), "main", SealMode::Stateful),
    );
    let review = ada.seal_identity.review_keys(&agent("hotel"), &[one.bundle(), two.bundle()], None).unwrap();
    assert_eq!(review.trusted, [device("main")]);
    assert_eq!(review.distrusted, [(device("main"), DistrustReason::KeyChanged)]);
    assert!(ada.seal_identity.decisions().accept(&agent("hotel"), &device("main")).is_err(), "which of the two?");
    assert_eq!(ada.seal_identity.pinned(&agent("hotel")).unwrap(), [one.bundle()]);
}

#[test]
fn device_missing_from_the_key_list_is_reported_once() {
    let mut hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    let (phone, laptop) = (device_of_ada("phone"), device_of_ada("laptop"));
    hotel.seal_identity.review_keys(&person("ada"), &[phone.bundle(), laptop.bundle()], None).unwrap();
    let gone = [PeerKeyChange::Gone { device: device("laptop") }];
    assert_eq!(hotel.seal_identity.review_keys(&person("ada"), &[phone.bundle()], None).unwrap().changes, gone);
    assert_eq!(hotel.seal_identity.review_keys(&person("ada"), &[phone.bundle()], None).unwrap().changes, []);
}

#[test]
fn added_device_of_an_interceptor_makes_the_safety_numbers_differ() {
    let (mut ada, mut hotel) = (device_of_ada("phone"), TestIdentity::new(agent("hotel"), "main", SealMode::Stateful));
    let spy = TestIdentity::new(agent("hotel"), "spy", SealMode::Stateful);
    hotel.review_keys(&ada);
    ada.seal_identity.review_keys(&agent("hotel"), &[hotel.bundle(), spy.bundle()], None).unwrap();
    let (hers, its) =
        (ada.seal_identity.safety_number(&agent("hotel")), hotel.seal_identity.safety_number(&person("ada")));
    assert_ne!(hers.unwrap().unwrap(), its.unwrap().unwrap());
    assert_eq!(ada.seal_identity.safety_number(&agent("taxi")).unwrap(), None);
}

#[test]
fn did_proof_on_a_bundle_verifies_only_for_its_did() {
    let bound = |key: &SigningKey| -> (Did, BoundDidDocument) {
        let did = Did::for_key("hotel.example", None, &["agents", "hotel"], key).unwrap();
        let document = DidDocument::from_json(NewDidDocument::new(&did, at(0)).sign(key)).unwrap();
        let bound = document.bind(&did, at(0), K1ProofRule::Optional).unwrap();
        (did, bound)
    };
    let (key, other) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
    let ((did, document), (_, strange)) = (bound(&key), bound(&other));
    let mut hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    assert_eq!(verify_did_proof(&hotel.bundle(), &document), Err(DidProofError::Missing));
    hotel.seal_identity.add_did_proof(&DidUrl::new(did.clone(), "key-1").unwrap(), &key).unwrap();
    assert_eq!(verify_did_proof(&hotel.bundle(), &document), Ok(()));
    assert_eq!(verify_did_proof(&hotel.bundle(), &strange), Err(DidProofError::OtherDid));
    let mut forged = hotel.bundle();
    forged.keys.seq += 1;
    assert_eq!(verify_did_proof(&forged, &document), Err(DidProofError::Signature));
    forged.did = Some(sign_did_proof(&forged.keys, &DidUrl::new(did.clone(), "key-1").unwrap(), &other));
    assert_eq!(verify_did_proof(&forged, &document), Err(DidProofError::Signature));
    forged.did = Some(sign_did_proof(&forged.keys, &DidUrl::new(did.clone(), "key-9").unwrap(), &key));
    assert_eq!(verify_did_proof(&forged, &document), Err(DidProofError::Key));
}
