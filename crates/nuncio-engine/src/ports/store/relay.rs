//! Conversations whose words nobody here can read, the keys they are sealed with, and who is called when
//! something happens.

use async_trait::async_trait;
use nuncio_core::bundle::{BundleId, Endorsement, KeyBundle, OneTimeKey};
use nuncio_core::conversation::{Conversation, ConversationMessage, MessageRef, NewMessage, ToolCallClaim};
use nuncio_core::happening::{QueuedNotification, Recipient, WebhookState};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId, PersonName};
use nuncio_core::time::Timestamp;

use super::{Change, StoreError};

/// One change of what is relayed.
#[derive(Debug, Clone, PartialEq)]
pub enum RelayChange {
    /// A conversation begins. `Exists` if the id is taken, or the two have one already.
    CreateConversation(Conversation),
    /// Others take part: `Missing`, or `Moved` unless its stored revision is the one before.
    UpdateConversation(Conversation),
    /// A message gets the next number of its conversation, and each of `to` is told with
    /// [`Happening::Message`](nuncio_core::happening::Notification::Message). `Missing` if there is no such
    /// conversation, `Moved` unless it is at that revision, `Exists` if the sender has used the client id
    /// there before. The sender has read it.
    PostMessage {
        /// Where.
        conversation: ConversationId,
        /// Who took part when it was sent.
        revision: u64,
        /// When.
        at: Timestamp,
        /// The message.
        post: NewMessage,
        /// Who is told.
        to: Vec<Recipient>,
    },
    /// A member has read up to that number; never back. Numbers beyond the last count as the last.
    /// `Missing` unless they take part.
    ReadConversation {
        /// Which.
        conversation: ConversationId,
        /// Who.
        reader: Recipient,
        /// Up to which number.
        seq: u64,
    },
    /// A device takes a message upon itself. `Missing` if there is none, `Exists` if another device did.
    ClaimMessage {
        /// Which.
        place: MessageRef,
        /// By whom.
        claim: ToolCallClaim,
    },
    /// At most `limit` messages that came before that time are forgotten.
    ForgetMessages {
        /// The time.
        before: Timestamp,
        /// How many at most.
        limit: usize,
    },
    /// A device or agent seals with these keys from now on. `Moved` unless their `seq` is greater than the
    /// stored one's. Other owners' devices of the same id are not touched. When the Olm key is another, what
    /// one-time keys there were are gone. An agent has one bundle: those of its other devices are gone.
    PutBundle(Box<KeyBundle>),
    /// Another device of the same person vouches for one. `Missing` if it has no keys.
    EndorseBundle {
        /// Owner and device.
        id: BundleId,
        /// What the other one signed.
        endorsement: Endorsement,
    },
    /// More one-time keys of a device; a fallback key replaces the one before. Keys it had before stay as
    /// they are. Beyond `most`, the fallback key not counted, the oldest are gone. `Missing` if the device
    /// has no bundle.
    PutOneTimeKeys {
        /// Owner and device.
        id: BundleId,
        /// The keys.
        keys: Vec<OneTimeKey>,
        /// How many there may be.
        most: usize,
    },
    /// A one-time key is handed out; a fallback key stays. `Missing` if it was.
    TakeOneTimeKey {
        /// Owner and device.
        id: BundleId,
        /// Which of its keys.
        key_id: String,
    },
    /// The keys of a device that was taken away are gone; no fault when it had none.
    RemoveBundle(BundleId),
    /// A person's keys, sealed by themselves, replacing those before.
    PutBackup {
        /// Whose.
        person: PersonName,
        /// What they sent, as JSON.
        content: String,
        /// When.
        at: Timestamp,
    },
    /// A person's backup is gone. `Missing`.
    RemoveBackup(PersonName),
    /// An agent is called from now on, whenever it is told something; or called otherwise. What waited
    /// stays.
    PutWebhook(Webhook),
    /// An agent is not called any more; what waited is gone. No fault when it was not.
    RemoveWebhook(AgentId),
    /// What an agent was told has arrived, or never will: the delivery is gone and stands in the log. No
    /// fault when it is gone already.
    EndDelivery {
        /// Which agent.
        agent: AgentId,
        /// The number of what it was told.
        seq: u64,
        /// What stands in the log.
        logged: DeliveryLog,
    },
    /// What an agent was told is tried again then. No fault when it is gone.
    DelayDelivery {
        /// Which agent.
        agent: AgentId,
        /// The number of what it was told.
        seq: u64,
        /// How often it was tried.
        attempts: u32,
        /// When it is tried again.
        due: Timestamp,
    },
    /// Everything that waits for an agent is tried then, unless it is due sooner.
    HastenDeliveries {
        /// Which agent.
        agent: AgentId,
        /// When.
        due: Timestamp,
    },
    /// The log of deliveries before that time is forgotten, at most `limit`.
    ForgetDeliveryLog {
        /// The time.
        before: Timestamp,
        /// How many at most.
        limit: usize,
    },
}

