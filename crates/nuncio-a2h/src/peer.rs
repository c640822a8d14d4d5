//! An agent or a person's device at a relay: sends and receives sealed messages, calls tools on people's devices and
//! answers calls. Unsent and unhandled messages survive the end of the process.
//!
//! ```no_run
//! # use nuncio_a2h::peer::{Peer, PeerConfig, ToolError};
//! # use nuncio_core::happening::Recipient;
//! # use nuncio_core::ids::PersonName;
//! # use serde_json::json;
//! # use tokio_util::sync::CancellationToken;
//! # async fn reads_notes(config: PeerConfig, ada: PersonName, stop: CancellationToken) -> Result<(), ToolError> {
//! let agent = Peer::new(config);
//! tokio::spawn(agent.clone().run(stop));
//! let conversation = agent.conversation_with(&Recipient::Person(ada)).await?;
//! let notes = agent.call_tool(&conversation.id, "read_file", json!({"path": "notes.md"})).await?;
//! println!("{notes}");
//! # Ok(())
//! # }
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_core::conversation::{ContentType, Conversation, ConversationType, StreamId};
use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{CallId, ClientMessageId, ConversationId, DeviceId};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::timed_name;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_identity::seal::{KeyStore, KeyStoreError, OpenError, SealIdentity};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, OnceCell, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Relay, RelayEventKind};
use crate::wire::artifact::Outcome;

mod calls;
mod client_ids;
mod error;
mod inbox;
mod key_decisions;
mod listening;
mod outbox;
mod run;
mod send_slots;
mod webhook_receiver;
mod writing;

pub use calls::CallOptions;
pub use client_ids::SentConfirmation;
pub use error::{SendError, ToolError};
use listening::IncomingStream;
pub use listening::{StreamEvent, StreamEventKind};
pub use webhook_receiver::{WebhookError, WebhookReceiver};
pub use writing::StreamWriter;

pub struct PeerConfig {
    pub relay: Arc<dyn Relay>,
    /// Keys and messages that must survive a restart.
    pub keep: Arc<dyn KeyStore>,
    pub party: SealIdentity,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub handler: Arc<dyn PeerHandler>,
}

#[async_trait]
pub trait PeerHandler: fmt::Debug + Send + Sync + 'static {
    /// Handles a received message. Messages of one conversation arrive in order, each at least once. Messages of the
    /// person's other devices arrive too: `sender` is then the person.
    async fn on_message(&self, peer: &Peer, message: InboundMessage);

    /// Handles a message that could not be opened because it was changed in transit or its sender is untrusted. A
    /// person is shown why.
    async fn on_refused(&self, peer: &Peer, refused: UnopenedMessage) {
        let _ = (peer, refused);
    }

    /// Handles the confirmation that the relay has a message of this device, at least once. Later events wait for it.
    async fn on_sent(&self, peer: &Peer, sent: SentConfirmation) {
        let _ = (peer, sent);
    }

    /// Handles a verified stream event. Later events wait for it.
    async fn on_stream(&self, peer: &Peer, event: StreamEvent) {
        let _ = (peer, event);
    }

    /// Handles any other event. Later events wait for it.
    async fn on_event(&self, peer: &Peer, what: &RelayEventKind) {
        let _ = (peer, what);
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreMessages;

#[async_trait]
impl PeerHandler for IgnoreMessages {
    async fn on_message(&self, _: &Peer, _: InboundMessage) {}
}

/// Stored in this form until it is handled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    pub conversation: ConversationId,
    pub conversation_type: ConversationType,
    pub seq: u64,
    pub sender: Recipient,
    pub device: DeviceId,
    pub content_type: ContentType,
    pub payload: Value,
    /// Digest of the sealed envelope; `None` for a message that an earlier version received.
    #[serde(default)]
    pub envelope: Option<Digest>,
    /// Whether its keys give forward secrecy.
    pub mode: SealMode,
    /// Time signed by the sender.
    pub sealed_at: Timestamp,
    pub at: Timestamp,
}

/// Message that could not be opened. All fields but `why` are claims of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnopenedMessage {
    pub conversation: ConversationId,
    pub seq: u64,
    pub sender: Recipient,
    pub content_type: ContentType,
    pub why: OpenError,
}

/// An agent or a person's device at a relay. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct Peer {
    inner: Arc<Inner>,
}

