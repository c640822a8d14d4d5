//! Calls that were started and have not ended.

use async_trait::async_trait;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionLease};
use nuncio_engine::ports::store::{CallChange, CallStore, Conflict, StartedCall, StoreError};
use rusqlite::{Connection, params};

use super::problem::SqlProblem;
use super::rows::{self, execute_or, run, to_json};
use super::{SqliteStore, executions};

pub(super) fn apply(connection: &Connection, change: &CallChange) -> Result<(), SqlProblem> {
    match change {
        CallChange::Start(call) => {
            let StartedCall { key, record, target } = &**call;
            let sql = "INSERT INTO started_calls (key, asked_at, place, record) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (key) DO NOTHING";
            let target = target.as_ref().map(to_json).transpose()?;
            let params = params![key, record.asked_at.as_millis(), target, to_json(record)?];
            execute_or(Conflict::Exists, connection, sql, params)
        }
        CallChange::Finish(key) => run(connection, "DELETE FROM started_calls WHERE key = ?1", [key]),
    }
}

#[async_trait]
impl CallStore for SqliteStore {
    /// Lists the started calls in request order, so that recovery records them in that order.
    async fn started_calls(&self) -> Result<Vec<StartedCall>, StoreError> {
        let sql = "SELECT key, place, record FROM started_calls ORDER BY asked_at, key";
        let read = |row: &rusqlite::Row<'_>| {
            let target = rows::optional(row, 1, rows::json)?;
            Ok(StartedCall { key: row.get(0)?, target, record: rows::json(row, 2)? })
        };
        self.readers.all(sql, [], read).await
    }

    async fn begun_calls(&self) -> Result<Vec<(Execution, ExecutionLease, CallAuthorization)>, StoreError> {
        self.readers.all(executions::BEGUN, [], executions::read_unfinished).await
    }
}
