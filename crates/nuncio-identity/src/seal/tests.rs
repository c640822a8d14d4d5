//! Test vectors of `tests/vectors/sealing.json`, computed from fixed keys for other implementers, together with
//! `docs/sealing.md`. `tests/peers/vectors.mjs` computes the same values with other libraries.

use nuncio_core::bundle::{BundleKeys, OneTimeKey, SealMode, WrapAlgorithm};
use nuncio_core::digest::canonical;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::signature::labelled;
use nuncio_core::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::backup::{self, Argon2Params};
use super::envelope::{self, RecipientKeyEntry, WrappedKey};
use super::header::EnvelopeHeader;
use super::secrets::SealPrivateKeys;
use super::{body, hpke, safety_number, sealing, stream};
use crate::encoding::base64url;
use crate::jcs::sha256;

const FILE: &str = include_str!("../../tests/vectors/sealing.json");
/// Environment variable with a file to write the current vectors to, for intended format changes.
const WRITE: &str = "NUNCIO_WRITE_VECTORS";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

fn envelope() -> Value {
    let (sender, recipient) = (SealPrivateKeys::new(&[1; 32], &[2; 32]), SealPrivateKeys::new(&[3; 32], &[4; 32]));
    let (cek, nonce, ikm) = ([5; 32], [6; 12], [7; 32]);
    let header = json!({
        "v": "a2h-envelope-v1", "conversation_id": "conv_1", "conversation_type": "h2a", "sender_id": "hotel",
        "sender_type": "agent", "sender_device_id": "main", "client_message_id": "01JD0000000000000000000000",
        "msg_subtype": "artifact_tool_call", "content_type": "artifact", "created_at": "2026-11-15T11:00:00.007Z",
        "in_reply_to": "msg_1",
    });
    // The published vector has the members in this order.
    let artifact = json!({
        "arguments": {"text": "您的房间准备好了"}, "call_id": "call_1", "permission_scope": "notification:send",
        "subtype": "tool_call", "timeout_ms": 10_000, "tool_name": "notify",
    });
    let payload = json!({"artifact": artifact, "type": "artifact"}).to_string();
    let typed: EnvelopeHeader = serde_json::from_value(header.clone()).unwrap();
    let written = typed.canonical();
    let hash = sha256(&written);
    let mut padded = u32::try_from(payload.len()).unwrap().to_be_bytes().to_vec();
    padded.extend_from_slice(payload.as_bytes());
    padded.resize(body::padded_len(payload.len()), 0);
    let sealed = body::encrypt(&cek, nonce, &hash, payload.as_bytes()).unwrap();
    let content = sealing::content(&cek, &hash);
    let (enc, ct) = hpke::wrap(&recipient.hpke_key(), &hash, &content, ikm).unwrap();
    let to = [RecipientKeyEntry {
        device: device("phone"),
        wrap: WrappedKey::Hpke { kid: hpke::kid(&recipient.hpke_key()), enc, ct },
    }];
    let to_text = envelope::entries_text(&to);
    let body_text = canonical(&json!({"ct": base64url(&sealed.ct), "nonce": base64url(&nonce)}));
    let mut input = Vec::new();
    let whole = envelope::write(&written, &sealed, &to, |signed| {
        input = signed.to_vec();
        sender.sign(signed)
    });
    json!({
        "sender_seed": hex(sender.signing_seed()),
        "sender_key": sender.signing_key(),
        "recipient_device": "phone",
        "recipient_secret": hex(recipient.agreement_secret()),
        "recipient_key": recipient.hpke_key(),
        "cek": hex(&cek),
        "nonce": hex(&nonce),
        "ephemeral_ikm": hex(&ikm),
        "header": header,
        "header_canonical": String::from_utf8(written).unwrap(),
        "header_hash": hex(&hash),
        "payload": payload,
        "padded": hex(&padded),
        "body_aad": hex(&[b"a2h/body/v1".as_slice(), &hash].concat()),
        "body_canonical": String::from_utf8(body_text.clone()).unwrap(),
        "body_hash": hex(&sha256(&body_text)),
        "wrapped": hex(content.as_slice()),
        "wrapped_in_olm": base64url(content.as_slice()),
        "to_canonical": to_text,
        "to_hash": hex(&sha256(to_text.as_bytes())),
        "signature_input": hex(&input),
        "envelope": String::from_utf8(whole.unwrap()).unwrap(),
    })
}

