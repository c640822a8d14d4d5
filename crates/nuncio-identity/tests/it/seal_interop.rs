//! Interoperability with another implementation of `docs/sealing.md`: libolm, @hpke/core and Node's cryptography.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::bundle::{KeyBundle, OneTimeKey, SealMode};
use nuncio_core::conversation::ConversationType;
use nuncio_core::notification::RelayParty;
use nuncio_identity::seal::{OpenError, OpenedMessage, PlaintextMessage, RecipientDevice, RelayMetadata, StreamSealer};
use serde_json::{Value, json};

use crate::seal_fixtures::{TestIdentity, agent, call, client_id, device, parse, person, stream, text, text_message};

/// The other implementation in a child process, which ends with the test.
struct NodeJsPeer {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    owner: RelayParty,
    bundle: Option<KeyBundle>,
    keys: Vec<OneTimeKey>,
}

impl NodeJsPeer {
    fn start(owner: &RelayParty, mode: SealMode) -> Self {
        let packages = std::env::var_os("NUNCIO_TEST_SEALING")
            .expect("NUNCIO_TEST_SEALING must name a folder of npm packages: run `cargo xtask test`");
        let mut process = Command::new("node")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/talk.mjs"))
            .env("NUNCIO_TEST_SEALING", packages)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let requests = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut peer = Self { process, requests, answers, owner: owner.clone(), bundle: None, keys: Vec::new() };
        let made = peer.ask("create", json!({"owner": owner, "device_id": "node", "mode": mode})).unwrap();
        peer.bundle = Some(serde_json::from_value(made["bundle"].clone()).unwrap());
        peer.keys = serde_json::from_value(made["keys"].clone()).unwrap();
        peer
    }

    fn ask(&mut self, what: &str, mut request: Value) -> Result<Value, String> {
        request["ask"] = json!(what);
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        match answer["error"].take() {
            Value::Null => Ok(answer["ok"].take()),
            error => Err(error.as_str().unwrap().to_owned()),
        }
    }

    fn bundle(&self) -> KeyBundle {
        self.bundle.clone().unwrap()
    }

    /// Opens an envelope of this crate with the other implementation.
    fn read(&mut self, sender: &RelayParty, envelope: &[u8]) -> Result<Value, String> {
        let envelope = std::str::from_utf8(envelope).unwrap();
        self.ask("open", json!({"sender": sender, "envelope": envelope}))
    }

    /// Seals a message to us with the other implementation.
    fn write(&mut self, plaintext: &PlaintextMessage, to: &mut TestIdentity) -> Vec<u8> {
        let plaintext = json!({
            "conversation_id": plaintext.conversation,
            "conversation_type": plaintext.conversation_type,
            "client_message_id": plaintext.client_id,
            "content_type": plaintext.content_type,
            "msg_subtype": plaintext.subtype,
            "created_at": plaintext.created_at,
            "payload": plaintext.payload,
        });
        let to = json!([{"bundle": to.bundle(), "one_time_key": to.keys.front()}]);
        let envelope = self.ask("seal", json!({"letter": plaintext, "to": to})).unwrap();
        envelope.as_str().unwrap().as_bytes().to_vec()
    }

    fn relay_metadata(&self, plaintext: &PlaintextMessage) -> RelayMetadata {
        RelayMetadata {
            conversation: plaintext.conversation.clone(),
            conversation_type: plaintext.conversation_type,
            sender: self.owner.clone(),
            sender_device: Some(device("node")),
            client_id: plaintext.client_id.clone(),
            content_type: plaintext.content_type,
            subtype: plaintext.subtype,
        }
    }
}

impl Drop for NodeJsPeer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Our identity and the other implementation as an agent, with each other's keys pinned.
fn pair(mode: SealMode) -> (TestIdentity, NodeJsPeer) {
    let mut ada = TestIdentity::new(person("ada"), "phone", SealMode::Stateful);
    let mut peer = NodeJsPeer::start(&agent("hotel"), mode);
    let review = ada.seal_identity.review_keys(&agent("hotel"), &[peer.bundle()], None).unwrap();
    assert_eq!(review.trusted, [device("node")]);
    peer.ask("meet", json!({"bundle": ada.bundle()})).unwrap();
    (ada, peer)
}

fn seal(
    ada: &mut TestIdentity,
    plaintext: &PlaintextMessage,
    peer: &mut NodeJsPeer,
    key: Option<&OneTimeKey>,
) -> Vec<u8> {
    let bundle = peer.bundle();
    ada.seal_identity.seal(plaintext, &[RecipientDevice { bundle: &bundle, one_time_key: key }]).unwrap()
}

fn open(
    ada: &mut TestIdentity,
    plaintext: &PlaintextMessage,
    peer: &NodeJsPeer,
    envelope: &[u8],
) -> Result<OpenedMessage, OpenError> {
    ada.open(&peer.relay_metadata(plaintext), envelope)
}

