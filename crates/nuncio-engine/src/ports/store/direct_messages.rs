//! Store of messages between agents: replies that are still to be delivered, and sent messages with their replies.

use async_trait::async_trait;
use nuncio_core::ids::{AgentName, SessionId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum DirectMessageChange {
    /// Stores a pending reply; no conflict if it is stored already. `NoSession` if its session does not exist.
    PutPendingReply(PendingReply),
    /// Removes a pending reply; no conflict if there is none.
    RemovePendingReply(String),
    /// Stores a sent direct message. `Exists` if its agent used the message id before.
    Create(SentDirectMessage),
    /// Stores the first reply to a direct message. `Missing` unless `agent` sent the message `id` to `from`.
    Answer { agent: AgentName, id: String, from: String, answer: DirectMessageReply },
    /// Deletes direct messages sent before the given time, with their replies.
    Forget(Timestamp),
}

/// A reply that must be delivered to another agent. It exists from before the turn begins until it is delivered or
/// given up, with a job of the kind [`Reply`](super::JobKind::Reply).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingReply {
    /// Id of the reply, derived from the message, so that a repetition has the same id.
    pub id: String,
    pub session: SessionId,
    /// Idempotency key of the request that began the turn.
    pub request: String,
    pub owner: Principal,
    pub agent: AgentName,
    /// DID of the agent to which the reply is delivered.
    pub to: String,
    pub answers: String,
}

/// A direct message that a local agent sent, with its reply if one was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentDirectMessage {
    pub id: String,
    pub agent: AgentName,
    pub to: String,
    pub sent_at: Timestamp,
    pub answer: Option<DirectMessageReply>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectMessageReply {
    pub text: String,
    pub at: Timestamp,
}

#[async_trait]
pub trait DirectMessageStore: Send + Sync {
    async fn pending_reply(&self, id: &str) -> Result<Option<PendingReply>, StoreError>;
    async fn direct_message(&self, agent: &AgentName, id: &str) -> Result<Option<SentDirectMessage>, StoreError>;
}
