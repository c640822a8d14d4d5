//! An agent or a person's device at a relay: sends and receives sealed messages, calls tools on people's devices and
//! answers calls. Unsent and unhandled messages survive the end of the process.
//!
//! ```no_run
//! # use nuncio_a2h::peer::{Peer, PeerConfig, DeviceCallError};
//! # use nuncio_core::notification::RelayParty;
//! # use nuncio_core::ids::PersonName;
//! # use serde_json::json;
//! # use tokio_util::sync::CancellationToken;
//! # async fn reads_notes(config: PeerConfig, ada: PersonName, stop: CancellationToken) -> Result<(), DeviceCallError>
//! { let agent = Peer::new(config);
//! tokio::spawn(agent.clone().run(stop));
//! let conversation = agent.conversation_with(&RelayParty::Person(ada)).await?;
//! let notes = agent.calls().call_tool(&conversation.id, "read_file", json!({"path": "notes.md"})).await?;
//! println!("{notes}");
//! # Ok(())
//! # }
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::{ContentType, Conversation, ConversationType, StreamId};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{ConversationId, DeviceId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_identity::seal::{KeyStore, KeyStoreError, OpenError, SealIdentity};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinHandle;

use crate::client::{RelayClient, RelayEventKind};

mod calls;
mod client_ids;
mod context;
mod error;
mod inbox;
mod listening;
mod outbox;
mod run;
mod seal_keys;
mod send_permits;
mod webhook_receiver;
mod writing;

pub use calls::{DeviceCallOptions, DeviceToolCaller};
pub use client_ids::SentMessageConfirmation;
use context::PeerContext;
pub use error::{DeviceCallError, SendError};
use listening::IncomingTextStream;
pub use listening::{IncomingStreamEvent, IncomingStreamEventKind};
pub use outbox::SealedMessageOutbox;
use seal_keys::MAX_CACHED_OWNERS;
pub use seal_keys::SealKeyService;
pub use webhook_receiver::{ReceivedWebhookError, WebhookReceiver};
pub use writing::{OutgoingStreams, StreamWriter};

pub struct PeerConfig {
    pub relay: Arc<dyn RelayClient>,
    /// Storage of keys and messages that must survive a restart.
    pub key_store: Arc<dyn KeyStore>,
    pub seal_identity: SealIdentity,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub handler: Arc<dyn PeerHandler>,
}

#[async_trait]
pub trait PeerHandler: fmt::Debug + Send + Sync + 'static {
    /// Handles a received message. Messages of one conversation arrive in order, each at least once. A device also gets
    /// the messages that the person sent from other devices.
    async fn on_message(&self, peer: &Peer, message: InboundMessage);

    /// Handles a message that could not be opened, for example because it was changed or its sender is untrusted.
    async fn on_refused(&self, _peer: &Peer, _refused: UnopenableMessage) {}

    /// Handles the confirmation, given at least once, that the relay has a message of this device. Later events wait
    /// until this method returns.
    async fn on_sent(&self, _peer: &Peer, _sent: SentMessageConfirmation) {}

    /// Handles a verified stream event. Later events wait until this method returns.
    async fn on_stream(&self, _peer: &Peer, _event: IncomingStreamEvent) {}

    /// Handles any other event. Later events wait until this method returns.
    async fn on_event(&self, _peer: &Peer, _what: &RelayEventKind) {}

    /// Handles a change of the connection: `None` when the relay accepted this peer, or the error that ended it.
    async fn on_connection(&self, _peer: &Peer, _lost: Option<&SendError>) {}
}

/// A received and opened message, stored in this form until it is handled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    pub conversation: ConversationId,
    pub conversation_type: ConversationType,
    pub seq: u64,
    pub sender: RelayParty,
    pub device: DeviceId,
    pub content_type: ContentType,
    pub payload: Value,
    /// Digest of the sealed envelope; `None` for a message stored by an earlier version of this program.
    pub envelope: Option<Digest>,
    /// How the message was sealed: with or without forward secrecy.
    pub mode: SealMode,
    /// Time of sealing, signed by the sender.
    pub sealed_at: Timestamp,
    pub at: Timestamp,
}

