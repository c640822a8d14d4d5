//! Pending execution callbacks.

use nuncio_core::ids::ExecutionId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, ExecutionCallback};
use rusqlite::{Connection, params};

use super::problem::SqlProblem;
use super::rows::{self, all, run, to_limit};

pub(super) fn put(connection: &Connection, callback: &ExecutionCallback) -> Result<(), SqlProblem> {
    run(
        connection,
        "INSERT INTO callbacks (execution, due, attempts) VALUES (?1, ?2, ?3)
         ON CONFLICT (execution) DO UPDATE SET due = excluded.due, attempts = excluded.attempts",
        params![callback.execution.as_str(), callback.due.as_millis(), callback.attempts],
    )
    .map_err(|problem| problem.of_no_owner(Conflict::Missing))
}

pub(super) fn remove(connection: &Connection, execution: &ExecutionId) -> Result<(), SqlProblem> {
    run(connection, "DELETE FROM callbacks WHERE execution = ?1", [execution.as_str()])
}

pub(super) fn first(
    connection: &Connection,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<ExecutionCallback>, SqlProblem> {
    let sql = "SELECT execution, due, attempts FROM callbacks WHERE due <= ?1 ORDER BY due, execution LIMIT ?2";
    all(connection, sql, params![until.as_millis(), to_limit(limit)], |row| {
        Ok(ExecutionCallback { execution: rows::text_form(row, 0)?, due: rows::moment(row, 1)?, attempts: row.get(2)? })
    })
}