#[test]
fn other_implementation_reproduces_the_sealing_vectors() {
    let mut peer = NodeJsPeer::start(&agent("hotel"), SealMode::Stateless);
    let vectors: Value = serde_json::from_str(include_str!("../vectors/sealing.json")).unwrap();
    assert_eq!(peer.ask("vectors", json!({"vectors": vectors})).unwrap()["checked"], 19);
    // The other implementation detects a wrong value.
    for place in [
        "/envelope/sender_key",
        "/envelope/to_hash",
        "/bundle/signature",
        "/safety/number",
        "/backup/wrapping_key",
        "/stream/pieces/1/ct",
    ] {
        let mut wrong = vectors.clone();
        *wrong.pointer_mut(place).unwrap() = json!("00");
        assert!(peer.ask("vectors", json!({"vectors": wrong})).is_err(), "{place}");
    }
}

#[test]
fn olm_session_started_by_us_works_with_libolm() {
    let (mut ada, mut peer) = pair(SealMode::Stateful);
    let key = peer.keys.iter().find(|key| !key.fallback).cloned();
    let plaintexts: Vec<_> =
        (0..4).map(|number| text_message(&format!("a{number}"), &format!("grüße {number}"))).collect();
    let sent: Vec<_> = plaintexts.iter().map(|plaintext| seal(&mut ada, plaintext, &mut peer, key.as_ref())).collect();
    // Pre-key messages, out of order; one is delivered later.
    for place in [1, 0, 3] {
        let read = peer.read(&person("ada"), &sent[place]).unwrap();
        assert_eq!((&read["payload"], &read["type"]), (&plaintexts[place].payload, &json!(0)), "{place}");
    }
    assert_eq!(peer.read(&person("ada"), &sent[0]).unwrap_err(), "replayed");
    // The answers of the other implementation complete the session.
    let calls: Vec<_> = (0..4).map(|number| call(&format!("h{number}"))).collect();
    let answers: Vec<_> = calls.iter().map(|plaintext| peer.write(plaintext, &mut ada)).collect();
    for place in [2, 0, 3, 1] {
        assert_eq!(parse(&answers[place])["to"][0]["type"], 1);
        let opened = open(&mut ada, &calls[place], &peer, &answers[place]).unwrap();
        assert_eq!((opened.payload, opened.mode), (calls[place].payload.clone(), SealMode::Stateful));
    }
    assert_eq!(open(&mut ada, &calls[0], &peer, &answers[0]), Err(OpenError::Replayed));
    let plaintext = text_message("a9", "after");
    let envelope = seal(&mut ada, &plaintext, &mut peer, None);
    let read = peer.read(&person("ada"), &envelope).unwrap();
    assert_eq!((&read["payload"]["text"], &read["type"]), (&json!("after"), &json!(1)));
    assert_eq!(peer.read(&person("ada"), &sent[2]).unwrap()["payload"], plaintexts[2].payload, "late");
}

#[test]
fn olm_session_started_by_libolm_works_with_us() {
    let (mut ada, mut peer) = pair(SealMode::Stateful);
    let plaintexts: Vec<_> =
        (0..3).map(|number| text_message(&format!("h{number}"), &format!("您好 {number}"))).collect();
    let sent: Vec<_> = plaintexts.iter().map(|plaintext| peer.write(plaintext, &mut ada)).collect();
    for place in [2, 0, 1] {
        assert_eq!(parse(&sent[place])["to"][0]["type"], 0);
        let opened = open(&mut ada, &plaintexts[place], &peer, &sent[place]).unwrap();
        assert_eq!(text(&opened), format!("您好 {place}"));
    }
    for round in 0..4 {
        let plaintext = text_message(&format!("a{round}"), "to libolm");
        let envelope = seal(&mut ada, &plaintext, &mut peer, None);
        assert_eq!(peer.read(&person("ada"), &envelope).unwrap()["type"], 1);
        let plaintext = text_message(&format!("b{round}"), "from libolm");
        let envelope = peer.write(&plaintext, &mut ada);
        assert_eq!(text(&open(&mut ada, &plaintext, &peer, &envelope).unwrap()), "from libolm");
    }
}

#[test]
fn fallback_keys_work_with_libolm_in_both_directions() {
    let (mut ada, mut peer) = pair(SealMode::Stateful);
    let key = peer.keys.iter().find(|key| key.fallback).cloned();
    assert!(key.is_some());
    let plaintext = text_message("a1", "by the fallback key");
    let envelope = seal(&mut ada, &plaintext, &mut peer, key.as_ref());
    assert_eq!(peer.read(&person("ada"), &envelope).unwrap()["payload"], plaintext.payload);

    let (mut ada, mut peer) = pair(SealMode::Stateful);
    ada.keys.retain(|key| key.fallback);
    assert_eq!(ada.keys.len(), 1);
    let plaintext = text_message("h1", "by ours");
    let envelope = peer.write(&plaintext, &mut ada);
    assert_eq!(text(&open(&mut ada, &plaintext, &peer, &envelope).unwrap()), "by ours");
}

