//! Deletion of old audit records and sessions, which is itself recorded.

use nuncio_core::audit::{AuditChainLink, AuditEvent, AuditEventRecord, ChainHead};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::Value;

use super::RECORDS_PER_READ;
use crate::error::EngineError;
use crate::ports::store::{AuditChange, SessionChange};
use crate::record::AuditChainService;

/// Rows deleted per commit, so that other commits wait only briefly.
const ROWS_PER_COMMIT: usize = 5000;

impl AuditChainService {
    /// Last of the oldest audit records that all ended before the time `before`; `None` if the oldest is newer.
    pub async fn last_audit_before(&self, before: Timestamp) -> Result<Option<ChainHead>, EngineError> {
        let mut last: Option<ChainHead> = None;
        loop {
            let links = self.store.audit_links(last.map_or(0, |head| head.seq), RECORDS_PER_READ).await?;
            let old = links.iter().take_while(|link| ended_at(link).is_some_and(|at| at < before));
            let (all, old) = (links.len(), old.collect::<Vec<_>>());
            last = old.last().map(|link| ChainHead { seq: link.seq, hash: link.hash }).or(last);
            if all == 0 || old.len() < all {
                return Ok(last);
            }
        }
    }

    /// Deletes audit records up to `through` and records the deletion; returns their number. The caller must have
    /// signed `through` before, or the chain can no longer be verified.
    pub async fn prune_audit(&self, through: u64, before: Timestamp, by: Principal) -> Result<u64, EngineError> {
        let first = self.store.audit_links(0, 1).await?.pop().map_or(through + 1, |link| link.seq);
        let count = (through + 1).saturating_sub(first);
        let record = AuditEventRecord {
            count: Some(count),
            before: Some(before),
            ..AuditEventRecord::new(AuditEvent::AuditPruned, by, self.context.now())
        };
        self.context.commit_one(AuditChange::AppendEvent(record)).await?;
        while self.store.audit_links(0, 1).await?.pop().is_some_and(|link| link.seq <= through) {
            self.context.commit_one(AuditChange::Prune { through, limit: ROWS_PER_COMMIT }).await?;
        }
        Ok(count)
    }

    /// Deletes sessions without a turn since `before` and records the deletion; returns their number.
    pub async fn prune_sessions(&self, before: Timestamp, by: Principal) -> Result<u64, EngineError> {
        let mut count = 0;
        loop {
            let ids = self.store.idle_sessions(before, RECORDS_PER_READ).await?;
            if ids.is_empty() {
                return Ok(count);
            }
            let found = ids.len() as u64;
            let record = AuditEventRecord {
                count: Some(found),
                before: Some(before),
                ..AuditEventRecord::new(AuditEvent::SessionsPruned, by.clone(), self.context.now())
            };
            self.context
                .commit(vec![SessionChange::Prune { ids, before }.into(), AuditChange::AppendEvent(record).into()])
                .await?;
            count += found;
        }
    }
}

/// End time of a record; `None` if it cannot be read, in which case it is kept.
fn ended_at(link: &AuditChainLink) -> Option<Timestamp> {
    let record: Value = serde_json::from_str(&link.record).ok()?;
    let at = record.get("ended_at").or_else(|| record.get("at"))?.as_str()?;
    Timestamp::try_from(at.to_owned()).ok()
}
