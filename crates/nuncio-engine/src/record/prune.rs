//! Deletion of old audit records and sessions, which is itself recorded.

use nuncio_core::audit::{AuditChainHead, AuditChainId, AuditChainLink, AuditEvent, AuditEventRecord, ChainHead};
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
    /// For each chain, the last of its oldest records that all ended before the time `before`. The last record of a
    /// chain stays, so that the chain can be continued; the main chain gets the record of the deletion.
    pub async fn last_audit_before(&self, before: Timestamp) -> Result<Vec<AuditChainHead>, EngineError> {
        let mut found = Vec::new();
        for AuditChainHead { chain, head: end } in self.store.audit_heads().await? {
            let (mut last, mut number) = (None, 0);
            loop {
                let links = self.store.audit_chain_links(chain, number, RECORDS_PER_READ).await?;
                let is_old = |link: &AuditChainLink| {
                    (chain == AuditChainId::MAIN || link.seq < end.seq) && ended_at(link).is_some_and(|at| at < before)
                };
                let old = links.iter().take_while(|stored| is_old(&stored.link)).count();
                if let Some(stored) = old.checked_sub(1).and_then(|position| links.get(position)) {
                    number = stored.number;
                    last = Some(ChainHead { seq: stored.link.seq, hash: stored.link.hash });
                }
                if old < links.len() || links.is_empty() {
                    break;
                }
            }
            found.extend(last.map(|head| AuditChainHead { chain, head }));
        }
        Ok(found)
    }

    /// Deletes the audit records of each chain up to the given link and records the deletion; returns their number. The
    /// caller must have signed these links before, or the chains can no longer be verified.
    pub async fn prune_audit(
        &self,
        through: &[AuditChainHead],
        before: Timestamp,
        by: Principal,
    ) -> Result<u64, EngineError> {
        let mut count = 0;
        for AuditChainHead { chain, head } in through {
            let first = self.store.audit_chain_links(*chain, 0, 1).await?.pop();
            count += first.map_or(0, |first| (head.seq + 1).saturating_sub(first.link.seq));
        }
        let record = AuditEventRecord {
            count: Some(count),
            before: Some(before),
            ..AuditEventRecord::new(AuditEvent::AuditPruned, by, self.context.now())
        };
        self.context.commit_one(AuditChange::AppendEvent(record)).await?;
        for AuditChainHead { chain, head: ChainHead { seq: through, .. } } in through.iter().copied() {
            while self.store.audit_chain_links(chain, 0, 1).await?.pop().is_some_and(|first| first.link.seq <= through)
            {
                self.context.commit_one(AuditChange::Prune { chain, through, limit: ROWS_PER_COMMIT }).await?;
            }
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
