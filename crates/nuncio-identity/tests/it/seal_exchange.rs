//! Messages exchanged between identities, delivered in any order and any number of times.

use std::collections::HashSet;
use std::sync::Arc;

use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::ConversationType;
use nuncio_identity::seal::{
    MemoryKeyStore, OpenError, PlaintextMessage, RecipientDevice, SealError, SealIdentity, padded_len,
};
use proptest::prelude::*;

use crate::seal_fixtures::{
    TestIdentity, agent, at, call, client_id, device, pair, parse, person, relay_metadata, send_text, text,
    text_message,
};

#[test]
fn messages_are_exchanged_both_ways_in_one_session() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    for round in 0..5 {
        let heard = send_text(&mut ada, &mut hotel, &format!("a{round}")).unwrap();
        assert_eq!(
            (text(&heard), heard.mode, heard.rekeyed),
            (format!("a{round}").as_str(), SealMode::Stateful, false)
        );
        assert_eq!((heard.sender, heard.sender_device), (person("ada"), device("phone")));
        let heard = send_text(&mut hotel, &mut ada, &format!("h{round}")).unwrap();
        assert_eq!(text(&heard), format!("h{round}"));
    }
    // The person used one one-time key of the agent, and the agent used none of the person.
    assert_eq!((ada.keys.len(), hotel.keys.len()), (51, 50));
}

#[test]
fn messages_with_a_stateless_agent_use_hpke_and_are_marked_stateless() {
    let (mut ada, mut hotel) = pair(SealMode::Stateless);
    let plaintext = text_message("m1", "hello");
    let envelope = ada.seal(&plaintext, &mut hotel).unwrap();
    assert_eq!(parse(&envelope)["to"][0]["alg"], "hpke-x25519-hkdfsha256-aes256gcm");
    assert_eq!(hotel.open(&relay_metadata(&plaintext, &ada), &envelope).unwrap().mode, SealMode::Stateless);
    let call = call("m2");
    let envelope = hotel.seal(&call, &mut ada).unwrap();
    let opened = ada.open(&relay_metadata(&call, &hotel), &envelope).unwrap();
    assert_eq!((opened.mode, &opened.payload), (SealMode::Stateless, &call.payload));
    assert!(hotel.keys.is_empty(), "it has no one-time keys");
}

#[test]
fn group_message_is_sealed_to_every_device_with_hpke() {
    let mut ada = TestIdentity::new(person("ada"), "phone", SealMode::Stateful);
    let mut others = [
        TestIdentity::new(person("bob"), "phone", SealMode::Stateful),
        TestIdentity::new(agent("hotel"), "main", SealMode::Stateful),
        // Another agent that uses the same device id.
        TestIdentity::new(agent("taxi"), "main", SealMode::Stateless),
    ];
    let plaintext = PlaintextMessage { conversation_type: ConversationType::Group, ..text_message("m1", "all of you") };
    let bundles: Vec<_> = others.iter().map(TestIdentity::bundle).collect();
    for other in &mut others {
        ada.review_keys(other);
        other.review_keys(&ada);
        assert!(!ada.seal_identity.needs_one_time_key(ConversationType::Group, &other.bundle()).unwrap());
    }
    let to: Vec<_> = bundles.iter().map(|bundle| RecipientDevice { bundle, one_time_key: None }).collect();
    let envelope = ada.seal_identity.seal(&plaintext, &to).unwrap();
    for other in &mut others {
        let opened = other.open(&relay_metadata(&plaintext, &ada), &envelope).unwrap();
        assert_eq!((text(&opened), opened.mode), ("all of you", SealMode::Stateless));
    }
    let doubled = [to[0], to[0]];
    assert_eq!(ada.seal_identity.seal(&plaintext, &doubled), Err(SealError::Twice(device("phone"))));
    let alone = PlaintextMessage { conversation_type: ConversationType::H2h, ..plaintext };
    assert_eq!(ada.seal_identity.seal(&alone, &to), Err(SealError::NotTwo(3)));
}

