//! The audit chain.

use std::cell::Cell;

use nuncio_core::audit::{ChainHead, ChainLink, ChainRecord};
use nuncio_core::ids::CallId;
use rusqlite::{Connection, Row, params};

use super::problem::Problem;
use super::rows::{self, all, execute, first, to_integer, to_json, to_limit};

/// Where the chain has got to in a transaction. Looked up once in each and forgotten with it, so that it is
/// right after a rollback, or when another process has written.
#[derive(Debug, Default)]
pub(super) struct Tip(Cell<Option<ChainHead>>);

impl Tip {
    /// What was appended since may have been undone.
    pub(super) fn forget(&self) {
        self.0.set(None);
    }
}

/// Puts a record at the end.
pub(super) fn append(connection: &Connection, tip: &Tip, record: &impl ChainRecord) -> Result<(), Problem> {
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

/// Deletes the oldest links, none behind `through`.
pub(super) fn prune(connection: &Connection, through: u64, limit: usize) -> Result<(), Problem> {
    let sql =
        "DELETE FROM audit_links WHERE seq IN (SELECT seq FROM audit_links WHERE seq <= ?1 ORDER BY seq LIMIT ?2)";
    execute(connection, sql, params![to_integer(through)?, to_limit(limit)])?;
    Ok(())
}

pub(super) fn head(connection: &Connection) -> Result<ChainHead, Problem> {
    let sql = "SELECT seq, hash FROM audit_links ORDER BY seq DESC LIMIT 1";
    let last =
        first(connection, sql, [], |row| Ok(ChainHead { seq: rows::number(row, 0)?, hash: rows::digest(row, 1)? }))?;
    Ok(last.unwrap_or(ChainHead::START))
}

pub(super) fn links(connection: &Connection, after: u64, limit: usize) -> Result<Vec<ChainLink>, Problem> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let sql = "SELECT seq, previous, hash, record, redaction FROM audit_links WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    all(connection, sql, params![after, to_limit(limit)], read)
}

/// Found by the text of the record, since a record that was changed may be no JSON any more.
pub(super) fn links_of(connection: &Connection, call: &CallId, limit: usize) -> Result<Vec<ChainLink>, Problem> {
    let named = format!("\"call\":{}", to_json(call)?);
    let sql = "SELECT seq, previous, hash, record, redaction FROM audit_links WHERE instr(record, ?1) > 0 ORDER BY seq LIMIT ?2";
    all(connection, sql, params![named, to_limit(limit)], read)
}

fn read(row: &Row<'_>) -> Result<ChainLink, Problem> {
    Ok(ChainLink {
        seq: rows::number(row, 0)?,
        previous: rows::digest(row, 1)?,
        hash: rows::digest(row, 2)?,
        record: row.get(3)?,
        redaction: row.get(4)?,
    })
}
