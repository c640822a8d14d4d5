//! Attacks by a malicious relay.

use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::{ContentType, ConversationType, MsgSubtype};
use nuncio_core::digest::canonical;
use nuncio_core::ids::ConversationId;
use nuncio_identity::seal::{OpenError, PlaintextMessage, RecipientDevice, RelayMetadata, SealError};
use serde_json::{Value, json};

use crate::seal_fixtures::{
    TestIdentity, agent, at, call, client_id, device, pair, parse, person, relay_metadata, send_text, text,
    text_message,
};

const MODES: [SealMode; 2] = [SealMode::Stateful, SealMode::Stateless];

/// Two identities with a session, and an unopened envelope from the agent to the person.
fn unopened_envelope(
    mode: SealMode,
    plaintext: &PlaintextMessage,
) -> (TestIdentity, TestIdentity, RelayMetadata, Vec<u8>) {
    let (mut ada, mut hotel) = pair(mode);
    send_text(&mut ada, &mut hotel, "before").unwrap();
    let envelope = hotel.seal(plaintext, &mut ada).unwrap();
    let relay = relay_metadata(plaintext, &hotel);
    (ada, hotel, relay, envelope)
}

/// Opens a manipulated envelope, which must fail, then the original: the failed attempt changed nothing.
fn refused(
    mode: SealMode,
    plaintext: &PlaintextMessage,
    change: impl FnOnce(&mut RelayMetadata, &mut Value),
) -> OpenError {
    let (mut ada, _, relay, envelope) = unopened_envelope(mode, plaintext);
    let (mut lie, mut forged) = (relay.clone(), parse(&envelope));
    change(&mut lie, &mut forged);
    let error = ada.open(&lie, forged.to_string().as_bytes()).unwrap_err();
    assert_eq!(ada.open(&relay, &envelope).unwrap().payload, plaintext.payload, "{error}");
    error
}

#[test]
fn relay_metadata_that_differs_from_the_header_is_refused() {
    type MetadataForgery = fn(&mut RelayMetadata);
    let lies: [(&str, MetadataForgery); 8] = [
        ("conversation_id", |relay| relay.conversation = ConversationId::parse("conv_2").unwrap()),
        ("conversation_type", |relay| relay.conversation_type = ConversationType::Group),
        ("sender_type", |relay| relay.sender = person("hotel")),
        ("sender_id", |relay| relay.sender = agent("taxi")),
        ("sender_device_id", |relay| relay.sender_device = Some(device("other"))),
        ("client_message_id", |relay| relay.client_id = client_id("m2")),
        ("content_type", |relay| relay.content_type = ContentType::Text),
        ("msg_subtype", |relay| relay.subtype = None),
    ];
    for mode in MODES {
        for (field, lie) in lies {
            let error = refused(mode, &call("m1"), |relay, _| lie(relay));
            assert_eq!(error, OpenError::Mislabelled { field });
        }
    }
}

#[test]
fn header_changed_together_with_relay_metadata_fails_the_signature() {
    for mode in MODES {
        for (field, value) in [
            ("conversation_id", json!("conv_2")),
            ("conversation_type", json!("group")),
            ("client_message_id", json!("m2")),
            ("content_type", json!("text")),
            ("msg_subtype", json!("artifact_response")),
            ("created_at", json!("2026-11-15T11:00:00.001Z")),
            ("in_reply_to", json!("msg_1")),
        ] {
            let error = refused(mode, &call("m1"), |relay, envelope| {
                envelope["hdr"][field] = value.clone();
                envelope["hdr"] = serde_json::from_slice(&canonical(&envelope["hdr"])).unwrap();
                relay.conversation =
                    ConversationId::parse(envelope["hdr"]["conversation_id"].as_str().unwrap()).unwrap();
                relay.conversation_type = serde_json::from_value(envelope["hdr"]["conversation_type"].clone()).unwrap();
                relay.client_id = client_id(envelope["hdr"]["client_message_id"].as_str().unwrap());
                relay.content_type = serde_json::from_value(envelope["hdr"]["content_type"].clone()).unwrap();
                relay.subtype = serde_json::from_value(envelope["hdr"]["msg_subtype"].clone()).unwrap();
            });
            assert_eq!(error, OpenError::BadSignature, "{field}");
        }
    }
}