#[test]
fn hpke_messages_work_with_another_implementation_in_both_directions() {
    let (mut ada, mut peer) = pair(SealMode::Stateless);
    assert!(peer.keys.is_empty());
    for kind in [ConversationType::H2a, ConversationType::Group] {
        let plaintext =
            PlaintextMessage { conversation_type: kind, ..text_message(&format!("a{kind:?}"), &"long ".repeat(2000)) };
        let envelope = seal(&mut ada, &plaintext, &mut peer, None);
        let read = peer.read(&person("ada"), &envelope).unwrap();
        assert_eq!(read["payload"], plaintext.payload);
        assert_eq!(read["alg"], "hpke-x25519-hkdfsha256-aes256gcm");
        let plaintext =
            PlaintextMessage { conversation_type: kind, ..text_message(&format!("h{kind:?}"), &"lang ".repeat(2000)) };
        let envelope = peer.write(&plaintext, &mut ada);
        let opened = open(&mut ada, &plaintext, &peer, &envelope).unwrap();
        assert_eq!((opened.payload, opened.mode), (plaintext.payload, SealMode::Stateless));
    }
}

#[test]
fn changed_envelope_is_refused_by_both_implementations() {
    for mode in [SealMode::Stateful, SealMode::Stateless] {
        let (mut ada, mut peer) = pair(mode);
        let key = peer.keys.first().cloned();
        let (to, from) = (text_message("a1", "there"), text_message("h1", "back"));
        let (there, back) = (seal(&mut ada, &to, &mut peer, key.as_ref()), peer.write(&from, &mut ada));
        let changed = |envelope: &[u8], place: &str| {
            let text = parse(envelope).pointer(place).unwrap().as_str().unwrap().to_owned();
            let other = format!("{}{}", if text.starts_with('A') { "B" } else { "A" }, &text[1..]);
            String::from_utf8(envelope.to_vec()).unwrap().replace(&text, &other).into_bytes()
        };
        for place in ["/body/ct", "/body/nonce", "/to/0/ct", "/sig", "/hdr/client_message_id"] {
            let refused = peer.read(&person("ada"), &changed(&there, place)).unwrap_err();
            assert_eq!(refused, "bad signature", "{place}");
            let mut relay = peer.relay_metadata(&from);
            let forged = changed(&back, place);
            relay.client_id = serde_json::from_value(parse(&forged)["hdr"]["client_message_id"].clone()).unwrap();
            assert_eq!(ada.open(&relay, &forged), Err(OpenError::BadSignature), "{place}");
        }
        assert_eq!(peer.read(&person("ada"), &there).unwrap()["payload"], to.payload);
        assert_eq!(open(&mut ada, &from, &peer, &back).unwrap().payload, from.payload);
    }
}

#[test]
fn other_implementation_opens_our_stream() {
    for mode in [SealMode::Stateful, SealMode::Stateless] {
        let mut hotel = TestIdentity::new(agent("hotel"), "main", mode);
        let mut peer = NodeJsPeer::start(&person("ada"), SealMode::Stateful);
        hotel.seal_identity.review_keys(&person("ada"), &[peer.bundle()], None).unwrap();
        peer.ask("meet", json!({"bundle": hotel.bundle()})).unwrap();
        let (bundle, key) = (peer.bundle(), peer.keys.first().cloned());
        let to = [RecipientDevice { bundle: &bundle, one_time_key: key.as_ref() }];
        let (envelope, mut sealer) = StreamSealer::begin(&mut hotel.seal_identity, stream("s1"), &to).unwrap();
        let texts = ["Ihr Zimmer", " ist ", "fertig: 您好"];
        let mut pieces: Vec<_> = texts.iter().map(|text| (sealer.piece(text).unwrap(), false)).collect();
        pieces.push((sealer.end(&client_id("m1")).unwrap(), true));
        let written = pieces
            .iter()
            .map(|(piece, last)| json!({"seq": piece.seq, "final": last, "ct": URL_SAFE_NO_PAD.encode(&piece.sealed)}));
        let written: Vec<_> = written.collect();
        let envelope = std::str::from_utf8(&envelope).unwrap();
        let read = json!({"sender": "agent:hotel", "envelope": envelope, "pieces": written});
        let read = peer.ask("stream", read).unwrap();
        let alg = if mode == SealMode::Stateful { "olm-v1" } else { "hpke-x25519-hkdfsha256-aes256gcm" };
        assert_eq!(read, json!({"alg": alg, "texts": [texts[0], texts[1], texts[2], "m1"]}));
    }
}

#[test]
fn other_implementation_computes_the_same_safety_number() {
    let (mut ada, mut peer) = pair(SealMode::Stateful);
    let ours = ada.seal_identity.safety_number(&agent("hotel")).unwrap().unwrap();
    let sides = json!([
        {"owner": "agent:hotel", "keys": [peer.bundle().keys.signing_key]},
        {"owner": "person:ada", "keys": [ada.seal_identity.signing_key()]},
    ]);
    assert_eq!(peer.ask("safety", json!({"sides": sides})).unwrap(), json!(ours));
}
