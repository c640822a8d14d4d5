//! Reaching a relay: what an agent or a device asks of it, over the network or in the same process.

use std::fmt;

use async_trait::async_trait;
use nuncio_core::Code;
use nuncio_core::bundle::{BundleId, KeyBundle, OneTimeKey};
use nuncio_core::conversation::{Conversation, Post, Posted};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ConversationId, DeviceId, MessageId, RelationId};
use serde_json::Value;

use crate::wire::stream::{StreamFrame, StreamNews};

mod enrol;
mod here;
mod http;
mod read;
mod socket;
mod who;

pub use enrol::{Enrolled, Invitation, enrol};
pub use here::LocalRelay;
pub use http::{HttpRelay, RelayAddress};
pub(crate) use read::{hooked_event, hooked_message};
pub use who::{AgentToken, Credentials, DeviceLogin, Sign, Who};

/// Something the relay told, in its place among all it told.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    /// Its number; acknowledging it acknowledges all before. Zero for what is told in passing and not kept.
    pub seq: u64,
    /// What.
    pub what: What,
}

/// What the relay told.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A message came.
    Message(Box<Posted>),
    /// Someone seals with other keys from now on.
    KeysChanged(Recipient),
    /// What a person allows changed, began or ended.
    Relation(RelationId),
    /// A device took a call upon itself.
    Claimed {
        /// The call.
        message: MessageId,
        /// Which device.
        device: DeviceId,
    },
    /// Something of a stream, in passing.
    Stream(Box<StreamNews>),
    /// Something else, by its name.
    Other(String),
}

/// Why the relay did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// It cannot be reached, or has a fault: trying again may help.
    #[error("the relay cannot be reached: {0}")]
    Unreachable(String),
    /// Too often; in how many seconds to try again.
    #[error("{message}")]
    TooMany {
        /// In how many seconds to try again.
        seconds: u64,
        /// What it says.
        message: String,
    },
    /// It says no.
    #[error("{message}")]
    Refused {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        message: String,
    },
    /// A person's device must sign that first: the ledger's entry.
    #[error("a device must sign this first")]
    Unsigned(Value),
}

impl RelayError {
    /// Whether the same may work a little later.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

/// A relay, as one who is known there.
#[async_trait]
pub trait Relay: fmt::Debug + Send + Sync + 'static {
    /// Who we are there.
    fn me(&self) -> &Recipient;
    /// Brings keys; how many one-time keys wait then.
    async fn register_keys(&self, bundle: Option<KeyBundle>, keys: Vec<OneTimeKey>) -> Result<usize, RelayError>;
    /// Somebody's keys.
    async fn keys_of(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, RelayError>;
    /// A one-time key of a device, for us alone.
    async fn one_time_key(&self, id: &BundleId) -> Result<OneTimeKey, RelayError>;
    /// A conversation of ours.
    async fn conversation(&self, id: &ConversationId) -> Result<Conversation, RelayError>;
    /// The conversation with someone alone, begun if there is none.
    async fn conversation_with(&self, other: &Recipient) -> Result<Conversation, RelayError>;
    /// Sends a message; the number it got. The same again gets the same.
    async fn post(&self, conversation: &ConversationId, post: &Post) -> Result<u64, RelayError>;
    /// Whatever is told after that number; waits until there is something.
    async fn events(&self, after: Option<u64>) -> Result<Vec<Delivered>, RelayError>;
    /// Everything up to that number is dealt with.
    async fn acknowledge(&self, seq: u64) -> Result<(), RelayError>;
    /// Takes a tool call upon itself; false when another device did.
    async fn claim(&self, message: &MessageId) -> Result<bool, RelayError>;
    /// The manifest of an agent; null when it has none.
    async fn manifest(&self, agent: &AgentId) -> Result<Value, RelayError>;

    /// Whether streams can be sent at this moment.
    fn streams(&self) -> bool {
        false
    }

    /// Sends something of a stream, or drops it: nothing here is certain, and nothing waits. What the relay has
    /// against it may be told later, as [`StreamNews::Error`].
    async fn stream(&self, frame: StreamFrame) -> Result<(), RelayError> {
        let _ = frame;
        Err(RelayError::Unreachable("streams do not go this way".to_owned()))
    }
}
