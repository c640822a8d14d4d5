//! Sealed envelopes: a changed envelope is refused, and the next message can still be opened.

use std::cell::RefCell;
use std::sync::Arc;

use nuncio_core::bundle::{OneTimeKey, SealMode};
use nuncio_core::conversation::{ContentType, ConversationType};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{
    MemoryKeyStore, NewSealIdentity, PlaintextMessage, RecipientDevice, RelayMetadata, SealIdentity,
};
use serde_json::json;

use crate::seeds::texts_in;

const NOW: i64 = 1_794_740_400_000;

/// A sender, a receiver, and the envelopes that the receiver has not opened.
struct EnvelopeReceiver {
    receiver: SealIdentity,
    relay: RelayMetadata,
    unopened: Vec<Vec<u8>>,
}

impl EnvelopeReceiver {
    fn new() -> Self {
        let now = Timestamp::from_millis(NOW);
        let identity = |owner: RelayParty, device: &str, mode: SealMode| {
            let new = NewSealIdentity { named: Some((owner, DeviceId::parse(device).unwrap())), mode, now };
            SealIdentity::create(Arc::new(MemoryKeyStore::new()), &new).unwrap()
        };
        let person = RelayParty::Person(PersonName::parse("ada").unwrap());
        let agent = RelayParty::Agent(AgentId::parse("hotel").unwrap());
        let mut sender = identity(person.clone(), "phone", SealMode::Stateful);
        let mut unopened = Vec::new();
        let message = PlaintextMessage {
            conversation: ConversationId::parse("conv_1").unwrap(),
            conversation_type: ConversationType::H2a,
            client_id: ClientMessageId::parse("m1").unwrap(),
            content_type: ContentType::Text,
            subtype: None,
            in_reply_to: None,
            created_at: now,
            payload: json!({"type": "text", "text": "hello"}),
        };
        let mut receiver = identity(agent.clone(), "main", SealMode::Stateful);
        let keys: Vec<OneTimeKey> = receiver.one_time_keys(0, now).unwrap();
        let bundle = receiver.bundle().unwrap().clone();
        sender.review_keys(&agent, std::slice::from_ref(&bundle), None).unwrap();
        receiver.review_keys(&person, &[sender.bundle().unwrap().clone()], None).unwrap();
        unopened
            .push(sender.seal(&message, &[RecipientDevice { bundle: &bundle, one_time_key: keys.first() }]).unwrap());
        let stateless = identity(agent, "main", SealMode::Stateless).bundle().unwrap().clone();
        let addressee = RecipientDevice { bundle: &stateless, one_time_key: None };
        unopened.extend(sender.seal(&message, &[addressee]));
        let relay = RelayMetadata {
            conversation: message.conversation,
            conversation_type: message.conversation_type,
            sender: person,
            sender_device: Some(DeviceId::parse("phone").unwrap()),
            client_id: message.client_id,
            content_type: message.content_type,
            subtype: None,
        };
        Self { receiver, relay, unopened }
    }
}

thread_local! {
    static EXCHANGE: RefCell<EnvelopeReceiver> = RefCell::new(EnvelopeReceiver::new());
}

pub fn run(data: &[u8]) {
    EXCHANGE.with_borrow_mut(|exchange| {
        let opened = exchange.receiver.open(&exchange.relay, data, Timestamp::from_millis(NOW + 1000));
        if let Ok(message) = opened {
            assert!(exchange.unopened.iter().any(|envelope| envelope == data), "a changed envelope was opened");
            assert_eq!(message.payload["text"], "hello");
            // The opened envelope would be a replay now; new keys allow the next input to be opened.
            assert!(exchange.receiver.open(&exchange.relay, data, Timestamp::from_millis(NOW + 1000)).is_err());
            *exchange = EnvelopeReceiver::new();
        }
    });
}

/// Seeds: envelopes signed by keys of this process, and one from the test vectors, signed by an unknown key.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let vectors = texts_in(include_str!("../../../crates/nuncio-identity/tests/vectors/sealing.json"));
    let mut seeds = EXCHANGE.with_borrow(|exchange| exchange.unopened.clone());
    seeds.extend(vectors.into_iter().filter(|text| text.starts_with(b"{")));
    seeds
}
