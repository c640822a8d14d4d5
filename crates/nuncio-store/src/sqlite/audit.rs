//! The audit record.

use std::cell::Cell;

use async_trait::async_trait;
use nuncio_core::audit::{AuditChainHead, AuditChainId, AuditChainLink, AuditChainRecord, ChainHead, StoredAuditLink};
use nuncio_core::ids::{CallId, RelationId};
use nuncio_engine::ports::store::{AuditChange, AuditStore, RedactedLedgerEntry, StoreError};
use rusqlite::{Connection, Row, params};
use tokio::sync::watch;

use super::problem::SqlError;
use super::rows::{self, clamped, execute, first, run, to_integer, to_json, to_limit};
use super::{SqliteStore, forget};

/// Head of the main audit chain within a transaction. Read once per transaction and dropped with it, so that it is right
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
        AuditChange::Prune { chain, through, limit } => {
            let sql = "DELETE FROM audit_links WHERE number IN
                 (SELECT number FROM audit_links WHERE chain = ?1 AND seq <= ?2 ORDER BY number LIMIT ?3)";
            run(connection, sql, params![chain.0, to_integer(*through)?, to_limit(*limit)])
        }
    }
}

fn append(connection: &Connection, tip: &CachedAuditHead, record: &impl AuditChainRecord) -> Result<(), SqlError> {
    let head = tip.0.get().map_or_else(|| head(connection), Ok)?;
    let link = AuditChainLink::new(head.seq + 1, head.hash, record);
    execute(
        connection,
        "INSERT INTO audit_links (chain, seq, previous, hash, record) VALUES (0, ?1, ?2, ?3, ?4)",
        params![to_integer(link.seq)?, link.previous.to_string(), link.hash.to_string(), link.record],
    )?;
    tip.0.set(Some(ChainHead { seq: link.seq, hash: link.hash }));
    Ok(())
}

pub(super) fn head(connection: &Connection) -> Result<ChainHead, SqlError> {
    let sql = "SELECT seq, hash FROM audit_links WHERE chain = 0 ORDER BY number DESC LIMIT 1";
    Ok(first(connection, sql, [], |row| read_head(row, 0))?.unwrap_or(ChainHead::START))
}

/// Head of each chain. Other chains than the main one come from another store.
const HEADS: &str = "WITH RECURSIVE chains (chain) AS (
         SELECT min(chain) FROM audit_links WHERE chain > 0
         UNION ALL
         SELECT (SELECT min(chain) FROM audit_links WHERE chain > chains.chain AND chain > 0) FROM chains
         WHERE chain IS NOT NULL)
     SELECT chains.chain, seq, hash FROM chains JOIN audit_links ON audit_links.chain = chains.chain
         AND audit_links.chain > 0
         AND seq = (SELECT max(seq) FROM audit_links WHERE chain = chains.chain AND chain > 0)
     ORDER BY 1";

const LINK: &str = "SELECT number, chain, seq, previous, hash, record, redaction FROM audit_links";

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        let sql = format!("{LINK} WHERE number > ?1 ORDER BY number LIMIT ?2");
        self.readers.all(sql, (clamped(after), to_limit(limit)), read).await
    }

    async fn audit_chain_links(
        &self,
        chain: AuditChainId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredAuditLink>, StoreError> {
        let sql = format!("{LINK} WHERE number > ?1 AND chain = ?2 ORDER BY number LIMIT ?3");
        self.readers.all(sql, (clamped(after), chain.0, to_limit(limit)), read).await
    }

    async fn audit_link(&self, chain: AuditChainId, seq: u64) -> Result<Option<StoredAuditLink>, StoreError> {
        // The main chain has no index of `seq`, but no number is lower than the position in its chain.
        let sql = format!("{LINK} WHERE number >= ?2 AND chain = ?1 AND seq = ?2 ORDER BY number LIMIT 1");
        Ok(self.readers.all(sql, (chain.0, clamped(seq)), read).await?.pop())
    }

    async fn audit_links_before(&self, before: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        let sql = format!("{LINK} WHERE number < ?1 ORDER BY number DESC LIMIT ?2");
        self.readers.all(sql, (clamped(before), to_limit(limit)), read).await
    }

    /// Searches the text of the records, because a tampered record may no longer be JSON.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        let named = format!("\"call\":{}", to_json(call)?);
        let sql = format!("{LINK} WHERE instr(record, ?1) > 0 ORDER BY number LIMIT ?2");
        self.readers.all(sql, (named, to_limit(limit)), read).await
    }

    async fn audit_heads(&self) -> Result<Vec<AuditChainHead>, StoreError> {
        let main = self.readers.point(head)?;
        let main = (main.seq > 0).then_some(AuditChainHead { chain: AuditChainId::MAIN, head: main });
        let read = |row: &Row<'_>| Ok(AuditChainHead { chain: AuditChainId(row.get(0)?), head: read_head(row, 1)? });
        let others = self.readers.all(HEADS.to_owned(), [], read).await?;
        Ok(main.into_iter().chain(others).collect())
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

fn read(row: &Row<'_>) -> Result<StoredAuditLink, SqlError> {
    let link = AuditChainLink {
        seq: rows::number(row, 2)?,
        previous: rows::digest(row, 3)?,
        hash: rows::digest(row, 4)?,
        record: row.get(5)?,
        redaction: row.get(6)?,
    };
    Ok(StoredAuditLink { number: rows::number(row, 0)?, chain: AuditChainId(row.get(1)?), link })
}

fn read_head(row: &Row<'_>, seq: usize) -> Result<ChainHead, SqlError> {
    Ok(ChainHead { seq: rows::number(row, seq)?, hash: rows::digest(row, seq + 1)? })
}
