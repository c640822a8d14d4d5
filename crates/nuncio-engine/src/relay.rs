//! Relay of end-to-end encrypted messages between people and agents: ordered, exactly once, and unreadable for the
//! server.

use crate::accounts::{AgentAccountService, NotificationService};
use crate::context::EngineContext;
use crate::ports::store::{PersonStore, RelationStore, RelayStore, WebhookStore};
use std::sync::Arc;

use nuncio_core::ids::AgentId;
use nuncio_core::rate_window::KeyedWindowLimiter;

mod conversations;
mod messages;
mod streams;

pub use crate::limits::RelaySettings;
pub use conversations::NewConversation;
pub(crate) use conversations::{agent, member, person};
pub use messages::{MessageToPost, PostedMessage};
pub(crate) use streams::StreamSubscribers;
pub use streams::{
    MAX_STREAM_PIECE, MAX_STREAM_START, StreamAbortReason, StreamPiece, StreamSender, StreamSubscriber, StreamUpdate,
    StreamUpdateKind,
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
