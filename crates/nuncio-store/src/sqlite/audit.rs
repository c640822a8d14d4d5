use std::cell::Cell;

use nuncio_core::audit::{ChainHead, ChainLink, ChainRecord};
use nuncio_core::ids::CallId;
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, all, clamped, execute, first, run, to_integer, to_json, to_limit};

/// Head of the chain within a transaction. Read once per transaction and dropped with it, so that it is right after a
/// rollback or a write by another process.
#[derive(Debug, Default)]
pub(super) struct AuditTip(Cell<Option<ChainHead>>);

impl AuditTip {
    /// Drops the cached head after a rollback.
    pub(super) fn forget(&self) {
        self.0.set(None);
    }
}

pub(super) fn append(connection: &Connection, tip: &AuditTip, record: &impl ChainRecord) -> Result<(), SqlProblem> {
    let head = tip.0.get().map_or_else(|| head(connection), Ok)?;
    let link = ChainLink::forge(head.seq + 1, head.hash, record);
    execute(
        connection,
        "INSERT INTO audit_links (seq, previous, hash, record) VALUES (?1, ?2, ?3, ?4)",
        params![to_integer(link.seq)?, link.previous.to_string(), link.hash.to_string(), link.record],
    )?;
    tip.0.set(Some(ChainHead { seq: link.seq, hash: link.hash }));
    Ok(())
}

/// Deletes the oldest records, none after `through`.
pub(super) fn prune(connection: &Connection, through: u64, limit: usize) -> Result<(), SqlProblem> {
    let sql =
        "DELETE FROM audit_links WHERE seq IN (SELECT seq FROM audit_links WHERE seq <= ?1 ORDER BY seq LIMIT ?2)";
    run(connection, sql, params![to_integer(through)?, to_limit(limit)])
}

pub(super) fn head(connection: &Connection) -> Result<ChainHead, SqlProblem> {
    let sql = "SELECT seq, hash FROM audit_links ORDER BY seq DESC LIMIT 1";
    let last =
        first(connection, sql, [], |row| Ok(ChainHead { seq: rows::number(row, 0)?, hash: rows::digest(row, 1)? }))?;
    Ok(last.unwrap_or(ChainHead::START))
}

pub(super) fn links(connection: &Connection, after: u64, limit: usize) -> Result<Vec<ChainLink>, SqlProblem> {
    let after = clamped(after);
    let sql = "SELECT seq, previous, hash, record, redaction FROM audit_links WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    all(connection, sql, params![after, to_limit(limit)], read)
}

/// Finds the links of a call. The text of the records is searched, because a tampered record may no longer be JSON.
pub(super) fn links_of(connection: &Connection, call: &CallId, limit: usize) -> Result<Vec<ChainLink>, SqlProblem> {
    let named = format!("\"call\":{}", to_json(call)?);
    let sql = "SELECT seq, previous, hash, record, redaction FROM audit_links WHERE instr(record, ?1) > 0 ORDER BY seq LIMIT ?2";
    all(connection, sql, params![named, to_limit(limit)], read)
}

fn read(row: &Row<'_>) -> Result<ChainLink, SqlProblem> {
    Ok(ChainLink {
        seq: rows::number(row, 0)?,
        previous: rows::digest(row, 1)?,
        hash: rows::digest(row, 2)?,
        record: row.get(3)?,
        redaction: row.get(4)?,
    })
}