/// Message that could not be opened. All fields but `why` come from the relay and are unverified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnopenableMessage {
    pub conversation: ConversationId,
    pub seq: u64,
    pub sender: RelayParty,
    pub content_type: ContentType,
    pub why: OpenError,
}

/// An agent or a person's device at a relay. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct Peer {
    state: Arc<PeerState>,
}

struct PeerState {
    context: Arc<PeerContext>,
    keys: Arc<SealKeyService>,
    outbox: Arc<SealedMessageOutbox>,
    calls: DeviceToolCaller,
    streams: Arc<OutgoingStreams>,
    handler: Arc<dyn PeerHandler>,
    /// Last started handler task of each conversation; the next task waits for it.
    handling: Mutex<HashMap<ConversationId, JoinHandle<()>>>,
    /// Conversation and number of the last rekey message to each device.
    rekeyed: Mutex<HashMap<DeviceId, (ConversationId, u64)>>,
    incoming: Mutex<HashMap<(ConversationId, StreamId), IncomingTextStream>>,
}

impl Peer {
    /// Creates a peer, which does nothing until [`Peer::run`].
    #[must_use]
    pub fn new(config: PeerConfig) -> Self {
        let PeerConfig { relay, key_store, seal_identity, clock, entropy, handler } = config;
        let context = Arc::new(PeerContext::new(relay, key_store, clock, entropy));
        let keys = Arc::new(SealKeyService {
            context: Arc::clone(&context),
            seal_identity: Arc::new(Mutex::new(seal_identity)),
            trusted_keys: BoundedCache::new(MAX_CACHED_OWNERS),
        });
        let outbox = Arc::new(SealedMessageOutbox {
            context: Arc::clone(&context),
            keys: Arc::clone(&keys),
            send_locks: Mutex::default(),
            leftovers: OnceCell::new(),
            back: Notify::new(),
        });
        let streams = OutgoingStreams {
            context: Arc::clone(&context),
            keys: Arc::clone(&keys),
            outbox: Arc::clone(&outbox),
            writing: Mutex::default(),
        };
        let waiting = Mutex::default();
        let state = PeerState {
            calls: DeviceToolCaller { context: Arc::clone(&context), outbox: Arc::clone(&outbox), waiting },
            streams: Arc::new(streams),
            context,
            keys,
            outbox,
            handler,
            handling: Mutex::default(),
            rekeyed: Mutex::default(),
            incoming: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }

    #[must_use]
    pub fn me(&self) -> &RelayParty {
        self.state.context.me()
    }

    #[must_use]
    pub fn keys(&self) -> &SealKeyService {
        &self.state.keys
    }

    #[must_use]
    pub fn outbox(&self) -> &SealedMessageOutbox {
        &self.state.outbox
    }

    #[must_use]
    pub fn calls(&self) -> &DeviceToolCaller {
        &self.state.calls
    }

    #[must_use]
    pub fn streams(&self) -> &Arc<OutgoingStreams> {
        &self.state.streams
    }

    /// Two-party conversation with `other`; created if there is none.
    pub async fn conversation_with(&self, other: &RelayParty) -> Result<Arc<Conversation>, SendError> {
        self.state.context.conversation_with(other).await
    }

    /// A conversation that this peer is a member of.
    pub async fn conversation(&self, id: &ConversationId) -> Result<Arc<Conversation>, SendError> {
        self.state.context.conversation(id).await
    }

    /// Deletes every stored record of this peer that contains one of these texts.
    pub fn forget(&self, texts: &[String]) -> Result<(), KeyStoreError> {
        self.state.context.forget_conversations();
        self.state.keys.trusted_keys.clear();
        self.state.context.key_store.forget(texts)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.me())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