#[test]
fn own_devices_open_messages_sent_by_another_own_device() {
    let mut phone = TestIdentity::new(person("ada"), "phone", SealMode::Stateful);
    let mut laptop = TestIdentity::new(person("ada"), "laptop", SealMode::Stateful);
    let mut hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    let word = phone.seal_identity.endorse(&laptop.bundle()).unwrap();
    laptop.seal_identity.set_endorsement(word, &phone.seal_identity.signing_key()).unwrap();
    let all = [phone.bundle(), laptop.bundle()];
    assert_eq!(
        phone.seal_identity.review_keys(&person("ada"), &all, None).unwrap().trusted,
        [device("phone"), device("laptop")]
    );
    // On the new device, the person accepts the old one.
    let review = laptop.seal_identity.review_keys(&person("ada"), &all, None).unwrap();
    assert_eq!(review.distrusted.len(), 1);
    laptop.seal_identity.decisions().accept(&person("ada"), &device("phone")).unwrap();
    phone.review_keys(&hotel);
    laptop.review_keys(&hotel);
    hotel.seal_identity.review_keys(&person("ada"), &all, None).unwrap();
    let plaintext = text_message("m1", "hello");
    let (mine, theirs) = (laptop.keys.pop_front(), hotel.keys.pop_front());
    let bundles = [phone.bundle(), laptop.bundle(), hotel.bundle()];
    let to = [
        RecipientDevice { bundle: &bundles[0], one_time_key: None },
        RecipientDevice { bundle: &bundles[1], one_time_key: mine.as_ref() },
        RecipientDevice { bundle: &bundles[2], one_time_key: theirs.as_ref() },
    ];
    let envelope = phone.seal_identity.seal(&plaintext, &to).unwrap();
    assert_eq!(parse(&envelope)["to"].as_array().unwrap().len(), 2, "not to itself");
    for side in [&mut laptop, &mut hotel] {
        assert_eq!(text(&side.open(&relay_metadata(&plaintext, &phone), &envelope).unwrap()), "hello");
    }
    // All devices compute the same safety number, though one endorses the other.
    let number = phone.seal_identity.safety_number(&agent("hotel")).unwrap().unwrap();
    assert_eq!(laptop.seal_identity.safety_number(&agent("hotel")).unwrap().as_ref(), Some(&number));
    assert_eq!(hotel.seal_identity.safety_number(&person("ada")).unwrap().as_ref(), Some(&number));
}

#[test]
fn sessions_started_by_both_sides_at_once_keep_working() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let (one, two) = (text_message("a1", "a1"), text_message("h1", "h1"));
    let (from_ada, from_hotel) = (ada.seal(&one, &mut hotel).unwrap(), hotel.seal(&two, &mut ada).unwrap());
    assert_eq!(text(&hotel.open(&relay_metadata(&one, &ada), &from_ada).unwrap()), "a1");
    assert_eq!(text(&ada.open(&relay_metadata(&two, &hotel), &from_hotel).unwrap()), "h1");
    for round in 2..30 {
        let (one, two) = (text_message(&format!("a{round}"), "x"), text_message(&format!("h{round}"), "y"));
        let (from_ada, from_hotel) = (ada.seal(&one, &mut hotel).unwrap(), hotel.seal(&two, &mut ada).unwrap());
        hotel.open(&relay_metadata(&one, &ada), &from_ada).unwrap();
        ada.open(&relay_metadata(&two, &hotel), &from_hotel).unwrap();
    }
    assert_eq!((ada.keys.len(), hotel.keys.len()), (50, 50), "no further sessions were begun");
}

#[test]
fn fallback_key_is_used_when_one_time_keys_are_exhausted() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    hotel.keys.retain(|key| key.fallback);
    assert_eq!(hotel.keys.len(), 1);
    send_text(&mut ada, &mut hotel, "m1").unwrap();
    let mut bob = TestIdentity::new(person("bob"), "phone", SealMode::Stateful);
    bob.review_keys(&hotel);
    hotel.review_keys(&bob);
    send_text(&mut bob, &mut hotel, "m2").unwrap();
    assert_eq!(hotel.keys.len(), 1, "it stays");
    // After a week the fallback key is replaced, and the old one still opens messages in transit.
    let late = text_message("m3", "late");
    ada.seal_identity.rekey(&agent("hotel"), &device("main")).unwrap();
    let envelope = ada.seal(&late, &mut hotel).unwrap();
    let week = 7 * 24 * 60 * 60 * 1000;
    assert_eq!(hotel.seal_identity.one_time_keys(50, at(week - 1)).unwrap(), []);
    let fresh = hotel.seal_identity.one_time_keys(50, at(week)).unwrap();
    assert!(fresh.len() == 1 && fresh[0].fallback && fresh[0] != hotel.keys[0]);
    assert_eq!(text(&hotel.open(&relay_metadata(&late, &ada), &envelope).unwrap()), "late");
}

