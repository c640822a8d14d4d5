//! Calls that were started and have not ended.

use nuncio_engine::ports::store::{Conflict, StartedCall};
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, execute_or, run, to_json};

pub(super) fn start(connection: &Connection, call: &StartedCall) -> Result<(), SqlProblem> {
    let StartedCall { key, record, target } = call;
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO started_calls (key, asked_at, place, record) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO NOTHING",
        params![key, record.asked_at.as_millis(), target.as_ref().map(to_json).transpose()?, to_json(record)?],
    )
}

pub(super) fn finish(connection: &Connection, key: &str) -> Result<(), SqlProblem> {
    run(connection, "DELETE FROM started_calls WHERE key = ?1", [key])
}

/// Lists the started calls in request order, so that recovery records them in that order.
pub(super) fn all(connection: &Connection) -> Result<Vec<StartedCall>, SqlProblem> {
    rows::all(connection, "SELECT key, place, record FROM started_calls ORDER BY asked_at, key", [], read)
}

fn read(row: &Row<'_>) -> Result<StartedCall, SqlProblem> {
    Ok(StartedCall { key: row.get(0)?, target: rows::optional(row, 1, rows::json)?, record: rows::json(row, 2)? })
}