#[test]
fn change_in_any_envelope_part_fails_the_signature() {
    for mode in MODES {
        for place in ["/body/ct", "/body/nonce", "/to/0/ct", "/sig"] {
            let error = refused(mode, &text_message("m1", "x"), |_, envelope| {
                let part = envelope.pointer_mut(place).unwrap();
                let other = part.as_str().unwrap();
                let first = if other.starts_with('A') { "B" } else { "A" };
                *part = json!(format!("{first}{}", &other[1..]));
            });
            assert_eq!(error, OpenError::BadSignature, "{place}");
        }
        let moved =
            refused(mode, &text_message("m1", "x"), |_, envelope| envelope["to"][0]["device_id"] = json!("laptop"));
        assert_eq!(moved, OpenError::BadSignature);
    }
    for place in ["/to/0/enc", "/to/0/kid"] {
        let error = refused(SealMode::Stateless, &text_message("m1", "x"), |_, envelope| {
            *envelope.pointer_mut(place).unwrap() = json!("A".repeat(43));
        });
        assert_eq!(error, OpenError::BadSignature, "{place}");
    }
}

#[test]
fn removed_added_or_duplicated_key_entries_fail_the_signature() {
    for mode in MODES {
        let change = |change: fn(&mut Vec<Value>)| {
            refused(mode, &text_message("m1", "x"), |_, envelope| change(envelope["to"].as_array_mut().unwrap()))
        };
        assert_eq!(change(Vec::clear), OpenError::BadSignature);
        assert_eq!(change(|to| to.push(to[0].clone())), OpenError::BadSignature);
        let added = change(|to| {
            let mut other = to[0].clone();
            other["device_id"] = json!("spy");
            to.push(other);
        });
        assert_eq!(added, OpenError::BadSignature);
    }
}

#[test]
fn mixed_parts_of_two_envelopes_fail_the_signature() {
    for mode in MODES {
        for parts in [vec!["hdr"], vec!["body"], vec!["to"], vec!["sig"], vec!["body", "to"], vec!["hdr", "sig"]] {
            let (mut ada, mut hotel, relay, envelope) = unopened_envelope(mode, &text_message("m1", "one"));
            let other = text_message("m1", "two");
            let other = parse(&hotel.seal(&other, &mut ada).unwrap());
            let mut mixed = parse(&envelope);
            for part in &parts {
                mixed[*part] = other[*part].clone();
            }
            // The two headers are equal, so exchanging only the header changes nothing.
            let outcome = ada.open(&relay, mixed.to_string().as_bytes());
            match parts.as_slice() {
                ["hdr"] => assert_eq!(text(&outcome.unwrap()), "one"),
                _ => assert_eq!(outcome, Err(OpenError::BadSignature), "{parts:?}"),
            }
        }
    }
}

