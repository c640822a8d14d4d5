//! Test fixtures: identities of people and agents, and the messages they exchange.

use std::collections::VecDeque;
use std::sync::Arc;

use nuncio_core::bundle::{KeyBundle, OneTimeKey, SealMode};
use nuncio_core::conversation::{ContentType, ConversationType, MsgSubtype};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{
    KeyReviewResult, KeyStore, KeyStoreError, MemoryKeyStore, NewSealIdentity, NewSealedStream, OpenError,
    OpenedMessage, PlaintextMessage, RecipientDevice, RelayMetadata, SealError, SealIdentity,
};
use serde_json::{Value, json};

/// Current time in the tests, in milliseconds since the Unix epoch.
pub(crate) const NOW: i64 = 1_794_740_400_000;

pub(crate) fn at(after: i64) -> Timestamp {
    Timestamp::from_millis(NOW + after)
}

pub(crate) fn person(name: &str) -> RelayParty {
    RelayParty::Person(PersonName::parse(name).unwrap())
}

pub(crate) fn agent(name: &str) -> RelayParty {
    RelayParty::Agent(AgentId::parse(name).unwrap())
}

pub(crate) fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

/// An identity, and the one-time keys it published at the relay.
#[derive(Debug)]
pub(crate) struct TestIdentity {
    pub(crate) seal_identity: SealIdentity,
    pub(crate) keys: VecDeque<OneTimeKey>,
}

impl TestIdentity {
    pub(crate) fn new(owner: RelayParty, name: &str, mode: SealMode) -> Self {
        Self::on(Arc::new(MemoryKeyStore::new()), owner, name, mode)
    }

    pub(crate) fn on(keep: Arc<dyn KeyStore>, owner: RelayParty, name: &str, mode: SealMode) -> Self {
        let new = NewSealIdentity { named: Some((owner, device(name))), mode, now: at(0) };
        let mut seal_identity = SealIdentity::create(keep, &new).unwrap();
        let keys = seal_identity.one_time_keys(0, at(0)).unwrap().into();
        Self { seal_identity, keys }
    }

    pub(crate) fn owner(&self) -> RelayParty {
        self.seal_identity.owner_device().unwrap().0.clone()
    }

    pub(crate) fn device(&self) -> DeviceId {
        self.seal_identity.owner_device().unwrap().1.clone()
    }

    pub(crate) fn bundle(&self) -> KeyBundle {
        self.seal_identity.bundle().unwrap().clone()
    }

    pub(crate) fn review_keys(&mut self, other: &Self) -> KeyReviewResult {
        self.seal_identity.review_keys(&other.owner(), &[other.bundle()], None).unwrap()
    }

    /// Seals to one peer, with a one-time key if one is needed.
    pub(crate) fn seal(&mut self, plaintext: &PlaintextMessage, other: &mut Self) -> Result<Vec<u8>, SealError> {
        let bundle = other.bundle();
        let one_time_key = match self.seal_identity.needs_one_time_key(plaintext.conversation_type, &bundle)? {
            // The fallback key is the last one and is never consumed.
            true if other.keys.len() > 1 => other.keys.pop_front(),
            true => other.keys.front().cloned(),
            false => None,
        };
        self.seal_identity.seal(plaintext, &[RecipientDevice { bundle: &bundle, one_time_key: one_time_key.as_ref() }])
    }

    pub(crate) fn open(&mut self, relay: &RelayMetadata, envelope: &[u8]) -> Result<OpenedMessage, OpenError> {
        self.seal_identity.open(relay, envelope, at(1000))
    }
}

/// A person's device and an agent that have pinned each other's keys.
pub(crate) fn pair(mode: SealMode) -> (TestIdentity, TestIdentity) {
    let mut ada = TestIdentity::new(person("ada"), "phone", SealMode::Stateful);
    let mut hotel = TestIdentity::new(agent("hotel"), "main", mode);
    ada.review_keys(&hotel);
    hotel.review_keys(&ada);
    (ada, hotel)
}

pub(crate) fn client_id(id: &str) -> ClientMessageId {
    ClientMessageId::parse(id).unwrap()
}

pub(crate) fn text_message(id: &str, text: &str) -> PlaintextMessage {
    PlaintextMessage {
        conversation: ConversationId::parse("conv_1").unwrap(),
        conversation_type: ConversationType::H2a,
        client_id: client_id(id),
        content_type: ContentType::Text,
        subtype: None,
        in_reply_to: None,
        created_at: at(0),
        payload: json!({"type": "text", "text": text}),
    }
}

pub(crate) fn stream(id: &str) -> NewSealedStream {
    NewSealedStream { conversation: text_message(id, "").conversation, stream: client_id(id), created_at: at(0) }
}

pub(crate) fn call(id: &str) -> PlaintextMessage {
    PlaintextMessage {
        content_type: ContentType::Artifact,
        subtype: Some(MsgSubtype::ArtifactToolCall),
        payload: json!({"type": "artifact", "artifact": {"subtype": "tool_call", "call_id": id, "tool_name": "notify"}}),
        ..text_message(id, "")
    }
}

/// The metadata that an honest relay delivers with a message.
pub(crate) fn relay_metadata(plaintext: &PlaintextMessage, sender: &TestIdentity) -> RelayMetadata {
    RelayMetadata {
        conversation: plaintext.conversation.clone(),
        conversation_type: plaintext.conversation_type,
        sender: sender.owner(),
        sender_device: Some(sender.device()),
        client_id: plaintext.client_id.clone(),
        content_type: plaintext.content_type,
        subtype: plaintext.subtype,
    }
}

/// Sends a text message and returns the message that the recipient opened.
pub(crate) fn send_text(from: &mut TestIdentity, to: &mut TestIdentity, id: &str) -> Result<OpenedMessage, OpenError> {
    let plaintext = text_message(id, id);
    let envelope = from.seal(&plaintext, to).unwrap();
    to.open(&relay_metadata(&plaintext, from), &envelope)
}

pub(crate) fn text(opened: &OpenedMessage) -> &str {
    opened.payload["text"].as_str().unwrap()
}

pub(crate) fn parse(envelope: &[u8]) -> Value {
    serde_json::from_slice(envelope).unwrap()
}

/// A key store that fails at a chosen save, before or after writing it.
#[derive(Debug)]
pub(crate) struct FailingKeyStore {
    pub(crate) disk: Arc<MemoryKeyStore>,
    pub(crate) fails_at: usize,
    /// Whether the failing save still reaches the disk.
    pub(crate) after: bool,
    pub(crate) saves: std::sync::atomic::AtomicUsize,
}

impl KeyStore for FailingKeyStore {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeyStoreError> {
        self.disk.load(name)
    }

    fn save(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), KeyStoreError> {
        let count = self.saves.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if count < self.fails_at || count == self.fails_at && self.after {
            self.disk.save(changes)?;
        }
        if count < self.fails_at { Ok(()) } else { Err(KeyStoreError("dead".to_owned())) }
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, KeyStoreError> {
        self.disk.names(prefix)
    }

    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeyStoreError> {
        self.disk.all(prefix)
    }
}