impl From<RelayChange> for Change {
    fn from(change: RelayChange) -> Self {
        Self::Relay(Box::new(change))
    }
}

/// A conversation as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The conversation.
    pub conversation: Conversation,
    /// The number of its last message; zero for none.
    pub last_seq: u64,
    /// Up to which number the member has read.
    pub read_seq: u64,
}

/// Where an agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Which agent. Where it is called is in its account.
    pub agent: AgentId,
    /// The secret its calls are signed with, sealed by the vault.
    pub secret: String,
    /// Whether it can be reached.
    pub state: WebhookState,
    /// Since when every call failed; none after one that did not.
    pub failing_since: Option<Timestamp>,
    /// When it is asked whether it is back; while it cannot be reached.
    pub probe_at: Option<Timestamp>,
}

/// Something an agent is to be called with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Which agent.
    pub agent: AgentId,
    /// What it was told.
    pub mailed: QueuedNotification,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried.
    pub due: Timestamp,
}

/// What is kept of a delivery that is over. Never what it said.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeliveryLog {
    /// The number of what the agent was told.
    pub seq: u64,
    /// The name under which it was called.
    pub delivery_id: String,
    /// What kind of thing it was told, such as `message.new`.
    pub kind: String,
    /// When it was over.
    pub at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// Whether it arrived.
    pub delivered: bool,
    /// What the agent's server answered last, or why it did not.
    pub outcome: String,
}

/// Conversations and their messages.
#[async_trait]
pub trait Relayed {
    /// A conversation, as a member sees it; none unless they take part.
    async fn held(&self, id: &ConversationId, member: &Recipient) -> Result<Option<Held>, StoreError>;
    /// The conversation of two, by [`Conversation::pair`].
    async fn conversation_of_pair(&self, pair: &str) -> Result<Option<Conversation>, StoreError>;
    /// A member's conversations by id, those behind `after`, at most `limit`.
    async fn conversations_of(
        &self,
        member: &Recipient,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<Vec<Held>, StoreError>;
    /// A message.
    async fn relayed(&self, place: &MessageRef) -> Result<Option<ConversationMessage>, StoreError>;
    /// The message that a sender named so.
    async fn relayed_by_client_id(
        &self,
        conversation: &ConversationId,
        sender: &Recipient,
        client_id: &ClientMessageId,
    ) -> Result<Option<ConversationMessage>, StoreError>;
    /// A conversation's messages after a number, in order, at most `limit`.
    async fn relayed_after(
        &self,
        conversation: &ConversationId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ConversationMessage>, StoreError>;
    /// Who took a message upon itself.
    async fn claim(&self, place: &MessageRef) -> Result<Option<ToolCallClaim>, StoreError>;
    /// Whether any message came before that time and is still kept.
    async fn is_any_relayed_before(&self, time: Timestamp) -> Result<bool, StoreError>;
}

/// The public keys of devices and agents.
#[async_trait]
pub trait SealKeys {
    /// A device's keys.
    async fn bundle(&self, id: &BundleId) -> Result<Option<KeyBundle>, StoreError>;
    /// The keys of someone's devices, by device.
    async fn bundles(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, StoreError>;
    /// Owners with a bundle for a device of that id, at most `limit`.
    async fn bundle_owners(&self, device: &DeviceId, limit: usize) -> Result<Vec<Recipient>, StoreError>;
    /// The next one-time key of a device: the oldest, or the fallback key when there is no other.
    async fn one_time_key(&self, id: &BundleId) -> Result<Option<OneTimeKey>, StoreError>;
    /// How many one-time keys a device has left, the fallback key not counted.
    async fn one_time_keys_left(&self, id: &BundleId) -> Result<usize, StoreError>;
    /// A person's backup and since when.
    async fn backup(&self, person: &PersonName) -> Result<Option<(String, Timestamp)>, StoreError>;
}

/// Agents that are called.
#[async_trait]
pub trait Webhooks {
    /// Where an agent is called; none when it is not.
    async fn webhook(&self, agent: &AgentId) -> Result<Option<Webhook>, StoreError>;
    /// Everyone who is called.
    async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError>;
    /// What is to be delivered by then, the first of each lane, in the order in which it is due, at most
    /// `limit`. A lane is what an agent is told about one conversation, or about no conversation: there
    /// nothing overtakes. Agents that cannot be reached have none, and those in `except` are left out.
    async fn deliveries(&self, by: Timestamp, except: &[AgentId], limit: usize) -> Result<Vec<Delivery>, StoreError>;
    /// The oldest delivery that waits for an agent, however it is.
    async fn first_delivery(&self, agent: &AgentId) -> Result<Option<Delivery>, StoreError>;
    /// An agent's log before a number, the newest first, at most `limit`.
    async fn delivery_log(&self, agent: &AgentId, before: u64, limit: usize) -> Result<Vec<DeliveryLog>, StoreError>;
    /// Whether anything in the log is of before that time.
    async fn is_any_delivery_logged_before(&self, time: Timestamp) -> Result<bool, StoreError>;
}
