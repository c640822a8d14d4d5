//! Store of the relay: end-to-end encrypted conversations, public keys and webhooks.

use async_trait::async_trait;
use nuncio_core::bundle::{DeviceEndorsement, KeyBundle, KeyBundleId, OneTimeKey};
use nuncio_core::conversation::{Conversation, ConversationMessage, MessageRef, SubmittedMessage, ToolCallClaim};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId, PersonName};
use nuncio_core::notification::{QueuedNotification, RelayParty, WebhookState};
use nuncio_core::time::Timestamp;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum RelayChange {
    /// Creates a conversation. `Exists` if the id is taken or the two members of a direct conversation have one.
    CreateConversation(Conversation),
    /// Updates the members of a conversation. `Missing` if unknown; `Moved` unless the stored revision is the previous.
    UpdateConversation(Conversation),
    /// Appends a message and notifies each of `to` with
    /// [`Notification::Message`](nuncio_core::notification::Notification::Message). `Missing` if there is no such
    /// conversation; `Moved` unless it is at `revision`; `Exists` if the sender used the client id there before.
    /// The sender's read position advances.
    PostMessage {
        conversation: ConversationId,
        /// Revision of the member list that the sender saw.
        revision: u64,
        at: Timestamp,
        post: SubmittedMessage,
        to: Vec<RelayParty>,
    },
    /// Advances a member's read position, never back and at most to the last message. `Missing` unless `reader`
    /// is a member.
    ReadConversation { conversation: ConversationId, reader: RelayParty, seq: u64 },
    /// Claims a message for a device. `Missing` if the message does not exist; `Exists` if another device claimed it.
    ClaimMessage { place: MessageRef, claim: ToolCallClaim },
    /// Deletes at most `limit` messages older than `before`.
    ForgetMessages { before: Timestamp, limit: usize },
    /// Replaces the key bundle of a device or agent. `Moved` unless `seq` increases. Bundles of other owners stay. A
    /// new Olm key deletes the one-time keys. An agent has one bundle: those of its other devices are deleted.
    PutBundle(Box<KeyBundle>),
    /// Stores a cross-signature by another device of the same person. `Missing` if the device has no bundle.
    EndorseBundle { id: KeyBundleId, endorsement: DeviceEndorsement },
    /// Adds one-time keys; a fallback key replaces the previous one. Known keys stay. Beyond `most`, without the
    /// fallback key, the oldest are deleted. `Missing` if the device has no bundle.
    PutOneTimeKeys { id: KeyBundleId, keys: Vec<OneTimeKey>, most: usize },
    /// Removes a one-time key that is handed out; a fallback key stays. `Missing` if the key does not exist.
    TakeOneTimeKey { id: KeyBundleId, key_id: String },
    /// Deletes the keys of a revoked device; no conflict if it had none.
    RemoveBundle(KeyBundleId),
    /// Replaces a person's encrypted key backup.
    PutBackup {
        person: PersonName,
        /// The key backup as received, in JSON.
        content: String,
        at: Timestamp,
    },
    /// Deletes a person's key backup. `Missing` if there is none.
    RemoveBackup(PersonName),
    /// Creates or updates an agent's webhook. Waiting deliveries stay. From now on, each notification of the agent
    /// creates a job of the kind [`Delivery`](super::JobKind::Delivery), unless the webhook is disabled.
    PutWebhook(Webhook),
    /// Deletes a webhook with the jobs of its deliveries and probes; no conflict if there is none.
    RemoveWebhook(AgentId),
    /// Logs a delivery that succeeded or was given up; no conflict if it is logged already.
    LogDelivery { agent: AgentId, logged: WebhookDeliveryLogEntry },
    /// Deletes at most `limit` delivery log entries older than `before`.
    ForgetDeliveryLog { before: Timestamp, limit: usize },
}

/// A conversation with one member's read position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberConversation {
    pub conversation: Conversation,
    /// Number of the last message of the conversation; zero if there is none.
    pub last_seq: u64,
    /// Number of the last message that the member read.
    pub read_seq: u64,
}

/// State of an agent's webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Agent of the webhook, whose account has the URL.
    pub agent: AgentId,
    /// The webhook's signing secret, encrypted by the server.
    pub secret: String,
    pub state: WebhookState,
    /// Time of the first failed delivery since the last successful one.
    pub failing_since: Option<Timestamp>,
    /// Time of the next probe while the webhook is unreachable.
    pub probe_at: Option<Timestamp>,
}

