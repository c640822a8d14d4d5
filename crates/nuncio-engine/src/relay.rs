//! Carrying sealed messages between people and agents: in order, once, to everyone who takes part, and
//! without a key to read them.

use std::collections::BTreeSet;
use std::time::Duration;

use nuncio_core::ids::AgentName;

mod conversations;
mod keys;
mod messages;
mod rates;
mod streams;
mod webhooks;

pub use conversations::NewConversation;
pub use keys::{KeyUpload, KeysHeld};
pub use messages::{NewPost, Receipt};
pub(crate) use rates::ToolCallRates;
pub(crate) use streams::Streams;
pub use streams::{
    MAX_STREAM_PIECE, MAX_STREAM_START, StreamEar, StreamEnd, StreamPiece, StreamTold, StreamWhat, Streamer,
};
pub use webhooks::{AgentCall, Answered, CallKey, CallOutcome, Probe, WaitingDelivery, WebhookSecret, WebhookView};
pub(crate) use webhooks::{Called, Reconnection};

/// What an operator decides about the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayRules {
    /// How many tools an agent may call a minute.
    pub tool_calls_per_minute: u32,
    /// How long messages are kept.
    pub messages_kept: Duration,
    /// How many conversations someone may take part in.
    pub conversations_per_member: usize,
    /// The agents served here whose people are reached by another relay.
    pub elsewhere: BTreeSet<AgentName>,
    /// How long the log of webhook deliveries is kept.
    pub delivery_log_kept: Duration,
}

impl Default for RelayRules {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self {
            tool_calls_per_minute: 60,
            messages_kept: DAY * 365,
            conversations_per_member: 10_000,
            elsewhere: BTreeSet::new(),
            delivery_log_kept: DAY * 30,
        }
    }
}
