//! Test fixtures: identities of people and agents, and the messages they exchange.

use std::collections::VecDeque;
use std::sync::Arc;

use nuncio_core::bundle::{KeyBundle, OneTimeKey, SealMode};
use nuncio_core::conversation::{ContentType, ConversationType, MsgSubtype};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId, PersonName};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{
    Addressee, Keep, KeepError, Letter, Meeting, MemoryKeep, NewParty, NewStream, OpenError, Opened, Party, SealError,
    Told,
};
use serde_json::{Value, json};

/// Milliseconds since the epoch.
pub(crate) const NOW: i64 = 1_794_740_400_000;

pub(crate) fn at(after: i64) -> Timestamp {
    Timestamp::from_millis(NOW + after)
}

pub(crate) fn person(name: &str) -> Recipient {
    Recipient::Person(PersonName::parse(name).unwrap())
}

pub(crate) fn agent(name: &str) -> Recipient {
    Recipient::Agent(AgentId::parse(name).unwrap())
}

pub(crate) fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

/// An identity, and the one-time keys it published at the relay.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) party: Party,
    pub(crate) keys: VecDeque<OneTimeKey>,
}

impl Side {
    pub(crate) fn new(owner: Recipient, name: &str, mode: SealMode) -> Self {
        Self::on(Arc::new(MemoryKeep::new()), owner, name, mode)
    }

    pub(crate) fn on(keep: Arc<dyn Keep>, owner: Recipient, name: &str, mode: SealMode) -> Self {
        let new = NewParty { named: Some((owner, device(name))), mode, now: at(0) };
        let mut party = Party::create(keep, &new).unwrap();
        let keys = party.one_time_keys(0, at(0)).unwrap().into();
        Self { party, keys }
    }

    pub(crate) fn owner(&self) -> Recipient {
        self.party.named().unwrap().0.clone()
    }

    pub(crate) fn device(&self) -> DeviceId {
        self.party.named().unwrap().1.clone()
    }

    pub(crate) fn bundle(&self) -> KeyBundle {
        self.party.bundle().unwrap().clone()
    }

    pub(crate) fn meet(&mut self, other: &Self) -> Meeting {
        self.party.meet(&other.owner(), &[other.bundle()], None).unwrap()
    }

    /// Seals to one peer, with a one-time key if one is needed.
    pub(crate) fn seal(&mut self, letter: &Letter, other: &mut Self) -> Result<Vec<u8>, SealError> {
        let bundle = other.bundle();
        let one_time_key = match self.party.wants_key(letter.conversation_type, &bundle)? {
            // The fallback key is the last one and is never consumed.
            true if other.keys.len() > 1 => other.keys.pop_front(),
            true => other.keys.front().cloned(),
            false => None,
        };
        self.party.seal(letter, &[Addressee { bundle: &bundle, one_time_key: one_time_key.as_ref() }])
    }

    pub(crate) fn open(&mut self, told: &Told, envelope: &[u8]) -> Result<Opened, OpenError> {
        self.party.open(told, envelope, at(1000))
    }
}

/// A person's device and an agent that have pinned each other's keys.
pub(crate) fn pair(mode: SealMode) -> (Side, Side) {
    let mut ada = Side::new(person("ada"), "phone", SealMode::Stateful);
    let mut hotel = Side::new(agent("hotel"), "main", mode);
    ada.meet(&hotel);
    hotel.meet(&ada);
    (ada, hotel)
}

pub(crate) fn client_id(id: &str) -> ClientMessageId {
    ClientMessageId::parse(id).unwrap()
}

pub(crate) fn words(id: &str, text: &str) -> Letter {
    Letter {
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

pub(crate) fn stream(id: &str) -> NewStream {
    NewStream { conversation: words(id, "").conversation, stream: client_id(id), created_at: at(0) }
}

pub(crate) fn call(id: &str) -> Letter {
    Letter {
        content_type: ContentType::Artifact,
        subtype: Some(MsgSubtype::ArtifactToolCall),
        payload: json!({"type": "artifact", "artifact": {"subtype": "tool_call", "call_id": id, "tool_name": "notify"}}),
        ..words(id, "")
    }
}

/// The metadata that an honest relay delivers with a message.
pub(crate) fn told(letter: &Letter, sender: &Side) -> Told {
    Told {
        conversation: letter.conversation.clone(),
        conversation_type: letter.conversation_type,
        sender: sender.owner(),
        sender_device: Some(sender.device()),
        client_id: letter.client_id.clone(),
        content_type: letter.content_type,
        subtype: letter.subtype,
    }
}

/// Sends a text message and returns what the recipient opened.
pub(crate) fn say(from: &mut Side, to: &mut Side, id: &str) -> Result<Opened, OpenError> {
    let letter = words(id, id);
    let envelope = from.seal(&letter, to).unwrap();
    to.open(&told(&letter, from), &envelope)
}

pub(crate) fn text(opened: &Opened) -> &str {
    opened.payload["text"].as_str().unwrap()
}

pub(crate) fn parse(envelope: &[u8]) -> Value {
    serde_json::from_slice(envelope).unwrap()
}

/// A key store that fails at a chosen save, before or after writing it.
#[derive(Debug)]
pub(crate) struct Mortal {
    pub(crate) disk: Arc<MemoryKeep>,
    pub(crate) dies_at: usize,
    /// Whether the failing save still reaches the disk.
    pub(crate) after: bool,
    pub(crate) saves: std::sync::atomic::AtomicUsize,
}

impl Keep for Mortal {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeepError> {
        self.disk.load(name)
    }

    fn save(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), KeepError> {
        let count = self.saves.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if count < self.dies_at || count == self.dies_at && self.after {
            self.disk.save(changes)?;
        }
        if count < self.dies_at { Ok(()) } else { Err(KeepError("dead".to_owned())) }
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, KeepError> {
        self.disk.names(prefix)
    }

    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeepError> {
        self.disk.all(prefix)
    }
}