#[test]
fn truncated_or_malformed_envelope_is_refused() {
    for mode in MODES {
        let (mut ada, _, relay, envelope) = unopened_envelope(mode, &text_message("m1", "x"));
        for length in 0..envelope.len() {
            assert!(matches!(ada.open(&relay, &envelope[..length]), Err(OpenError::Malformed(_))), "{length}");
        }
        let whole = parse(&envelope);
        let with = |change: &dyn Fn(&mut Value)| {
            let mut other = whole.clone();
            change(&mut other);
            other.to_string()
        };
        for bad in [
            with(&|whole| whole["more"] = json!(1)),
            with(&|whole| whole["hdr"]["more"] = json!(1)),
            with(&|whole| whole["hdr"]["v"] = json!("a2h-envelope-v2")),
            with(&|whole| whole["hdr"]["created_at"] = json!("2026-11-15T11:00:00Z")),
            with(&|whole| whole["hdr"]["in_reply_to"] = json!(null)),
            with(&|whole| whole["hdr"]["sender_device_id"] = json!("../x")),
            with(&|whole| whole["body"]["nonce"] = json!("AAAA")),
            with(&|whole| whole["body"]["ct"] = json!("!")),
            with(&|whole| whole["sig"] = json!("AAAA")),
            with(&|whole| whole["to"][0]["alg"] = json!("none")),
            with(&|whole| whole["to"][0]["ct"] = json!("A".repeat(4000))),
            with(&|whole| whole["to"] = json!(vec![whole["to"][0].clone(); 2049])),
            // A header with a space, which is not canonical.
            String::from_utf8(envelope.clone()).unwrap().replace("\"hdr\":{", "\"hdr\":{ "),
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
            format!("{{\"sig\":\"x\",{}", &String::from_utf8(envelope.clone()).unwrap()[1..]),
            " ".repeat(600 * 1024),
        ] {
            let outcome = ada.open(&relay, bad.as_bytes());
            let shown = bad.chars().take(200).collect::<String>();
            assert!(matches!(outcome, Err(OpenError::Malformed(_))), "{outcome:?} {shown}");
        }
        // The rest of the envelope may have any JSON formatting.
        let spaced = serde_json::to_string_pretty(&whole).unwrap();
        let compact = whole["hdr"].to_string();
        let start = spaced.find("\"hdr\": {").unwrap() + 7;
        let end = start + spaced[start..].find('}').unwrap() + 1;
        let spaced = format!("{}{compact}{}", &spaced[..start], &spaced[end..]);
        assert_eq!(text(&ada.open(&relay, spaced.as_bytes()).unwrap()), "x");
    }
}

#[test]
fn envelope_with_any_flipped_bit_is_refused() {
    for mode in MODES {
        let (mut ada, _, relay, envelope) = unopened_envelope(mode, &call("m1"));
        for place in 0..envelope.len() * 8 {
            let mut changed = envelope.clone();
            changed[place / 8] ^= 1 << (place % 8);
            let outcome = ada.open(&relay, &changed);
            assert!(outcome.is_err(), "{place} {outcome:?}");
        }
        ada.open(&relay, &envelope).unwrap();
    }
}

#[test]
fn replayed_envelope_is_refused_under_any_message_id() {
    for mode in MODES {
        let (mut ada, mut hotel, relay, envelope) = unopened_envelope(mode, &text_message("m1", "x"));
        ada.open(&relay, &envelope).unwrap();
        assert_eq!(ada.open(&relay, &envelope), Err(OpenError::Replayed));
        let renamed = RelayMetadata { client_id: client_id("m2"), ..relay.clone() };
        assert_eq!(ada.open(&renamed, &envelope), Err(OpenError::Mislabelled { field: "client_message_id" }));
        // The same message id again, sealed anew by the sender itself.
        let twice = hotel.seal(&text_message("m1", "y"), &mut ada).unwrap();
        assert_eq!(ada.open(&relay, &twice), Err(OpenError::Replayed));
    }
}

#[test]
fn envelope_older_than_the_replay_record_or_from_the_future_is_refused() {
    let (mut ada, mut hotel) = pair(SealMode::Stateless);
    let early = text_message("early", "x");
    let kept_back = hotel.seal(&early, &mut ada).unwrap();
    for number in 0..600 {
        let plaintext = PlaintextMessage { created_at: at(1 + number), ..text_message(&format!("m{number}"), "x") };
        let envelope = hotel.seal(&plaintext, &mut ada).unwrap();
        ada.open(&relay_metadata(&plaintext, &hotel), &envelope).unwrap();
    }
    assert_eq!(ada.open(&relay_metadata(&early, &hotel), &kept_back), Err(OpenError::Replayed));
    let day = 24 * 60 * 60 * 1000;
    for (after, taken) in [(day + 1000, true), (day + 1001, false)] {
        let plaintext = PlaintextMessage { created_at: at(after), ..text_message(&format!("t{after}"), "x") };
        let envelope = hotel.seal(&plaintext, &mut ada).unwrap();
        let outcome = ada.open(&relay_metadata(&plaintext, &hotel), &envelope);
        assert_eq!(outcome.is_ok(), taken, "{outcome:?}");
        assert!(taken || outcome == Err(OpenError::FromTheFuture));
    }
}

