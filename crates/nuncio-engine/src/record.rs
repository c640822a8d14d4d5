//! Audit: ends of calls, verification of the audit record, signed checkpoints and rounds.

use std::sync::Arc;

use nuncio_core::audit::{AuditChainHead, AuditChainId, StoredAuditLink};
use nuncio_core::digest::Digest;
use tokio::sync::watch;

use crate::access::AccessControl;
use crate::context::EngineContext;
use crate::error::EngineError;
use crate::ports::Store;
use crate::ports::store::{Change, Conflict, StoreError};

mod checkpoint;
mod explain;
mod forget;
mod list;
mod prune;
mod redaction;
mod rewind;
mod round;
mod verify;

pub use checkpoint::{AuditCheckpoint, AuditPublicKeys};
pub use explain::{CallExplanation, ExplainedRecord, ReferencedRecord, ReferencedRecordState};
pub use forget::PersonErasureReport;
pub use list::{AuditFilter, ListedAuditRecord};
pub use round::AuditRound;
pub use verify::AuditVerificationResult;

const RECORDS_PER_READ: usize = 1000;

/// Service for the audit record: reads, verifies, explains, prunes and redacts it.
pub struct AuditChainService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) access: Arc<AccessControl>,
}

impl AuditChainService {
    /// Heads of all chains with a record.
    pub async fn audit_heads(&self) -> Result<Vec<AuditChainHead>, EngineError> {
        Ok(self.store.audit_heads().await?)
    }

    /// Channel with a number that rises by one with each audit record that this process stores.
    #[must_use]
    pub fn audit_growth(&self) -> watch::Receiver<u64> {
        self.store.audit_growth()
    }

    /// At most `limit` audit records with a number above `after`, oldest first.
    pub async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<StoredAuditLink>, EngineError> {
        Ok(self.store.audit_links(after, limit.min(RECORDS_PER_READ)).await?)
    }

    /// Hash of a link; `None` if it is not stored.
    pub async fn audit_link_hash(&self, chain: AuditChainId, seq: u64) -> Result<Option<Digest>, EngineError> {
        Ok(self.store.audit_link(chain, seq).await?.map(|stored| stored.link.hash))
    }

    /// Commits the end of a call. If its session was deleted or its execution was taken over, the audit record is
    /// stored without the result.
    pub(crate) async fn store_end(
        &self,
        changes: Vec<Change>,
        without_result: impl FnOnce() -> Vec<Change>,
    ) -> Result<(), StoreError> {
        match self.context.commit(changes).await {
            Err(StoreError::Conflict(Conflict::NoSession | Conflict::OwnerChanged)) => {
                self.context.commit(without_result()).await
            }
            other => other,
        }
    }
}
