//! Store of questions to approvers.

use async_trait::async_trait;
use nuncio_core::approval::Approval;
use nuncio_core::ids::{ApprovalId, Incarnation};

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum ApprovalChange {
    Create {
        approval: Approval,
        /// Incarnation whose call waits for the answer; `None` if the approval outlives its process.
        node: Option<Incarnation>,
    },
    /// Updates an approval. `Missing` if it does not exist; `ApprovalMoved` unless its stored state is `from`.
    Move {
        approval: Approval,
        /// Name of the state that the stored approval must have.
        from: &'static str,
    },
}

#[async_trait]
pub trait ApprovalStore: Send + Sync {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError>;
    /// Approvals without an answer, oldest first.
    async fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError>;
    /// Approvals without an answer for which a call of an incarnation waits, oldest first.
    async fn pending_approvals_of(&self, node: &Incarnation) -> Result<Vec<Approval>, StoreError>;
}
