//! The audit chain.

use nuncio_core::audit::{AuditRecord, Head, Link};
use rusqlite::{Connection, Row, params};

use super::problem::Problem;
use super::rows::{self, all, execute, first, to_integer, to_limit};

/// Puts a record at the end. The end is looked up inside the transaction and not remembered from
/// the last one: that costs less than the hash, and is right after a savepoint was rolled back or
/// another process has written.
pub(super) fn append(connection: &Connection, record: &AuditRecord) -> Result<(), Problem> {
    let head = head(connection)?;
    let link = Link::forge(head.seq + 1, head.hash, record);
    execute(
        connection,
        "INSERT INTO audit_links (seq, previous, hash, record) VALUES (?1, ?2, ?3, ?4)",
        params![to_integer(link.seq)?, link.previous.to_string(), link.hash.to_string(), link.record],
    )?;
    Ok(())
}

pub(super) fn head(connection: &Connection) -> Result<Head, Problem> {
    let sql = "SELECT seq, hash FROM audit_links ORDER BY seq DESC LIMIT 1";
    let last = first(connection, sql, [], |row| Ok(Head { seq: rows::number(row, 0)?, hash: rows::digest(row, 1)? }))?;
    Ok(last.unwrap_or(Head::START))
}

pub(super) fn links(connection: &Connection, after: u64, limit: usize) -> Result<Vec<Link>, Problem> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let sql = "SELECT seq, previous, hash, record FROM audit_links WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    all(connection, sql, params![after, to_limit(limit)], read)
}

fn read(row: &Row<'_>) -> Result<Link, Problem> {
    Ok(Link {
        seq: rows::number(row, 0)?,
        previous: rows::digest(row, 1)?,
        hash: rows::digest(row, 2)?,
        record: row.get(3)?,
    })
}