struct Inner {
    relay: Arc<dyn Relay>,
    keep: Arc<dyn KeyStore>,
    party: Mutex<SealIdentity>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    handler: Arc<dyn PeerHandler>,
    waiting: Mutex<HashMap<CallId, WaitingCall>>,
    /// Cache of conversations.
    conversations: Mutex<HashMap<ConversationId, Arc<Conversation>>>,
    /// Cache of trusted keys, until they change.
    met: Mutex<HashMap<Recipient, Vec<KeyBundle>>>,
    /// Last handler task of each conversation.
    handling: Mutex<HashMap<ConversationId, JoinHandle<()>>>,
    /// Locks that order sending: see [`turns`].
    lines: Mutex<HashMap<Option<ConversationId>, Arc<tokio::sync::Mutex<()>>>>,
    /// Set once the messages of the previous process are sent.
    leftovers: OnceCell<()>,
    /// Notified when the relay is reachable again.
    back: Notify,
    /// Last rekey message to each device: conversation and number.
    rekeyed: Mutex<HashMap<DeviceId, (ConversationId, u64)>>,
    /// Own streams, each until it ends.
    writing: Mutex<HashMap<StreamId, CancellationToken>>,
    heard: Mutex<HashMap<(ConversationId, StreamId), IncomingStream>>,
}

/// Call that waits for its answer from this conversation.
struct WaitingCall {
    conversation: ConversationId,
    answer: oneshot::Sender<Outcome>,
    /// Notified when the device could not open the call, so that it is sent again.
    again: Arc<Notify>,
}

impl Peer {
    /// Does nothing until [`Peer::run`].
    #[must_use]
    pub fn new(config: PeerConfig) -> Self {
        let PeerConfig { relay, keep, party, clock, entropy, handler } = config;
        let inner = Inner {
            relay,
            keep,
            party: Mutex::new(party),
            clock,
            entropy,
            handler,
            waiting: Mutex::default(),
            conversations: Mutex::default(),
            met: Mutex::default(),
            handling: Mutex::default(),
            lines: Mutex::default(),
            leftovers: OnceCell::new(),
            back: Notify::new(),
            rekeyed: Mutex::default(),
            writing: Mutex::default(),
            heard: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    #[must_use]
    pub fn me(&self) -> &Recipient {
        self.inner.relay.me()
    }

    /// Two-party conversation with someone; created if there is none.
    pub async fn conversation_with(&self, other: &Recipient) -> Result<Arc<Conversation>, SendError> {
        let alone = |known: &&Arc<Conversation>| known.other(self.me()) == Some(other);
        let known = lock(&self.inner.conversations).values().find(alone).cloned();
        match known {
            Some(known) => Ok(known),
            None => Ok(self.remember(self.inner.relay.conversation_with(other).await?)),
        }
    }

    /// A conversation that this peer is a member of.
    pub async fn conversation(&self, id: &ConversationId) -> Result<Arc<Conversation>, SendError> {
        let known = lock(&self.inner.conversations).get(id).cloned();
        match known {
            // Members of a group may change, so groups are not cached.
            Some(known) if known.kind != ConversationType::Group => Ok(known),
            _ => Ok(self.remember(self.inner.relay.conversation(id).await?)),
        }
    }

    fn remember(&self, conversation: Conversation) -> Arc<Conversation> {
        const MOST: usize = 10_000;
        let conversation = Arc::new(conversation);
        let mut known = lock(&self.inner.conversations);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(conversation.id.clone(), Arc::clone(&conversation));
        conversation
    }

    pub async fn pinned(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, SendError> {
        let owner = owner.clone();
        Ok(self.with_party(move |party| party.pinned(&owner)).await??)
    }

    /// Number that both sides compare to detect a man in the middle; `None` before first contact.
    pub async fn safety_number(&self, owner: &Recipient) -> Result<Option<String>, SendError> {
        self.meet(owner).await?;
        let owner = owner.clone();
        Ok(self.with_party(move |party| party.safety_number(&owner)).await??)
    }

    /// Deletes every own record that mentions one of these texts.
    pub fn forget(&self, texts: &[String]) -> Result<(), KeyStoreError> {
        lock(&self.inner.conversations).clear();
        lock(&self.inner.met).clear();
        self.inner.keep.forget(texts)
    }

    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn new_client_id(&self) -> Result<ClientMessageId, SendError> {
        let name = timed_name(&*self.inner.entropy, "m_", self.now());
        ClientMessageId::parse(&name).map_err(|why| SendError::Fault(why.to_string()))
    }

    /// Works with the keys on a blocking thread, because every step writes to disk.
    async fn with_party<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SealIdentity) -> T + Send + 'static,
    ) -> Result<T, SendError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&mut lock(&inner.party))).await;
        done.map_err(|_| SendError::Fault("the sealing task was aborted".to_owned()))
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Agent({})", self.inner.relay.me())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
