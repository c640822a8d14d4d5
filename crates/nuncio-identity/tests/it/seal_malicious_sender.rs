//! A sender with valid keys and a malicious program, which signs invalid envelopes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{Deserializable as _, OpModeS, Serializable as _};
use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::ConversationType;
use nuncio_core::digest::canonical;
use nuncio_identity::jcs::sha256;
use nuncio_identity::seal::{OpenError, PlaintextMessage};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::{Value, json};

use crate::seal_fixtures::{TestIdentity, call, pair, parse, relay_metadata, send_text, text, text_message};

/// Random generator that returns a constant, sufficient for tests.
struct ConstantRng(u8);

impl TryRng for ConstantRng {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0.into())
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.into())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        bytes.fill(self.0);
        Ok(())
    }
}

impl TryCryptoRng for ConstantRng {}

fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The parts of an envelope before it is signed.
struct EnvelopeParts {
    header: Value,
    text: Vec<u8>,
    /// Hash to wrap with the content key instead of the header's hash.
    hash: Option<[u8; 32]>,
    /// Key to wrap instead of the content key that encrypted the body.
    key: Option<[u8; 32]>,
    doubled: bool,
}

/// Seals to a device with HPKE and signs the result.
fn make(parts: &EnvelopeParts, from: &TestIdentity, to: &TestIdentity) -> Vec<u8> {
    let header = canonical(&parts.header);
    let hash = sha256(&header);
    let key = [7; 32];
    let mut ct = u32::try_from(parts.text.len()).unwrap().to_be_bytes().to_vec();
    ct.extend_from_slice(&parts.text);
    ct.resize(nuncio_identity::seal::padded_len(parts.text.len()), 0);
    let aad = [b"a2h/body/v1".as_slice(), &hash].concat();
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap())
        .seal_in_place_append_tag(Nonce::assume_unique_for_key([0; 12]), Aad::from(aad), &mut ct)
        .unwrap();
    let body = json!({"ct": b64(&ct), "nonce": b64(&[0; 12])});
    let keys = to.bundle().keys;
    let public = <X25519HkdfSha256 as hpke::Kem>::PublicKey::from_bytes(keys.hpke_key.as_bytes()).unwrap();
    let content = [parts.key.unwrap_or(key), parts.hash.unwrap_or(hash)].concat();
    let (enc, wrapped) = hpke::single_shot_seal_with_rng::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
        &OpModeS::Base,
        &public,
        b"a2h/cek/v1",
        &content,
        &hash,
        &mut ConstantRng(9),
    )
    .unwrap();
    let entry = json!({
        "device_id": keys.device_id, "alg": "hpke-x25519-hkdfsha256-aes256gcm",
        "kid": b64(&sha256(keys.hpke_key.as_bytes())), "enc": b64(&enc.to_bytes()), "ct": b64(&wrapped),
    });
    let entries = if parts.doubled { json!([entry, entry]) } else { json!([entry]) };
    sign(&parts.header, &body, &entries, from)
}

fn sign(header: &Value, body: &Value, to: &Value, from: &TestIdentity) -> Vec<u8> {
    let hashes = [header, body, to].map(|part| sha256(&canonical(part)));
    let input = [b"a2h/sig/v1".as_slice(), &hashes.concat()].concat();
    let signature = from.seal_identity.sign(&input);
    canonical(&json!({"hdr": header, "body": body, "to": to, "sig": signature}))
}

fn header(plaintext: &PlaintextMessage, from: &TestIdentity) -> Value {
    let mut header = json!({
        "v": "a2h-envelope-v1", "conversation_id": plaintext.conversation, "conversation_type": plaintext.conversation_type,
        "sender_id": from.owner().id(), "sender_type": from.owner().sender_type(), "sender_device_id": from.device(),
        "client_message_id": plaintext.client_id, "content_type": plaintext.content_type, "created_at": plaintext.created_at,
    });
    if let Some(subtype) = plaintext.subtype {
        header["msg_subtype"] = json!(subtype);
    }
    header
}

fn parts(plaintext: &PlaintextMessage, from: &TestIdentity) -> EnvelopeParts {
    let text = plaintext.payload.to_string().into_bytes();
    EnvelopeParts { header: header(plaintext, from), text, hash: None, key: None, doubled: false }
}

