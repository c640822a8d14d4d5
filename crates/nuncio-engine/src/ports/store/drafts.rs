//! Store of drafted protocols.

use async_trait::async_trait;
use nuncio_core::ids::{AgentName, DraftId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;

use super::StoreError;
use crate::protocol_draft::ProtocolDraft;

#[derive(Debug, Clone, PartialEq)]
pub enum ProtocolDraftChange {
    /// Stores a drafted protocol. `Exists` if its id is taken or the caller used its idempotency key with the agent
    /// before.
    Create(Box<ProtocolDraft>),
    /// Updates a draft. `Missing` if it does not exist; `DraftMoved` unless its stored state is `from`.
    Move {
        draft: Box<ProtocolDraft>,
        /// Name of the state that the stored draft must have.
        from: &'static str,
    },
    /// Deletes drafts that expired before the given time and were not accepted by both sides.
    Forget(Timestamp),
}

#[async_trait]
pub trait ProtocolDraftStore: Send + Sync {
    async fn draft(&self, id: &DraftId) -> Result<Option<ProtocolDraft>, StoreError>;
    /// Draft that a caller requested with the idempotency key `key`.
    async fn draft_by_key(
        &self,
        with: &Principal,
        agent: &AgentName,
        key: &str,
    ) -> Result<Option<ProtocolDraft>, StoreError>;
    /// At most `limit` undecided protocol drafts, oldest first.
    async fn open_drafts(&self, limit: usize) -> Result<Vec<ProtocolDraft>, StoreError>;
}
