//! Stored data about other agents: drafted protocols, pending replies, sent messages and DID links.

use async_trait::async_trait;
use nuncio_core::ids::{AgentName, DraftId, PersonName, SessionId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::store::StoreError;
use crate::drafting::ProtocolDraft;

/// A reply that must be delivered to another agent. It exists from before the turn begins until it is delivered or
/// given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingReply {
    /// Id of the reply, derived from the message, so that a repetition has the same id.
    pub id: String,
    pub session: SessionId,
    /// Idempotency key of the request that began the turn.
    pub request: String,
    pub owner: Principal,
    pub agent: AgentName,
    /// Address of the recipient's message service.
    pub to: String,
    pub answers: String,
    /// Time of the next delivery attempt or check.
    pub due: Timestamp,
    /// Number of delivery attempts so far.
    pub attempts: u32,
}

/// A message that a local agent sent, with its reply once it came.
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

/// Record that a principal, such as a DID, belongs to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonLink {
    pub principal: Principal,
    pub person: PersonName,
    pub since: Timestamp,
}

#[async_trait]
pub trait RemoteAgentStore {
    async fn draft(&self, id: &DraftId) -> Result<Option<ProtocolDraft>, StoreError>;
    /// Draft of a caller's request with that idempotency key.
    async fn draft_by_key(
        &self,
        with: &Principal,
        agent: &AgentName,
        key: &str,
    ) -> Result<Option<ProtocolDraft>, StoreError>;
    /// Undecided protocol drafts, oldest first.
    async fn open_drafts(&self, limit: usize) -> Result<Vec<ProtocolDraft>, StoreError>;
    /// Pending replies due until then, earliest first.
    async fn pending_replies(&self, until: Timestamp, limit: usize) -> Result<Vec<PendingReply>, StoreError>;
    async fn direct_message(&self, agent: &AgentName, id: &str) -> Result<Option<SentDirectMessage>, StoreError>;
    /// Links from principals to people.
    async fn links(&self) -> Result<Vec<PersonLink>, StoreError>;
}
