//! The audit chain.

use async_trait::async_trait;
use nuncio_core::audit::{AuditChainLink, AuditChainRecord, ChainHead};
use nuncio_core::ids::{CallId, RelationId};
use nuncio_engine::ports::store::{AuditChange, AuditStore, RedactedLedgerEntry, StoreError};
use tokio::sync::watch;
use tokio_postgres::Row;

use super::connection::Session;
use super::problem::SqlError;
use super::rows::{self, clamped, to_integer, to_json, to_limit};
use super::writes::{Refusal, SqlWrite, Translated, Writes, params};
use super::{PostgresStore, forget};

/// Head of the audit chain as a writer lane knows it. If another process appended, the next insert changes no row, and
/// the head is read again.
#[derive(Debug, Clone, Default)]
pub(super) struct AuditHead(Option<ChainHead>);

impl AuditHead {
    /// Number of the last record, if the head is known.
    pub(super) fn seq(&self) -> Option<u64> {
        self.0.map(|head| head.seq)
    }

    /// Reads the head unless it is known.
    pub(super) async fn load(&mut self, session: &Session) -> Result<(), SqlError> {
        if self.0.is_none() {
            let found = session.rows(HEAD, []).await?;
            self.0 = Some(found.first().map_or(Ok(ChainHead::START), read_head)?);
        }
        Ok(())
    }
}

const HEAD: &str = "SELECT seq, hash FROM audit_links ORDER BY seq DESC LIMIT 1";

fn read_head(row: &Row) -> Result<ChainHead, SqlError> {
    Ok(ChainHead { seq: rows::number(row, 0)?, hash: rows::digest(row, 1)? })
}

pub(super) fn translate(change: &AuditChange, head: &mut AuditHead, out: &mut Writes) -> Translated {
    match change {
        AuditChange::AppendCall(record) => append(record, head, out),
        AuditChange::AppendEvent(record) => append(record, head, out),
        // Lanes apply it one by one.
        AuditChange::ForgetPerson(_) => {
            Err(SqlError::Unusable("an erasure must be alone in its transaction".to_owned()))
        }
        // Deletes the oldest records, none after `through`.
        AuditChange::Prune { through, limit } => {
            let sql = "DELETE FROM audit_links
                 WHERE seq IN (SELECT seq FROM audit_links WHERE seq <= $1 ORDER BY seq LIMIT $2)";
            out.push(SqlWrite::any(sql, params![to_integer(*through)?, to_limit(*limit)]));
            Ok(())
        }
    }
}

fn append(record: &impl AuditChainRecord, head: &mut AuditHead, out: &mut Writes) -> Translated {
    let last = head.0.unwrap_or(ChainHead::START);
    let link = AuditChainLink::new(last.seq + 1, last.hash, record);
    out.push(SqlWrite::one_or_refused(
        Refusal::StaleAuditHead,
        "INSERT INTO audit_links (seq, previous, hash, record) VALUES ($1, $2, $3, $4) ON CONFLICT (seq) DO NOTHING",
        params![to_integer(link.seq)?, link.previous.to_string(), link.hash.to_string(), link.record],
    ));
    head.0 = Some(ChainHead { seq: link.seq, hash: link.hash });
    Ok(())
}

const LINK: &str = "SELECT seq, previous, hash, record, redaction FROM audit_links";

#[async_trait]
impl AuditStore for PostgresStore {
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<AuditChainLink>, StoreError> {
        let sql = format!("{LINK} WHERE seq > $1 ORDER BY seq LIMIT $2");
        self.readers.all(&sql, params![clamped(after), to_limit(limit)], read).await
    }

    async fn audit_links_before(&self, before: u64, limit: usize) -> Result<Vec<AuditChainLink>, StoreError> {
        let sql = format!("{LINK} WHERE seq < $1 ORDER BY seq DESC LIMIT $2");
        self.readers.all(&sql, params![clamped(before), to_limit(limit)], read).await
    }

    /// Searches the text of the records, because a tampered record may no longer be JSON.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<AuditChainLink>, StoreError> {
        let named = format!("\"call\":{}", to_json(call)?);
        let sql = format!("{LINK} WHERE position($1 in record) > 0 ORDER BY seq LIMIT $2");
        self.readers.all(&sql, params![named, to_limit(limit)], read).await
    }

    async fn audit_head(&self) -> Result<ChainHead, StoreError> {
        Ok(self.readers.first(HEAD, Vec::new(), read_head).await?.unwrap_or(ChainHead::START))
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

fn read(row: &Row) -> Result<AuditChainLink, SqlError> {
    Ok(AuditChainLink {
        seq: rows::number(row, 0)?,
        previous: rows::digest(row, 1)?,
        hash: rows::digest(row, 2)?,
        record: rows::get(row, 3)?,
        redaction: rows::get(row, 4)?,
    })
}
