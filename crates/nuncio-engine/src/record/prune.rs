//! Deleting old audit records and old sessions, which is itself recorded.

use nuncio_core::audit::{AuditEvent, AuditEventRecord, ChainHead, ChainLink};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::Value;

use super::PAGE;
use crate::Engine;
use crate::error::EngineError;
use crate::ports::store::{Change, ConsentChange};

/// How many rows one commit deletes, so that others wait for moments only.
const BATCH: usize = 5000;

impl Engine {
    /// The last audit record of those that ended before a time, counted from the first; none if the first did not.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn last_audit_before(&self, before: Timestamp) -> Result<Option<ChainHead>, EngineError> {
        let mut last: Option<ChainHead> = None;
        loop {
            let links = self.store().audit_links(last.map_or(0, |head| head.seq), PAGE).await?;
            let old = links.iter().take_while(|link| ended_at(link).is_some_and(|at| at < before));
            let (all, old) = (links.len(), old.collect::<Vec<_>>());
            last = old.last().map(|link| ChainHead { seq: link.seq, hash: link.hash }).or(last);
            if all == 0 || old.len() < all {
                return Ok(last);
            }
        }
    }

    /// Deletes the audit records up to `through` and records that; how many there were. Whoever calls this has signed
    /// `through` before, or the chain would not be proved any more.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn prune_audit(&self, through: u64, before: Timestamp, by: Principal) -> Result<u64, EngineError> {
        let first = self.store().audit_links(0, 1).await?.pop().map_or(through + 1, |link| link.seq);
        let count = (through + 1).saturating_sub(first);
        let record = AuditEventRecord {
            count: Some(count),
            before: Some(before),
            ..AuditEventRecord::new(AuditEvent::AuditPruned, by, self.now())
        };
        self.store().commit(vec![ConsentChange::Record(record).into()]).await?;
        while self.store().audit_links(0, 1).await?.pop().is_some_and(|link| link.seq <= through) {
            self.store().commit(vec![Change::PruneAudit { through, limit: BATCH }]).await?;
        }
        Ok(count)
    }

    /// Deletes the sessions that have had no turn since a time and records that; how many there were.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn prune_sessions(&self, before: Timestamp, by: Principal) -> Result<u64, EngineError> {
        let mut count = 0;
        loop {
            let ids = self.store().idle_sessions(before, PAGE).await?;
            if ids.is_empty() {
                return Ok(count);
            }
            let found = ids.len() as u64;
            let record = AuditEventRecord {
                count: Some(found),
                before: Some(before),
                ..AuditEventRecord::new(AuditEvent::SessionsPruned, by.clone(), self.now())
            };
            self.store()
                .commit(vec![Change::PruneSessions { ids, before }, ConsentChange::Record(record).into()])
                .await?;
            count += found;
        }
    }
}

/// When a call ended or something happened; none for what cannot be read, which is not deleted.
fn ended_at(link: &ChainLink) -> Option<Timestamp> {
    let record: Value = serde_json::from_str(&link.record).ok()?;
    let at = record.get("ended_at").or_else(|| record.get("at"))?.as_str()?;
    Timestamp::try_from(at.to_owned()).ok()
}
