//! Relay of end-to-end encrypted messages between people and agents: ordered, exactly once, and unreadable for the
//! server.

use crate::consent::{AgentAccountService, NotificationService};
use crate::context::EngineContext;
use crate::ports::store::{PersonStore, RelationStore, RelayStore, WebhookStore};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ids::{AgentId, AgentName};
use nuncio_core::rate_window::KeyedWindowLimiter;

mod conversations;
mod keys;
mod messages;
mod streams;
mod webhooks;

pub use conversations::NewConversation;
pub use keys::{DeviceKeyService, KeyBundleUpload, KeyBundleUploadResult};
pub use messages::{MessageToPost, PostedMessage};
pub(crate) use streams::StreamSubscribers;
pub use streams::{
    MAX_STREAM_PIECE, MAX_STREAM_START, StreamAbortReason, StreamPiece, StreamSender, StreamSubscriber, StreamUpdate,
    StreamUpdateKind,
};
pub(crate) use webhooks::{ConnectionModeChange, WebhookIndex, webhook_secret_context};
pub use webhooks::{
    DeliveryNextStep, WaitingDelivery, WebhookCall, WebhookResponse, WebhookSecret, WebhookService, WebhookStatusView,
};

/// Service for conversations of people and agents, their encrypted messages and streams.
pub struct RelayService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn RelayStore>,
    pub(crate) person_store: Arc<dyn PersonStore>,
    pub(crate) relation_store: Arc<dyn RelationStore>,
    pub(crate) webhook_store: Arc<dyn WebhookStore>,
    pub(crate) accounts: Arc<AgentAccountService>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) tool_calls: ToolCallRateLimiter,
    pub(crate) streams: StreamSubscribers,
}

pub(crate) type ToolCallRateLimiter = KeyedWindowLimiter<AgentId>;

/// Operator settings of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaySettings {
    /// Maximum tool calls per agent in any sixty seconds.
    pub tool_calls_per_minute: u32,
    pub messages_kept: Duration,
    /// Number of conversations of a member from which on it cannot begin another; others may still add it to theirs.
    pub conversations_per_member: usize,
    /// Local agents whose people use another relay.
    pub elsewhere: BTreeSet<AgentName>,
    pub delivery_log_kept: Duration,
}

impl Default for RelaySettings {
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
