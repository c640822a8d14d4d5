//! Calls that were started and have not ended.

use nuncio_core::audit::AuditRecord;
use nuncio_engine::ports::store::{Conflict, ResultTarget, StartedCall};
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, execute, execute_or, to_json};

pub(super) fn start(
    connection: &Connection,
    key: &str,
    record: &AuditRecord,
    place: Option<&ResultTarget>,
) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO started_calls (key, asked_at, place, record) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO NOTHING",
        params![key, record.asked_at.as_millis(), place.map(to_json).transpose()?, to_json(record)?],
    )
}

pub(super) fn finish(connection: &Connection, key: &str) -> Result<(), SqlProblem> {
    execute(connection, "DELETE FROM started_calls WHERE key = ?1", [key])?;
    Ok(())
}

/// In request order, so that recovery records them in that order.
pub(super) fn all(connection: &Connection) -> Result<Vec<StartedCall>, SqlProblem> {
    rows::all(connection, "SELECT key, place, record FROM started_calls ORDER BY asked_at, key", [], read)
}

fn read(row: &Row<'_>) -> Result<StartedCall, SqlProblem> {
    Ok(StartedCall { key: row.get(0)?, place: rows::optional(row, 1, rows::json)?, record: rows::json(row, 2)? })
}
