//! The relay learns no plaintext: every byte that it stores, logs and sends is searched after a full exchange.

use std::path::Path;

use nuncio_core::conversation::ContentType;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use nuncio_testkit::a2h::{SealedDevice, content_key_in};
use serde_json::json;

use super::network_tap::NetworkTap;
use super::{PLACE, RelayProcess, SCOPE, SECRET, SealedSetup, decoded, memory, read_file, reads};
use crate::client::play;
use crate::process::until;

/// Paths and contents of all files below a folder; database files include their free pages.
fn all_bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(all_bytes(&path)),
            false => found.extend(std::fs::read(&path).ok().map(|bytes| (path.display().to_string(), bytes))),
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Encodings of a text: plain, hex, and base64 at every offset.
fn spellings(text: &str) -> Vec<String> {
    const ALPHABETS: [&[u8; 64]; 2] = [
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    ];
    let hex = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![text.to_owned(), hex];
    for before in 0..3 {
        // The first and last characters are left out, because they also encode neighbouring bytes.
        let bytes = &text.as_bytes()[(3 - before) % 3..];
        for alphabet in ALPHABETS {
            let letters = bytes.chunks_exact(3).flat_map(|piece| {
                let bits = piece.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
                [18, 12, 6, 0].map(|place| char::from(alphabet[usize::try_from(bits >> place & 63).unwrap()]))
            });
            all.push(letters.collect());
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn app_reads_a_device_file_and_the_relay_sees_no_plaintext() {
    let relay = RelayProcess::start(&[("NUNCIO_LOG_LEVEL", "debug")]).await;
    let tap = NetworkTap::before(relay.port);
    let mut world = SealedSetup::of(relay, Some(&tap.url)).await;
    let device = SealedDevice::start(&tap.url, &world.relay.invite("ada"), memory(), read_file).await;
    device.allow(&world.agent_id, &[SCOPE]).await;

    // The tool is called from an app's session and from an encrypted conversation.
    let (client, session) = world.session().await;
    let answer = client.play(&session, reads("c1", PLACE)).await;
    assert!(answer.to_string().contains(SECRET), "{answer}");
    let agent = RelayParty::Agent(AgentId::parse(&world.agent_id).unwrap());
    let conversation = device.peer.conversation_with(&agent).await.unwrap();
    let content = json!({"type": "text", "text": play(&reads("c2", PLACE))["content"]});
    device.peer.outbox().send(&conversation.id, ContentType::Text, content).await.unwrap();
    until("the agent answers under seal", async || {
        let received = device.heard.lock().unwrap();
        received.iter().any(|message| message.payload.to_string().contains(SECRET)).then_some(())
    })
    .await;
    assert_eq!(device.runs(), 2);

    let record = world.last_record();
    assert_eq!(record["outcome"]["result"], "completed", "{record}");
    assert!(!record.to_string().contains(PLACE), "the record holds a digest: {record}");

    // The relayed envelopes, which the recorded traffic must contain.
    let path = format!("/conversations/{}/messages", conversation.id);
    let carried = device.relay.ask("GET", &path, None).await.unwrap();
    let carried: Vec<_> =
        carried.as_array().unwrap().iter().map(|message| message["encrypted_payload"].clone()).collect();
    assert!(carried.len() >= 6, "two calls, two answers, a question and a reply: {}", carried.len());

    let log = world.relay.kill9();
    let mut places = all_bytes(&world.relay.home.data());
    places.push(("the relay's log".to_owned(), log.into_bytes()));
    places.push(("what the relay sent".to_owned(), tap.bytes()));
    let secrets: Vec<_> = [SECRET, PLACE, "treasure"].into_iter().flat_map(spellings).collect();
    let mut looked = 0;
    for (place, bytes) in &places {
        for secret in &secrets {
            assert!(!holds(bytes, secret), "{place} holds {secret:?}");
        }
        looked += bytes.len();
    }
    let traffic = tap.bytes();
    assert!(
        carried.iter().all(|envelope| holds(&traffic, envelope.as_str().unwrap())),
        "the tap recorded every message"
    );
    assert!(places.iter().any(|(_, bytes)| holds(bytes, "\"hdr\":")), "the envelopes lie in the database");
    println!("{looked} bytes of the relay hold nothing of what was said");

    let mut tried = 0;
    for envelope in [&carried[0], &carried[carried.len() - 1]] {
        let envelope = decoded(envelope);
        for (place, bytes) in &places {
            assert_eq!(content_key_in(bytes, envelope.as_bytes()), None, "{place} holds a content key");
            tried += bytes.len();
        }
    }
    println!("no key among {tried} places opens what it carried");
}
