//! What is kept of dealings with other agents: protocols made up with them, answers owed to them, messages sent
//! to them, and whose DIDs they are.

use async_trait::async_trait;
use nuncio_core::drafting::ProtocolDraft;
use nuncio_core::ids::{AgentName, DraftId, PersonName, SessionId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::store::StoreError;

/// An answer that is taken to whoever asked, rather than waited for. It is owed from before the turn begins
/// until it arrived, or never will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedAnswer {
    /// Names it: the same for the same message.
    pub id: String,
    /// The conversation.
    pub session: SessionId,
    /// The key of the request that began the turn.
    pub request: String,
    /// Whose conversation it is.
    pub owner: Principal,
    /// Who answers.
    pub agent: AgentName,
    /// The address it is for.
    pub to: String,
    /// The message it answers.
    pub answers: String,
    /// When to take it there, or to look whether there is something to take.
    pub due: Timestamp,
    /// How often that was tried.
    pub attempts: u32,
}

/// A message that one of our agents sent to another, and the answer once it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Names the message.
    pub id: String,
    /// Who sent it.
    pub agent: AgentName,
    /// To whom.
    pub to: String,
    /// When.
    pub sent_at: Timestamp,
    /// What came back.
    pub answer: Option<LetterAnswer>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterAnswer {
    /// What it says.
    pub text: String,
    /// When it came.
    pub at: Timestamp,
}

/// That someone belongs to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Who.
    pub principal: Principal,
    /// To whom.
    pub person: PersonName,
    /// Since when.
    pub since: Timestamp,
}

/// Protocols that were made up, messages, and who is whose.
#[async_trait]
pub trait Peers {
    /// A draft.
    async fn draft(&self, id: &DraftId) -> Result<Option<ProtocolDraft>, StoreError>;
    /// The draft that a caller's request with that key made with an agent.
    async fn draft_by_key(
        &self,
        with: &Principal,
        agent: &AgentName,
        key: &str,
    ) -> Result<Option<ProtocolDraft>, StoreError>;
    /// Every draft on which somebody still has to say something, oldest first, at most `limit`.
    async fn open_drafts(&self, limit: usize) -> Result<Vec<ProtocolDraft>, StoreError>;
    /// The answers to be taken somewhere until then, the first first, at most `limit`.
    async fn owed_answers(&self, until: Timestamp, limit: usize) -> Result<Vec<OwedAnswer>, StoreError>;
    /// A message of an agent's.
    async fn letter(&self, agent: &AgentName, id: &str) -> Result<Option<Letter>, StoreError>;
    /// Who belongs to whom, by principal.
    async fn links(&self) -> Result<Vec<Link>, StoreError>;
}
