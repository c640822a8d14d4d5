//! Reads the audit log of a running device.

use std::sync::Arc;

use nuncio_core::Code;

use super::{AuditChainError, AuditFilter, AuditPage, ChainedEntry};
use crate::context::DeviceContext;
use crate::error::DeviceError;

/// Reads and verifies the audit log while calls append to it.
pub struct AuditReader {
    pub(crate) context: Arc<DeviceContext>,
}

impl AuditReader {
    /// All stored audit entries, oldest first.
    pub fn entries(&self) -> Result<Vec<ChainedEntry>, DeviceError> {
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
    pub async fn page(&self, filter: AuditFilter, before: Option<u64>, limit: usize) -> Result<AuditPage, DeviceError> {
        let context = Arc::clone(&self.context);
        let read = tokio::task::spawn_blocking(move || {
            let page = context.audit_log().page(&filter, before, limit);
            if page.proof.is_ok() {
                return page;
            }
            let _lock = context.state_lock();
            context.audit_log().page(&filter, before, limit)
        });
        read.await.map_err(|_| DeviceError::new(Code::Internal, "reading the audit log was aborted"))
    }

    /// The audit log as JSON lines, oldest first, each entry with its hash.
    pub async fn lines(&self) -> Result<String, DeviceError> {
        let log = self.context.audit_log();
        let read = tokio::task::spawn_blocking(move || log.lines());
        read.await.map_err(|_| DeviceError::new(Code::Internal, "reading the audit log was aborted"))
    }
}
