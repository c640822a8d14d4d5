//! Calls that were started and have not ended.

use async_trait::async_trait;
use nuncio_core::execution::{CallAuthorization, Execution};
use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::store::{CallChange, CallStore, Conflict, StartedCall, StoreError};
use rusqlite::{Connection, params};

use super::problem::SqlError;
use super::rows::{self, execute_or, to_json};
use super::{SqliteStore, executions};

pub(super) fn apply(connection: &Connection, change: &CallChange) -> Result<(), SqlError> {
    match change {
        CallChange::Start(call) => {
            let StartedCall { key, node, record, target } = &**call;
            let sql = "INSERT INTO started_calls (key, asked_at, place, record, node) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (key) DO NOTHING";
            let target = target.as_ref().map(to_json).transpose()?;
            let params = params![key, record.asked_at.as_millis(), target, to_json(record)?, node.as_str()];
            execute_or(Conflict::Exists, connection, sql, params)
        }
        CallChange::Finish(key) => {
            execute_or(Conflict::Missing, connection, "DELETE FROM started_calls WHERE key = ?1", [key])
        }
    }
}

#[async_trait]
impl CallStore for SqliteStore {
    async fn started_calls(&self, node: &Incarnation) -> Result<Vec<StartedCall>, StoreError> {
        let sql = "SELECT key, node, place, record FROM started_calls WHERE node = ?1 ORDER BY asked_at, key";
        let read = |row: &rusqlite::Row<'_>| {
            let target = rows::optional(row, 2, rows::json)?;
            Ok(StartedCall { key: row.get(0)?, node: rows::text_form(row, 1)?, target, record: rows::json(row, 3)? })
        };
        self.readers.all(sql, [node.to_string()], read).await
    }

    async fn begun_calls(&self, node: &Incarnation) -> Result<Vec<(Execution, CallAuthorization)>, StoreError> {
        self.readers.all(executions::BEGUN, [node.to_string()], executions::read_begun).await
    }
}
