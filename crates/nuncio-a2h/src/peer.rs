//! Someone at a relay, an agent or a person's device: messages come and go sealed, agents call tools of
//! people's devices and devices answer, and what was not yet sent or dealt with survives the end of the
//! process.
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
use nuncio_identity::seal::{Keep, KeepError, OpenError, Party};
use serde_json::Value;
use tokio::sync::{Notify, OnceCell, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Relay, What};
use crate::wire::artifact::Outcome;

mod calls;
mod decided;
mod error;
mod hook;
mod inbox;
mod listening;
mod named;
mod outbox;
mod run;
mod turns;
mod writing;

pub use calls::CallOptions;
pub use error::{SendError, ToolError};
pub use hook::{HookError, Hooks};
use listening::Heard;
pub use listening::{StreamEvent, Streamed};
pub use named::Sent;
pub use writing::StreamWriter;

/// What it stands on.
pub struct PeerConfig {
    /// The relay.
    pub relay: Arc<dyn Relay>,
    /// Where its keys are, and what must not be lost.
    pub keep: Arc<dyn Keep>,
    /// Its keys.
    pub party: Party,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Who answers messages.
    pub handler: Arc<dyn OnMessage>,
}

/// Who answers messages.
#[async_trait]
pub trait OnMessage: fmt::Debug + Send + Sync + 'static {
    /// A message came. Those of one conversation come one after the other; each at least once. A person's other
    /// devices are heard too: `sender` is then the person themselves.
    async fn on_message(&self, peer: &Peer, message: Inbound);

    /// A message came and was not opened: somebody changed it on the way, or it is not to be trusted. A person
    /// is shown why.
    async fn on_refused(&self, peer: &Peer, refused: Refused) {
        let _ = (peer, refused);
    }

    /// The relay has a message that this very device sent. Whatever comes after waits for it; each at least once.
    async fn on_sent(&self, peer: &Peer, sent: Sent) {
        let _ = (peer, sent);
    }

    /// A message is being written. Everything told of it was opened and checked; whatever comes after waits for it.
    async fn on_stream(&self, peer: &Peer, event: StreamEvent) {
        let _ = (peer, event);
    }

    /// Something else was told. Whatever comes after waits for it.
    async fn on_event(&self, peer: &Peer, what: &What) {
        let _ = (peer, what);
    }
}

/// Answers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

#[async_trait]
impl OnMessage for Silent {
    async fn on_message(&self, _: &Peer, _: Inbound) {}
}

/// A message that was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    /// Where.
    pub conversation: ConversationId,
    /// Who takes part there.
    pub conversation_type: ConversationType,
    /// Its number there.
    pub seq: u64,
    /// Who sent it.
    pub sender: Recipient,
    /// On which device.
    pub device: DeviceId,
    /// What it holds.
    pub content_type: ContentType,
    /// What it says.
    pub payload: Value,
    /// The digest of the sealed envelope; none for a message that an earlier version received.
    pub envelope: Option<Digest>,
    /// Whether its keys give forward secrecy.
    pub mode: SealMode,
    /// When its sender sealed it, as they signed it.
    pub sealed_at: Timestamp,
    /// When it came.
    pub at: Timestamp,
}

/// A message that was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Where.
    pub conversation: ConversationId,
    /// Its number there, as the relay says.
    pub seq: u64,
    /// Who sent it, as the relay says.
    pub sender: Recipient,
    /// What it holds, as the relay says.
    pub content_type: ContentType,
    /// Why it was not opened.
    pub why: OpenError,
}

/// An agent, or a person's device. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Peer {
    inner: Arc<Inner>,
}

struct Inner {
    relay: Arc<dyn Relay>,
    keep: Arc<dyn Keep>,
    party: Mutex<Party>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    handler: Arc<dyn OnMessage>,
    waiting: Mutex<HashMap<CallId, Waiting>>,
    /// The conversations that were looked up.
    conversations: Mutex<HashMap<ConversationId, Arc<Conversation>>>,
    /// Whose keys were looked at and have not changed since.
    met: Mutex<HashMap<Recipient, Vec<KeyBundle>>>,
    /// What each conversation is busy with.
    handling: Mutex<HashMap<ConversationId, JoinHandle<()>>>,
    /// Where one after the other sends: see [`turns`].
    lines: Mutex<HashMap<Option<ConversationId>, Arc<tokio::sync::Mutex<()>>>>,
    /// Whether what a process before this one sealed is sent.
    leftovers: OnceCell<()>,
    /// The relay is there again, for those who wait to try once more.
    back: Notify,
    /// The last letter to each device that says its session is lost: where, and its number there.
    rekeyed: Mutex<HashMap<DeviceId, (ConversationId, u64)>>,
    /// The streams it writes, each until it is over.
    writing: Mutex<HashMap<StreamId, CancellationToken>>,
    /// The streams it hears.
    heard: Mutex<HashMap<(ConversationId, StreamId), Heard>>,
}

/// A call that waits for its answer, and where that must come from.
struct Waiting {
    conversation: ConversationId,
    answer: oneshot::Sender<Outcome>,
    /// The device could not open it: it has to be sent again.
    again: Arc<Notify>,
}

impl Peer {
    /// One that does nothing yet: see [`Peer::run`].
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

    /// Who it is at the relay.
    #[must_use]
    pub fn me(&self) -> &Recipient {
        self.inner.relay.me()
    }

    /// The conversation with someone alone, begun if there is none.
    ///
    /// # Errors
    /// The relay cannot be reached, or the two do not deal with each other.
    pub async fn conversation_with(&self, other: &Recipient) -> Result<Arc<Conversation>, SendError> {
        let alone = |known: &&Arc<Conversation>| known.other(self.me()) == Some(other);
        let known = lock(&self.inner.conversations).values().find(alone).cloned();
        match known {
            Some(known) => Ok(known),
            None => Ok(self.remember(self.inner.relay.conversation_with(other).await?)),
        }
    }

    /// A conversation it takes part in.
    ///
    /// # Errors
    /// The relay cannot be reached, or there is none of that name for it.
    pub async fn conversation(&self, id: &ConversationId) -> Result<Arc<Conversation>, SendError> {
        let known = lock(&self.inner.conversations).get(id).cloned();
        match known {
            // Who is in a group changes; two stay two.
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

    /// The keys that are pinned for someone.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn pinned(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, SendError> {
        let owner = owner.clone();
        Ok(self.with_party(move |party| party.pinned(&owner)).await??)
    }

    /// The number that two compare to know that nobody is between them; none before first contact.
    ///
    /// # Errors
    /// What is known cannot be read, or the other's keys cannot be fetched.
    pub async fn safety_number(&self, owner: &Recipient) -> Result<Option<String>, SendError> {
        self.meet(owner).await?;
        let owner = owner.clone();
        Ok(self.with_party(move |party| party.safety_number(&owner)).await??)
    }

    /// Deletes every record of its own that mentions one of these texts.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub fn forget(&self, texts: &[String]) -> Result<(), KeepError> {
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

    /// Does something with the keys, where waiting for a disk holds nobody up.
    async fn with_party<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Party) -> T + Send + 'static,
    ) -> Result<T, SendError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&mut lock(&inner.party))).await;
        done.map_err(|_| SendError::Fault("sealing was given up".to_owned()))
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