#[test]
fn sealing_refuses_swapped_bundles_and_one_time_keys() {
    let (mut ada, hotel) = pair(SealMode::Stateful);
    let mut spy = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    let key = spy.keys.pop_front().unwrap();
    let named = vec![(agent("hotel"), device("main"))];
    let (theirs, ours) = (spy.bundle(), hotel.bundle());
    let swapped = ada
        .seal_identity
        .seal(&text_message("m1", "x"), &[RecipientDevice { bundle: &theirs, one_time_key: Some(&key) }]);
    assert_eq!(swapped, Err(SealError::Untrusted(named.clone())));
    // The pinned device with other encryption keys.
    let mut changed = ours.clone();
    changed.keys.hpke_key = theirs.keys.hpke_key;
    changed.keys.olm_key = theirs.keys.olm_key;
    let swapped = ada
        .seal_identity
        .seal(&text_message("m1", "x"), &[RecipientDevice { bundle: &changed, one_time_key: Some(&key) }]);
    assert_eq!(swapped, Err(SealError::Untrusted(named.clone())));
    // A one-time key of another device, and none.
    let swapped = ada
        .seal_identity
        .seal(&text_message("m1", "x"), &[RecipientDevice { bundle: &ours, one_time_key: Some(&key) }]);
    assert_eq!(swapped, Err(SealError::BadOneTimeKey(device("main"))));
    let none =
        ada.seal_identity.seal(&text_message("m1", "x"), &[RecipientDevice { bundle: &ours, one_time_key: None }]);
    assert_eq!(none, Err(SealError::NeedsOneTimeKey(named)));
    assert_eq!(ada.seal_identity.seal(&text_message("m1", "x"), &[]), Err(SealError::Nobody));
    // The device's own one-time key under another id, and its fallback key presented as a one-time key.
    let mut renamed = hotel.keys[0].clone();
    renamed.key_id.push('x');
    let mut fallback = hotel.keys.back().unwrap().clone();
    fallback.fallback = false;
    for forged in [renamed, fallback] {
        let swapped = ada
            .seal_identity
            .seal(&text_message("m1", "x"), &[RecipientDevice { bundle: &ours, one_time_key: Some(&forged) }]);
        assert_eq!(swapped, Err(SealError::BadOneTimeKey(device("main"))));
    }
}

#[test]
fn message_with_a_reused_one_time_key_is_readable_after_a_rekey() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let mut bob = TestIdentity::new(person("bob"), "phone", SealMode::Stateful);
    bob.review_keys(&hotel);
    hotel.review_keys(&bob);
    let (key, bundle) = (hotel.keys.pop_front().unwrap(), hotel.bundle());
    let to = [RecipientDevice { bundle: &bundle, one_time_key: Some(&key) }];
    let (one, two) = (text_message("a1", "x"), text_message("b1", "y"));
    let (from_ada, from_bob) = (ada.seal_identity.seal(&one, &to).unwrap(), bob.seal_identity.seal(&two, &to).unwrap());
    hotel.open(&relay_metadata(&one, &ada), &from_ada).unwrap();
    let lost = hotel.open(&relay_metadata(&two, &bob), &from_bob);
    assert_eq!(lost, Err(OpenError::SessionLost { device: device("phone") }));
    hotel.seal_identity.rekey(&person("bob"), &device("phone")).unwrap();
    let again = PlaintextMessage::rekey(two.conversation.clone(), two.conversation_type, client_id("h1"), at(0));
    let envelope = hotel.seal(&again, &mut bob).unwrap();
    assert!(bob.open(&relay_metadata(&again, &hotel), &envelope).unwrap().rekeyed);
    let envelope = bob.seal(&two, &mut hotel).unwrap();
    assert_eq!(text(&hotel.open(&relay_metadata(&two, &bob), &envelope).unwrap()), "y");
    // The session with Ada was not affected.
    send_text(&mut ada, &mut hotel, "a2").unwrap();
}