#[test]
fn inconsistent_envelope_signed_by_the_sender_is_refused() {
    let (mut ada, hotel) = pair(SealMode::Stateless);
    let plaintext = text_message("m1", "x");
    let good = || parts(&plaintext, &hotel);
    let deep = format!(r#"{{"type":"text","text":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    for (parts, error) in [
        (EnvelopeParts { hash: Some([0; 32]), ..good() }, Some(OpenError::Tampered)),
        (EnvelopeParts { key: Some([0; 32]), ..good() }, Some(OpenError::Tampered)),
        (EnvelopeParts { doubled: true, ..good() }, None),
        (EnvelopeParts { text: b"not JSON".to_vec(), ..good() }, None),
        (EnvelopeParts { text: br#"{"type":"text","type":"text"}"#.to_vec(), ..good() }, None),
        (EnvelopeParts { text: deep.into_bytes(), ..good() }, None),
    ] {
        let outcome = ada.open(&relay_metadata(&plaintext, &hotel), &make(&parts, &hotel, &ada)).unwrap_err();
        match error {
            Some(error) => assert_eq!(outcome, error),
            None => assert!(matches!(outcome, OpenError::Malformed(_)), "{outcome:?}"),
        }
    }
    let envelope = make(&good(), &hotel, &ada);
    assert_eq!(
        text(&ada.open(&relay_metadata(&plaintext, &hotel), &envelope).unwrap()),
        "x",
        "the unchanged sender is accepted"
    );
}

#[test]
fn payload_that_contradicts_its_signed_header_is_refused() {
    let (mut ada, hotel) = pair(SealMode::Stateless);
    let (plaintext, call) = (text_message("m1", "x"), call("m1"));
    for (outside, inside) in [
        // A call labelled as text or as another artifact, and text labelled as a call.
        (plaintext.clone(), call.payload.to_string()),
        (plaintext.clone(), r#"{"type":"text","artifact":{"subtype":"tool_call"}}"#.to_owned()),
        (PlaintextMessage { subtype: None, ..call.clone() }, call.payload.to_string()),
        (call.clone(), r#"{"type":"artifact","artifact":{"subtype":"form"}}"#.to_owned()),
        (call.clone(), plaintext.payload.to_string()),
    ] {
        let parts = EnvelopeParts { text: inside.into_bytes(), ..parts(&outside, &hotel) };
        let outcome = ada.open(&relay_metadata(&outside, &hotel), &make(&parts, &hotel, &ada));
        assert!(matches!(outcome, Err(OpenError::Mismatched(_))), "{outcome:?}");
    }
}

#[test]
fn hpke_is_refused_where_both_sides_support_sessions() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "before").unwrap();
    let plaintext = text_message("m1", "x");
    let weak = make(&parts(&plaintext, &hotel), &hotel, &ada);
    assert_eq!(ada.open(&relay_metadata(&plaintext, &hotel), &weak), Err(OpenError::Downgraded));
    // A session message where only HPKE is allowed: in a group.
    let group = PlaintextMessage { conversation_type: ConversationType::Group, ..text_message("m2", "x") };
    let in_session = parse(&hotel.seal(&text_message("m2", "x"), &mut ada).unwrap());
    let forged = sign(&header(&group, &hotel), &in_session["body"], &in_session["to"], &hotel);
    assert_eq!(ada.open(&relay_metadata(&group, &hotel), &forged), Err(OpenError::WrongWrap));
    // The content key of one message in the envelope of another.
    let stolen = sign(&header(&text_message("m3", "x"), &hotel), &in_session["body"], &in_session["to"], &hotel);
    assert_eq!(ada.open(&relay_metadata(&text_message("m3", "x"), &hotel), &stolen), Err(OpenError::Tampered));
    // The refused envelopes consumed no key.
    let envelope = canonical(&in_session);
    assert_eq!(text(&ada.open(&relay_metadata(&text_message("m2", "x"), &hotel), &envelope).unwrap()), "x");
}

#[test]
fn undecryptable_session_message_reports_a_lost_session() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "before").unwrap();
    let plaintext = text_message("m1", "x");
    let mut forged = parse(&hotel.seal(&plaintext, &mut ada).unwrap());
    for (kind, ct) in [(1, "AAAA"), (0, "AAAA"), (0, ""), (1, forged["to"][0]["ct"].clone().as_str().unwrap())] {
        let mut to = forged["to"].clone();
        to[0]["type"] = json!(kind);
        to[0]["ct"] = json!(ct);
        if kind == 1 && ct != "AAAA" {
            // The right message with its last byte changed.
            let other = if ct.ends_with('A') { "Q" } else { "A" };
            to[0]["ct"] = json!(format!("{}{other}", &ct[..ct.len() - 1]));
        }
        let envelope = sign(&forged["hdr"], &forged["body"], &to, &hotel);
        let outcome = ada.open(&relay_metadata(&plaintext, &hotel), &envelope);
        let lost = matches!(outcome, Err(OpenError::SessionLost { .. } | OpenError::Malformed(_)));
        assert!(lost, "{outcome:?} {kind} {ct}");
    }
    let envelope = canonical(&forged.take());
    assert_eq!(text(&ada.open(&relay_metadata(&plaintext, &hotel), &envelope).unwrap()), "x");
}