#[test]
fn one_time_keys_are_refilled_to_50_and_signed() {
    let mut hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    assert_eq!(hotel.keys.iter().filter(|key| !key.fallback).count(), 50);
    let more = hotel.seal_identity.one_time_keys(47, at(1)).unwrap();
    assert_eq!((more.len(), more.iter().filter(|key| key.fallback).count()), (4, 1));
    let names: HashSet<_> = hotel.keys.iter().chain(&more).map(|key| key.key_id.clone()).collect();
    assert_eq!(names.len(), 54, "all keys have different ids");
    assert!(hotel.seal_identity.one_time_keys(50, at(2)).unwrap().is_empty());
    let signer = hotel.seal_identity.signing_key();
    let holds = |key: &nuncio_core::bundle::OneTimeKey, name: &str| {
        key.holds(&device(name), &signer, &nuncio_identity::ledger::DeviceSignatureVerifier)
    };
    assert!(more.iter().all(|key| holds(key, "main") && !holds(key, "other")));
}

#[test]
fn lost_session_is_replaced_by_rekey() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "a1").unwrap();
    send_text(&mut hotel, &mut ada, "h1").unwrap();
    // The agent restarts with the same keys and no sessions.
    hotel.seal_identity.rekey(&person("ada"), &device("phone")).unwrap();
    let lost = text_message("a2", "lost");
    let envelope = ada.seal(&lost, &mut hotel).unwrap();
    let unread = hotel.open(&relay_metadata(&lost, &ada), &envelope);
    assert_eq!(unread, Err(OpenError::SessionLost { device: device("phone") }));
    let again = PlaintextMessage::rekey(lost.conversation.clone(), lost.conversation_type, client_id("h2"), at(0));
    let envelope = hotel.seal(&again, &mut ada).unwrap();
    assert!(ada.open(&relay_metadata(&again, &hotel), &envelope).unwrap().rekeyed);
    // The lost message is sealed again, under the same id.
    let envelope = ada.seal(&lost, &mut hotel).unwrap();
    assert_eq!(text(&hotel.open(&relay_metadata(&lost, &ada), &envelope).unwrap()), "lost");
    send_text(&mut hotel, &mut ada, "h3").unwrap();
}

#[test]
fn seal_identity_continues_after_reload_from_store() {
    let (disk_a, disk_h) = (Arc::new(MemoryKeyStore::new()), Arc::new(MemoryKeyStore::new()));
    let mut ada = TestIdentity::on(disk_a.clone(), person("ada"), "phone", SealMode::Stateful);
    let mut hotel = TestIdentity::on(disk_h.clone(), agent("hotel"), "main", SealMode::Stateful);
    ada.review_keys(&hotel);
    hotel.review_keys(&ada);
    for round in 0..6 {
        send_text(&mut ada, &mut hotel, &format!("a{round}")).unwrap();
        let before = (ada.bundle(), hotel.bundle());
        ada.seal_identity = SealIdentity::load(disk_a.clone()).unwrap().unwrap();
        hotel.seal_identity = SealIdentity::load(disk_h.clone()).unwrap().unwrap();
        assert_eq!((ada.bundle(), hotel.bundle()), before);
        send_text(&mut hotel, &mut ada, &format!("h{round}")).unwrap();
    }
    assert!(SealIdentity::load(Arc::new(MemoryKeyStore::new())).unwrap().is_none());
}

#[test]
fn stored_records_and_debug_output_reveal_no_secrets() {
    let disk = Arc::new(MemoryKeyStore::new());
    let mut ada = TestIdentity::on(disk.clone(), person("ada"), "phone", SealMode::Stateful);
    let mut hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    ada.review_keys(&hotel);
    hotel.review_keys(&ada);
    let plaintext = text_message("m1", "a secret word");
    let envelope = ada.seal(&plaintext, &mut hotel).unwrap();
    assert!(!String::from_utf8(envelope).unwrap().contains("secret"));
    use nuncio_identity::seal::KeyStore as _;
    for name in disk.names("").unwrap() {
        let record = disk.load(&name).unwrap().unwrap();
        let shown = String::from_utf8_lossy(&record).into_owned();
        let words = ["pickle", "signing", "bundle", "names", "phone"];
        assert!(words.iter().all(|word| !shown.contains(word)), "{name} is sealed");
    }
    let shown = format!("{:?}", ada.seal_identity);
    assert!(!shown.contains("hpke: [") && !shown.contains("signing: ["), "{shown}");
}

