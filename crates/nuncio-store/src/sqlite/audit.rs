//! The audit chain.

use std::cell::Cell;

use async_trait::async_trait;
use nuncio_core::audit::{AuditChainLink, AuditChainRecord, ChainHead};
use nuncio_core::ids::{CallId, RelationId};
use nuncio_engine::ports::store::{AuditChange, AuditStore, RedactedLedgerEntry, StoreError};
use rusqlite::{Connection, Row, params};
use tokio::sync::watch;

use super::problem::SqlError;
use super::rows::{self, clamped, execute, first, run, to_integer, to_json, to_limit};
use super::{SqliteStore, forget};

/// Head of the audit chain within a transaction. Read once per transaction and dropped with it, so that it is right
/// after a rollback or a write by another process.
#[derive(Debug, Default)]
pub(super) struct CachedAuditHead(Cell<Option<ChainHead>>);

impl CachedAuditHead {
    /// Drops the cached head of the audit chain after a rollback.
    pub(super) fn forget(&self) {
        self.0.set(None);
    }
}

pub(super) fn apply(connection: &Connection, tip: &CachedAuditHead, change: &AuditChange) -> Result<(), SqlError> {
    match change {
        AuditChange::AppendCall(record) => append(connection, tip, record),
        AuditChange::AppendEvent(record) => append(connection, tip, record),
        AuditChange::ForgetPerson(forgotten) => forget::person(connection, forgotten),
        // Deletes the oldest records, none after `through`.
        AuditChange::Prune { through, limit } => {
            let sql = "DELETE FROM audit_links
                 WHERE seq IN (SELECT seq FROM audit_links WHERE seq <= ?1 ORDER BY seq LIMIT ?2)";
            run(connection, sql, params![to_integer(*through)?, to_limit(*limit)])
        }
    }
}

fn append(connection: &Connection, tip: &CachedAuditHead, record: &impl AuditChainRecord) -> Result<(), SqlError> {
    let head = tip.0.get().map_or_else(|| head(connection), Ok)?;
    let link = AuditChainLink::new(head.seq + 1, head.hash, record);
    execute(
        connection,
        "INSERT INTO audit_links (seq, previous, hash, record) VALUES (?1, ?2, ?3, ?4)",
        params![to_integer(link.seq)?, link.previous.to_string(), link.hash.to_string(), link.record],
    )?;
    tip.0.set(Some(ChainHead { seq: link.seq, hash: link.hash }));
    Ok(())
}

pub(super) fn head(connection: &Connection) -> Result<ChainHead, SqlError> {
    let sql = "SELECT seq, hash FROM audit_links ORDER BY seq DESC LIMIT 1";
    let last =
        first(connection, sql, [], |row| Ok(ChainHead { seq: rows::number(row, 0)?, hash: rows::digest(row, 1)? }))?;
    Ok(last.unwrap_or(ChainHead::START))
}

const LINK: &str = "SELECT seq, previous, hash, record, redaction FROM audit_links";

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<AuditChainLink>, StoreError> {
        let sql = format!("{LINK} WHERE seq > ?1 ORDER BY seq LIMIT ?2");
        self.readers.all(sql, (clamped(after), to_limit(limit)), read).await
    }

    async fn audit_links_before(&self, before: u64, limit: usize) -> Result<Vec<AuditChainLink>, StoreError> {
        let sql = format!("{LINK} WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2");
        self.readers.all(sql, (clamped(before), to_limit(limit)), read).await
    }

    /// Searches the text of the records, because a tampered record may no longer be JSON.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<AuditChainLink>, StoreError> {
        let named = format!("\"call\":{}", to_json(call)?);
        let sql = format!("{LINK} WHERE instr(record, ?1) > 0 ORDER BY seq LIMIT ?2");
        self.readers.all(sql, (named, to_limit(limit)), read).await
    }

    async fn audit_head(&self) -> Result<ChainHead, StoreError> {
        self.readers.point(head)
    }

    fn audit_growth(&self) -> watch::Receiver<u64> {
        self.writer.audit_growth()
    }

    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<RedactedLedgerEntry>, StoreError> {
        let sql = "SELECT relation, seq, previous, hash, entry, redaction FROM erased_ledger
             WHERE ?1 IS NULL OR relation = ?1 ORDER BY relation, seq";
        self.readers.all(sql, [relation.map(ToString::to_string)], forget::read_entry).await
    }
}

fn read(row: &Row<'_>) -> Result<AuditChainLink, SqlError> {
    Ok(AuditChainLink {
        seq: rows::number(row, 0)?,
        previous: rows::digest(row, 1)?,
        hash: rows::digest(row, 2)?,
        record: row.get(3)?,
        redaction: row.get(4)?,
    })
}
