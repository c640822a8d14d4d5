//! The audit record, with one chain for each writer lane.

use async_trait::async_trait;
use nuncio_core::audit::{AuditChainHead, AuditChainId, AuditChainLink, AuditChainRecord, ChainHead, StoredAuditLink};
use nuncio_core::ids::{CallId, RelationId};
use nuncio_engine::ports::store::{AuditChange, AuditStore, RedactedLedgerEntry, StoreError};
use tokio::sync::watch;
use tokio_postgres::Row;

use super::connection::Session;
use super::problem::SqlError;
use super::rows::{self, clamped, to_integer, to_json, to_limit};
use super::writes::{Refusal, SqlWrite, Translated, Writes, params};
use super::{PostgresStore, forget};

/// Head of the audit chain of a writer lane, as the lane knows it. If another process appended, the next insert changes
/// no row, and the head is read again.
#[derive(Debug, Clone)]
pub(super) struct LaneAuditHead {
    chain: AuditChainId,
    head: Option<ChainHead>,
}

impl LaneAuditHead {
    pub(super) const fn unknown(chain: AuditChainId) -> Self {
        Self { chain, head: None }
    }

    pub(super) fn forget(&mut self) {
        self.head = None;
    }

    /// Reads the head unless it is known.
    pub(super) async fn load(&mut self, session: &Session) -> Result<(), SqlError> {
        if self.head.is_none() {
            let sql = "SELECT seq, hash FROM audit_links WHERE chain = $1 ORDER BY seq DESC LIMIT 1";
            let found = session.rows(sql, params![i64::from(self.chain.0)]).await?;
            self.head = Some(found.first().map_or(Ok(self.chain.start()), |row| read_head(row, 0))?);
        }
        Ok(())
    }
}

pub(super) fn translate(change: &AuditChange, head: &mut LaneAuditHead, out: &mut Writes) -> Translated {
    match change {
        AuditChange::AppendCall(record) => append(record, head, out),
        AuditChange::AppendEvent(record) => append(record, head, out),
        // Lanes apply it one by one.
        AuditChange::ForgetPerson(_) => {
            Err(SqlError::Unusable("an erasure must be alone in its transaction".to_owned()))
        }
        AuditChange::Prune { chain, through, limit } => {
            let sql = "DELETE FROM audit_links WHERE number IN
                 (SELECT number FROM audit_links WHERE chain = $1 AND seq <= $2 ORDER BY seq LIMIT $3)";
            out.push(SqlWrite::any(sql, params![i64::from(chain.0), to_integer(*through)?, to_limit(*limit)]));
            Ok(())
        }
    }
}

fn append(record: &impl AuditChainRecord, lane: &mut LaneAuditHead, out: &mut Writes) -> Translated {
    let last = lane.head.unwrap_or(lane.chain.start());
    let link = AuditChainLink::new(last.seq + 1, last.hash, record);
    out.push(SqlWrite::one_or_refused(
        Refusal::StaleAuditHead,
        "INSERT INTO audit_links (chain, seq, previous, hash, record) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (chain, seq) DO NOTHING",
        params![
            i64::from(lane.chain.0),
            to_integer(link.seq)?,
            link.previous.to_string(),
            link.hash.to_string(),
            link.record
        ],
    ));
    lane.head = Some(ChainHead { seq: link.seq, hash: link.hash });
    Ok(())
}

const LINK: &str = "SELECT number, chain, seq, previous, hash, record, redaction FROM audit_links";

#[async_trait]
impl AuditStore for PostgresStore {
    /// Numbers are given before the commit, so a lower one can be committed later. The first query waits for the
    /// transactions that have appended and returns the last number.
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        let last = self.readers.first("SELECT last_audit_number()", Vec::new(), |row| rows::number(row, 0)).await?;
        let sql = format!("{LINK} WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3");
        let params = params![clamped(after), clamped(last.unwrap_or_default()), to_limit(limit)];
        self.readers.all(&sql, params, read).await
    }

    async fn audit_chain_links(
        &self,
        chain: AuditChainId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredAuditLink>, StoreError> {
        let sql = format!("{LINK} WHERE number > $1 AND chain = $2 ORDER BY number LIMIT $3");
        self.readers.all(&sql, params![clamped(after), i64::from(chain.0), to_limit(limit)], read).await
    }

    async fn audit_link(&self, chain: AuditChainId, seq: u64) -> Result<Option<StoredAuditLink>, StoreError> {
        let sql = format!("{LINK} WHERE chain = $1 AND seq = $2");
        self.readers.first(&sql, params![i64::from(chain.0), clamped(seq)], read).await
    }

    async fn audit_links_before(&self, before: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        let sql = format!("{LINK} WHERE number < $1 ORDER BY number DESC LIMIT $2");
        self.readers.all(&sql, params![clamped(before), to_limit(limit)], read).await
    }

    /// Searches the text of the records, because a tampered record may no longer be JSON.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        let named = format!("\"call\":{}", to_json(call)?);
        let sql = format!("{LINK} WHERE position($1 in record) > 0 ORDER BY number LIMIT $2");
        self.readers.all(&sql, params![named, to_limit(limit)], read).await
    }

    async fn audit_heads(&self) -> Result<Vec<AuditChainHead>, StoreError> {
        // A step per chain, where `DISTINCT` would read the whole index.
        let sql = "WITH RECURSIVE chains (chain) AS (
                 SELECT min(chain) FROM audit_links
                 UNION ALL
                 SELECT (SELECT min(chain) FROM audit_links WHERE chain > chains.chain) FROM chains
                 WHERE chain IS NOT NULL)
             SELECT chains.chain, last.seq, last.hash FROM chains, LATERAL
                 (SELECT seq, hash FROM audit_links WHERE audit_links.chain = chains.chain ORDER BY seq DESC LIMIT 1)
                 AS last
             ORDER BY chains.chain";
        let read = |row: &Row| Ok(AuditChainHead { chain: read_chain(row, 0)?, head: read_head(row, 1)? });
        self.readers.few(sql, Vec::new(), read).await
    }

    fn audit_growth(&self) -> watch::Receiver<u64> {
        self.lanes.audit_growth()
    }

    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<RedactedLedgerEntry>, StoreError> {
        let sql = "SELECT relation, seq, previous, hash, entry, redaction FROM erased_ledger
             WHERE $1::TEXT IS NULL OR relation = $1 ORDER BY relation, seq";
        self.readers.all(sql, params![relation.map(ToString::to_string)], forget::read_entry).await
    }
}

fn read(row: &Row) -> Result<StoredAuditLink, SqlError> {
    let link = AuditChainLink {
        seq: rows::number(row, 2)?,
        previous: rows::digest(row, 3)?,
        hash: rows::digest(row, 4)?,
        record: rows::get(row, 5)?,
        redaction: rows::get(row, 6)?,
    };
    Ok(StoredAuditLink { number: rows::number(row, 0)?, chain: read_chain(row, 1)?, link })
}

fn read_head(row: &Row, seq: usize) -> Result<ChainHead, SqlError> {
    Ok(ChainHead { seq: rows::number(row, seq)?, hash: rows::digest(row, seq + 1)? })
}

fn read_chain(row: &Row, column: usize) -> Result<AuditChainId, SqlError> {
    let unknown = |_| SqlError::Damaged("the number of an audit chain is too large".to_owned());
    Ok(AuditChainId(u32::try_from(rows::number(row, column)?).map_err(unknown)?))
}
