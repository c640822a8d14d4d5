//! Client of a relay for an agent or a device, over the network or in the same process.

use std::fmt;

use async_trait::async_trait;
use nuncio_core::ErrorCode;
use nuncio_core::bundle::{KeyBundle, KeyBundleId, OneTimeKey};
use nuncio_core::conversation::{Conversation, ConversationMessage};
use nuncio_core::ids::{AgentId, ConversationId, DeviceId, MessageId, RelationId};
use nuncio_core::notification::RelayParty;
use nuncio_engine::relay::MessageToPost;
use serde_json::Value;

use crate::wire::stream::{RelayStreamFrame, StreamFrame};

mod enrol;
mod http;
mod local_relay;
mod read;
mod relay_identity;
mod socket;

pub use enrol::{DeviceInvitation, EnrolledDevice, enrol};
pub use http::{HttpRelayClient, RelayAddress};
pub use local_relay::InProcessRelayClient;
pub(crate) use read::{hooked_event, hooked_message};
pub use relay_identity::{
    AgentRelayCredentials, DeviceRelayCredentials, RelayClientIdentity, RelayCredentials, SignFn,
};

#[derive(Debug, Clone, PartialEq)]
pub struct RelayEvent {
    /// Number of the event; acknowledging it also acknowledges all earlier ones. Zero for events that are not stored.
    pub seq: u64,
    pub what: RelayEventKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RelayEventKind {
    Message(Box<ConversationMessage>),
    /// An agent or person published new keys.
    KeysChanged(RelayParty),
    /// A person gave, changed or revoked consent to an agent.
    Relation(RelationId),
    /// A device of the person claimed a tool call.
    Claimed {
        message: MessageId,
        device: DeviceId,
    },
    /// A stream began, continued or ended; such events are not stored.
    Stream(Box<RelayStreamFrame>),
    /// Any other event, with its `type`.
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayClientError {
    /// The relay cannot be reached or has an internal fault; a retry may help.
    #[error("the relay cannot be reached: {0}")]
    Unreachable(String),
    #[error("{message}")]
    TooMany { seconds: u64, message: String },
    #[error("{message}")]
    Refused { code: ErrorCode, message: String },
    /// The relay requires a signature by the person's device on this ledger entry first.
    #[error("a device of the person must sign this request first")]
    Unsigned(Value),
}

impl RelayClientError {
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

/// Connection to a relay with the identity of one agent or device.
#[async_trait]
pub trait RelayClient: fmt::Debug + Send + Sync + 'static {
    fn me(&self) -> &RelayParty;
    /// Publishes keys of this agent or device. Returns the number of its one-time keys stored at the relay.
    async fn register_keys(&self, bundle: Option<KeyBundle>, keys: Vec<OneTimeKey>) -> Result<usize, RelayClientError>;
    async fn keys_of(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, RelayClientError>;
    /// Takes a one-time key of another device. The relay gives each key to one sender only, except the fallback key,
    /// which it gives when no other is left.
    async fn one_time_key(&self, id: &KeyBundleId) -> Result<OneTimeKey, RelayClientError>;
    async fn conversation(&self, id: &ConversationId) -> Result<Conversation, RelayClientError>;
    /// Two-party conversation with `other`; created if there is none.
    async fn conversation_with(&self, other: &RelayParty) -> Result<Conversation, RelayClientError>;
    /// Sends a message and returns its number in the conversation. Sending it again returns the same number.
    async fn post(&self, conversation: &ConversationId, post: MessageToPost) -> Result<u64, RelayClientError>;
    /// Events numbered above `after`, by default above the acknowledged position; waits until there is at least one.
    async fn events(&self, after: Option<u64>) -> Result<Vec<RelayEvent>, RelayClientError>;
    /// Acknowledges all events up to number `seq`.
    async fn acknowledge(&self, seq: u64) -> Result<(), RelayClientError>;
    /// Claims a tool call for this device; false if another device has claimed it.
    async fn claim(&self, message: &MessageId) -> Result<bool, RelayClientError>;
    /// Manifest of an agent as JSON; null if the agent has none.
    async fn manifest(&self, agent: &AgentId) -> Result<Value, RelayClientError>;

    /// Whether streams can be sent at the moment.
    fn streams(&self) -> bool {
        false
    }

    /// Sends a stream frame, or drops it; delivery is not guaranteed. The relay may report an error later as
    /// [`RelayStreamFrame::Error`].
    async fn stream(&self, _frame: StreamFrame) -> Result<(), RelayClientError> {
        Err(RelayClientError::Unreachable("this connection does not support streams".to_owned()))
    }
}