#[test]
fn envelope_of_unknown_sender_or_for_another_device_is_refused() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let mut spy = TestIdentity::new(agent("hotel"), "main", SealMode::Stateful);
    spy.review_keys(&ada);
    let plaintext = text_message("m1", "trust me");
    let forged = spy.seal(&plaintext, &mut ada).unwrap();
    assert_eq!(ada.open(&relay_metadata(&plaintext, &spy), &forged), Err(OpenError::BadSignature));
    let mut taxi = TestIdentity::new(agent("taxi"), "main", SealMode::Stateful);
    taxi.review_keys(&ada);
    let unknown = taxi.seal(&plaintext, &mut ada).unwrap();
    let outcome = ada.open(&relay_metadata(&plaintext, &taxi), &unknown);
    assert_eq!(outcome, Err(OpenError::UnknownSender { owner: agent("taxi"), device: device("main") }));
    // The envelope opens after the sender's keys were reviewed.
    ada.review_keys(&taxi);
    assert_eq!(text(&ada.open(&relay_metadata(&plaintext, &taxi), &unknown).unwrap()), "trust me");
    // An envelope for another device.
    let mut laptop = TestIdentity::new(person("ada"), "laptop", SealMode::Stateful);
    laptop.review_keys(&hotel);
    let envelope = hotel.seal(&plaintext, &mut ada).unwrap();
    assert_eq!(laptop.open(&relay_metadata(&plaintext, &hotel), &envelope), Err(OpenError::NotForUs));
}

#[test]
fn relay_cannot_downgrade_a_session_to_hpke() {
    // A stateless impostor with the agent's name, which has another signing key.
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "before").unwrap();
    let plaintext = text_message("m1", "x");
    let group = PlaintextMessage { conversation_type: ConversationType::Group, ..plaintext.clone() };
    let mut weak = TestIdentity::new(agent("hotel"), "main", SealMode::Stateless);
    weak.review_keys(&ada);
    let envelope = weak.seal(&plaintext, &mut ada).unwrap();
    assert_eq!(ada.open(&relay_metadata(&plaintext, &weak), &envelope), Err(OpenError::BadSignature), "another key");
    // A group message: the signed header names the conversation type, and the relay cannot claim another one.
    let envelope = hotel.seal(&group, &mut ada).unwrap();
    let outcome = ada.open(&relay_metadata(&plaintext, &hotel), &envelope);
    assert_eq!(outcome, Err(OpenError::Mislabelled { field: "conversation_type" }));
    assert_eq!(ada.open(&relay_metadata(&group, &hotel), &envelope).unwrap().mode, SealMode::Stateless);
}

#[test]
fn sealing_refuses_payload_that_contradicts_its_subtype() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    let disguised = PlaintextMessage { subtype: None, ..call("m1") };
    assert!(matches!(hotel.seal(&disguised, &mut ada), Err(SealError::Mismatched(_))));
    let answer = PlaintextMessage { subtype: Some(MsgSubtype::ArtifactResponse), ..call("m1") };
    assert!(matches!(hotel.seal(&answer, &mut ada), Err(SealError::Mismatched(_))));
    assert!(matches!(ada.seal(&call("m1"), &mut hotel), Err(SealError::Mismatched(_))), "people do not send calls");
}

#[test]
fn skipped_messages_beyond_the_limit_do_not_break_the_session() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "first").unwrap();
    send_text(&mut hotel, &mut ada, "second").unwrap();
    let plaintexts: Vec<_> = (0..60).map(|number| text_message(&format!("m{number}"), "x")).collect();
    let sent: Vec<_> = plaintexts.iter().map(|plaintext| ada.seal(plaintext, &mut hotel).unwrap()).collect();
    hotel.open(&relay_metadata(&plaintexts[59], &ada), &sent[59]).unwrap();
    // A ratchet keeps the keys of the last forty skipped messages.
    let outcome = hotel.open(&relay_metadata(&plaintexts[0], &ada), &sent[0]);
    assert_eq!(outcome, Err(OpenError::SessionLost { device: device("phone") }));
    for place in 30..59 {
        hotel.open(&relay_metadata(&plaintexts[place], &ada), &sent[place]).unwrap();
    }
    send_text(&mut hotel, &mut ada, "later").unwrap();
    send_text(&mut ada, &mut hotel, "after").unwrap();
}
