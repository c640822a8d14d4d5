//! Reads the audit log of a running device.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::ids::MessageId;
use serde_json::Value;

use super::{AuditChainError, AuditEntriesPage, AuditFilter, ChainedAuditEntry};
use crate::context::DeviceContext;
use crate::error::DeviceError;
use crate::kept_arguments;

/// Reads and verifies the audit log while calls append to it.
pub struct AuditReader {
    pub(crate) context: Arc<DeviceContext>,
}

impl AuditReader {
    /// All stored audit entries, oldest first.
    pub fn entries(&self) -> Result<Vec<ChainedAuditEntry>, DeviceError> {
        Ok(self.context.audit_log().all()?)
    }

    /// Verifies the audit log. Returns the number of entries, or the first fault.
    pub fn verify(&self) -> Result<u64, AuditChainError> {
        // An entry may be appended during the read, so a failed verification is repeated under the lock.
        self.context.audit_log().verify().or_else(|_| {
            let _lock = self.context.state_lock();
            self.context.audit_log().verify()
        })
    }

    /// The newest matching audit entries numbered below `before`, and the verification result of the whole log.
    pub async fn page(
        &self,
        filter: AuditFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<AuditEntriesPage, DeviceError> {
        let context = Arc::clone(&self.context);
        let read = tokio::task::spawn_blocking(move || {
            let page = context.audit_log().page(&filter, before, limit);
            if page.proof.is_ok() {
                return page;
            }
            let _lock = context.state_lock();
            context.audit_log().page(&filter, before, limit)
        });
        read.await.map_err(|_| DeviceError::new(ErrorCode::Internal, "reading the audit log was aborted"))
    }

    /// Whether the arguments of calls are kept, outside the audit log.
    pub fn keeps_arguments(&self) -> Result<bool, DeviceError> {
        Ok(kept_arguments::is_on(&self.context.records)?)
    }

    /// Keeps the arguments of calls from now on.
    pub fn start_keeping_arguments(&self) -> Result<(), DeviceError> {
        Ok(kept_arguments::switch_on(&self.context.records)?)
    }

    /// Keeps no more arguments and deletes those that were kept.
    pub fn stop_keeping_arguments(&self) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        Ok(kept_arguments::switch_off(&self.context.records)?)
    }

    /// The kept arguments of a call, by the message that carried it.
    pub fn arguments(&self, message: &MessageId) -> Result<Option<Value>, DeviceError> {
        Ok(kept_arguments::load(&self.context.records, message, self.context.now())?)
    }

    /// The audit log as JSON lines, oldest first, each entry with its hash.
    pub async fn lines(&self) -> Result<String, DeviceError> {
        let log = self.context.audit_log();
        let read = tokio::task::spawn_blocking(move || log.lines());
        read.await.map_err(|_| DeviceError::new(ErrorCode::Internal, "reading the audit log was aborted"))
    }
}
