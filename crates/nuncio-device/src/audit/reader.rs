//! Reads the audit log of a running device.

use std::sync::Arc;

use nuncio_core::Code;

use super::{AuditChainError, AuditFilter, AuditPage, ChainedEntry};
use crate::error::DeviceError;
use crate::runtime::DeviceContext;

/// Reads and verifies the audit log while calls append to it.
pub struct AuditReader {
    pub(crate) runtime: Arc<DeviceContext>,
}

impl AuditReader {
    /// All entries, oldest first.
    pub fn entries(&self) -> Result<Vec<ChainedEntry>, DeviceError> {
        Ok(self.runtime.audit_log().all()?)
    }

    /// Verifies the audit log. Returns the number of entries, or the first thing that does not hold.
    pub fn verify(&self) -> Result<u64, AuditChainError> {
        // An entry may be appended during the read: a failure is checked again under the lock.
        self.runtime.audit_log().verify().or_else(|_| {
            let _lock = self.runtime.state_lock();
            self.runtime.audit_log().verify()
        })
    }

    /// The newest matching entries numbered below `before`, and the verification of the whole log.
    pub async fn page(&self, filter: AuditFilter, before: Option<u64>, limit: usize) -> Result<AuditPage, DeviceError> {
        let runtime = Arc::clone(&self.runtime);
        let read = tokio::task::spawn_blocking(move || {
            let page = runtime.audit_log().page(&filter, before, limit);
            if page.proof.is_ok() {
                return page;
            }
            let _lock = runtime.state_lock();
            runtime.audit_log().page(&filter, before, limit)
        });
        read.await.map_err(|_| DeviceError::new(Code::Internal, "reading the audit log was aborted"))
    }

    /// The audit log as JSON lines, oldest first, each entry with its hash.
    pub async fn lines(&self) -> Result<String, DeviceError> {
        let log = self.runtime.audit_log();
        let read = tokio::task::spawn_blocking(move || log.lines());
        read.await.map_err(|_| DeviceError::new(Code::Internal, "reading the audit log was aborted"))
    }
}
