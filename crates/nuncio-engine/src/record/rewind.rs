//! The record of a restore.

use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::principal::Principal;

use super::AuditChainService;
use crate::context::CommitResultExt as _;
use crate::error::EngineError;
use crate::ports::store::info::REWOUND_AT;
use crate::ports::store::{AuditChange, Conflict, StoreInfoChange};

impl AuditChainService {
    /// Records that the store was restored from a backup, once.
    pub async fn record_rewind(&self) -> Result<(), EngineError> {
        if !self.context.store.store_info().await?.contains_key(REWOUND_AT) {
            return Ok(());
        }
        let record = AuditEventRecord::new(AuditEvent::StoreRewound, Principal::Operator, self.context.now());
        let changes = vec![
            // Fails if another process records it at the same time.
            StoreInfoChange::Remove { name: REWOUND_AT.to_owned() }.into(),
            AuditChange::AppendEvent(record).into(),
        ];
        self.context.commit(changes).await.made_unless(Conflict::Missing)?;
        Ok(())
    }
}