#[test]
fn identity_without_device_id_cannot_seal_until_enrolment() {
    let keep = Arc::new(MemoryKeyStore::new());
    let new = nuncio_identity::seal::NewSealIdentity { named: None, mode: SealMode::Stateful, now: at(0) };
    let mut seal_identity = SealIdentity::create(keep.clone(), &new).unwrap();
    let key = seal_identity.signing_key();
    assert!(seal_identity.bundle().is_none() && seal_identity.one_time_keys(0, at(0)).is_err());
    let hotel = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    let bundle = hotel.bundle();
    let to = [RecipientDevice { bundle: &bundle, one_time_key: None }];
    assert_eq!(seal_identity.seal(&text_message("m", "x"), &to), Err(SealError::Unnamed));
    seal_identity.set_owner_device(person("ada"), device("dev_9"), at(1)).unwrap();
    let seal_identity = SealIdentity::load(keep.clone()).unwrap().unwrap();
    assert_eq!(seal_identity.owner_device().unwrap(), (&person("ada"), &device("dev_9")));
    assert_eq!(seal_identity.bundle().unwrap().keys.signing_key, key);
    assert!(SealIdentity::create(keep, &new).is_err(), "stored keys are not overwritten");
}

#[test]
fn seal_identity_can_move_to_another_thread() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let plaintext = text_message("m1", "from there");
    let (ada, envelope) = std::thread::scope(|scope| {
        let sealing = scope.spawn(|| {
            let envelope = ada.seal(&plaintext, &mut hotel).unwrap();
            (ada, envelope)
        });
        sealing.join().unwrap()
    });
    assert_eq!(text(&hotel.open(&relay_metadata(&plaintext, &ada), &envelope).unwrap()), "from there");
}

#[test]
fn ciphertext_length_shows_only_the_padded_length() {
    let (mut ada, mut hotel) = pair(SealMode::Stateless);
    for length in [1, 100, 200, 230, 1000, 1010] {
        let plaintext = text_message(&format!("m{length}"), &"x".repeat(length));
        let plain = plaintext.payload.to_string().len();
        let envelope = parse(&ada.seal(&plaintext, &mut hotel).unwrap());
        let sealed = envelope["body"]["ct"].as_str().unwrap().len() * 3 / 4;
        assert_eq!(sealed, padded_len(plain) + 16, "{length}");
    }
    let large = text_message("large", &"x".repeat(600 * 1024));
    assert_eq!(ada.seal(&large, &mut hotel), Err(SealError::TooLarge));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Delayed messages open too, within the limit of skipped ratchet keys.
    #[test]
    fn messages_are_opened_once_in_any_delivery_order(
        sends in proptest::collection::vec(any::<bool>(), 1..24),
        order in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..80),
        stateful in any::<bool>(),
    ) {
        let mode = if stateful { SealMode::Stateful } else { SealMode::Stateless };
        let (mut ada, mut hotel) = pair(mode);
        let mut sends = sends.into_iter().enumerate();
        let mut sent: Vec<(bool, PlaintextMessage, Vec<u8>)> = Vec::new();
        let mut opened = HashSet::new();
        for (choice, send) in order {
            if (send || sent.is_empty()) && let Some((number, by_ada)) = sends.next() {
                let plaintext = text_message(&format!("m{number}"), &number.to_string());
                let envelope = if by_ada { ada.seal(&plaintext, &mut hotel) } else { hotel.seal(&plaintext, &mut ada) };
                sent.push((by_ada, plaintext, envelope.unwrap()));
                continue;
            }
            let place = choice.index(sent.len());
            let (by_ada, plaintext, envelope) = &sent[place];
            let relay = relay_metadata(plaintext, if *by_ada { &ada } else { &hotel });
            let outcome = if *by_ada { hotel.open(&relay, envelope) } else { ada.open(&relay, envelope) };
            if opened.insert(place) {
                let outcome = outcome.unwrap();
                prop_assert_eq!(&outcome.payload, &plaintext.payload);
            } else {
                prop_assert_eq!(outcome, Err(OpenError::Replayed));
            }
        }
        // Messages that were never delivered are delivered now.
        for (place, (by_ada, plaintext, envelope)) in sent.iter().enumerate() {
            let relay = relay_metadata(plaintext, if *by_ada { &ada } else { &hotel });
            let outcome = if *by_ada { hotel.open(&relay, envelope) } else { ada.open(&relay, envelope) };
            prop_assert_eq!(outcome.is_ok(), !opened.contains(&place));
        }
    }
}