/// A notification to deliver to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookDelivery {
    pub agent: AgentId,
    pub mailed: QueuedNotification,
    /// Number of delivery attempts so far.
    pub attempts: u32,
    pub due: Timestamp,
}

/// Log entry of a finished delivery, without its content.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WebhookDeliveryLogEntry {
    /// Number of the notification that was delivered or given up.
    pub seq: u64,
    pub delivery_id: String,
    /// Kind of notification, such as `message.new`.
    pub kind: String,
    pub at: Timestamp,
    /// Number of delivery attempts so far.
    pub attempts: u32,
    pub delivered: bool,
    /// Last response of the agent's server, or why there was none.
    pub outcome: String,
}

#[async_trait]
pub trait RelayStore: Send + Sync {
    /// The conversation with the read position of `member`; `None` unless they are a member.
    async fn member_view(
        &self,
        id: &ConversationId,
        member: &RelayParty,
    ) -> Result<Option<MemberConversation>, StoreError>;
    /// The direct conversation of two members, by its [`Conversation::pair`].
    async fn conversation_of_pair(&self, pair: &str) -> Result<Option<Conversation>, StoreError>;
    /// Conversations of a member with an id above `after`, ordered by id.
    async fn conversations_of(
        &self,
        member: &RelayParty,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<Vec<MemberConversation>, StoreError>;
    async fn relayed(&self, place: &MessageRef) -> Result<Option<ConversationMessage>, StoreError>;
    /// Finds a message by the client id that its sender chose.
    async fn relayed_by_client_id(
        &self,
        conversation: &ConversationId,
        sender: &RelayParty,
        client_id: &ClientMessageId,
    ) -> Result<Option<ConversationMessage>, StoreError>;
    /// Messages of a conversation with a number above `after`, in order.
    async fn relayed_after(
        &self,
        conversation: &ConversationId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ConversationMessage>, StoreError>;
    /// The claim of a device on a message.
    async fn claim(&self, place: &MessageRef) -> Result<Option<ToolCallClaim>, StoreError>;
    /// Senders and times of the tool calls at or after `time`, in the order of arrival. If the clock was set back, those
    /// that arrived before an older message are missing.
    async fn tool_calls_since(&self, time: Timestamp) -> Result<Vec<(AgentId, Timestamp)>, StoreError>;
    /// Whether the message stored first is older than `time`.
    async fn is_any_relayed_before(&self, time: Timestamp) -> Result<bool, StoreError>;
}

#[async_trait]
pub trait KeyBundleStore: Send + Sync {
    async fn bundle(&self, id: &KeyBundleId) -> Result<Option<KeyBundle>, StoreError>;
    /// Bundles of all devices of an owner.
    async fn bundles(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, StoreError>;
    async fn bundle_owners(&self, device: &DeviceId, limit: usize) -> Result<Vec<RelayParty>, StoreError>;
    /// The oldest one-time key of a device, or the fallback key.
    async fn one_time_key(&self, id: &KeyBundleId) -> Result<Option<OneTimeKey>, StoreError>;
    /// Number of one-time keys of a device, without the fallback key.
    async fn one_time_keys_left(&self, id: &KeyBundleId) -> Result<usize, StoreError>;
    /// A person's key backup and its time.
    async fn backup(&self, person: &PersonName) -> Result<Option<(String, Timestamp)>, StoreError>;
}

#[async_trait]
pub trait WebhookStore: Send + Sync {
    async fn webhook(&self, agent: &AgentId) -> Result<Option<Webhook>, StoreError>;
    async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError>;
    /// Oldest waiting delivery of an agent, in any webhook state.
    async fn first_delivery(&self, agent: &AgentId) -> Result<Option<WebhookDelivery>, StoreError>;
    /// At most `limit` delivery log entries of an agent with a number below `before`, newest first.
    async fn delivery_log(
        &self,
        agent: &AgentId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<WebhookDeliveryLogEntry>, StoreError>;
    /// Whether any delivery log entry is older than `time`.
    async fn is_any_delivery_logged_before(&self, time: Timestamp) -> Result<bool, StoreError>;
}