fn signed(secrets: &SealPrivateKeys, label: &str, value: &impl Serialize, message: &[u8]) -> Value {
    assert_eq!(labelled(label, value), message);
    json!({
        "signer": hex(secrets.signing_seed()), "label": label, "value": value,
        "message": String::from_utf8(message.to_vec()).unwrap(), "signature": secrets.sign(message),
    })
}

fn vectors() -> Value {
    let (ada, hotel) = (SealPrivateKeys::new(&[8; 32], &[9; 32]), SealPrivateKeys::new(&[1; 32], &[2; 32]));
    let person = RelayParty::Person(PersonName::parse("ada").unwrap());
    let agent = RelayParty::Agent(AgentId::parse("hotel").unwrap());
    let keys = BundleKeys {
        device_id: device("phone"),
        owner: person.clone(),
        signing_key: ada.signing_key(),
        hpke_key: ada.hpke_key(),
        olm_key: Some(hpke::public(&[10; 32])),
        mode: SealMode::Stateful,
        algs: vec![WrapAlgorithm::Olm, WrapAlgorithm::Hpke],
        seq: 1_794_740_400_000,
        created_at: Timestamp::from_millis(1_794_740_400_000),
    };
    let one_time = (device("phone"), "kAAAAAAAAAAA", hpke::public(&[11; 32]), false);
    let message = OneTimeKey::message(&one_time.0, one_time.1, one_time.2, one_time.3);
    let about = (&keys.owner, &keys.device_id, &keys.signing_key);
    let lengths = [0, 1, 252, 253, 268, 269, 1000, 1020, 1021, 4096, 65_535, 100_000, 393_000];
    let (ours, theirs) =
        ([ada.signing_key(), SealPrivateKeys::new(&[12; 32], &[0; 32]).signing_key()], [hotel.signing_key()]);
    let passphrase = "correct horse battery staple";
    let params = Argon2Params::RECOMMENDED;
    let backup = backup::wrap(&ada, &device("phone"), passphrase, params, [13; 32], [[14; 12], [15; 12]]).unwrap();
    json!({
        "envelope": envelope(),
        "stream": stream::vectors::stream(hex),
        "padding": lengths.map(|length| [length, body::padded_len(length)]),
        "bundle": signed(&ada, "nuncio/key-bundle/v1", &keys, &keys.message()),
        "one_time_key": signed(&ada, "nuncio/one-time-key/v1", &one_time, &message),
        "endorsement": signed(&hotel, "nuncio/device-endorsement/v1", &about, &keys.endorsed()),
        "safety": {
            "sides": [{"owner": person, "keys": ours}, {"owner": agent, "keys": theirs}],
            "number": safety_number::compute((&person, &ours), (&agent, &theirs)),
        },
        "backup": {
            "passphrase": passphrase,
            "wrapping_key": hex(backup::derive(params, passphrase, &[13; 32]).unwrap().as_slice()),
            "agreement_secret": hex(ada.agreement_secret()),
            "signing_seed": hex(ada.signing_seed()),
            "backup": backup,
        },
    })
}

#[test]
fn published_sealing_vectors_match_the_implementation() {
    let made = vectors();
    if let Some(file) = std::env::var_os(WRITE) {
        std::fs::write(file, serde_json::to_string_pretty(&made).unwrap() + "\n").unwrap();
    }
    let published: Value = serde_json::from_str(FILE).unwrap();
    assert_eq!(made, published, "set {WRITE} to a file to write the current output there");
    // The published envelope can also be opened.
    let envelope = made["envelope"]["envelope"].as_str().unwrap();
    let read = envelope::read(envelope.as_bytes()).unwrap();
    let WrappedKey::Hpke { enc, ct, .. } = &read.entries[0].wrap else { panic!("it is wrapped to a key") };
    let content = hpke::unwrap(&[4; 32], &read.header_hash, enc, ct).unwrap();
    let text = body::decrypt(content.first_chunk().unwrap(), &read.header_hash, read.body).unwrap();
    assert_eq!(String::from_utf8(text.to_vec()).unwrap(), made["envelope"]["payload"]);
}
