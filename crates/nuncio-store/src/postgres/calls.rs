//! Calls that were started and have not ended.

use async_trait::async_trait;
use nuncio_core::execution::{CallAuthorization, Execution};
use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::store::{CallChange, CallStore, Conflict, StartedCall, StoreError};
use tokio_postgres::Row;

use super::rows::{self, to_json};
use super::writes::{SqlWrite, Translated, Writes, params};
use super::{PostgresStore, executions};

pub(super) fn translate(change: &CallChange, out: &mut Writes) -> Translated {
    out.push(match change {
        CallChange::Start(call) => {
            let StartedCall { key, node, record, target } = &**call;
            let sql = "INSERT INTO started_calls (key, asked_at, place, record, node) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (key) DO NOTHING";
            let target = target.as_ref().map(to_json).transpose()?;
            SqlWrite::one_or(
                Conflict::Exists,
                sql,
                params![key, record.asked_at, target, to_json(record)?, node.as_str()],
            )
        }
        CallChange::Finish(key) => {
            SqlWrite::one_or(Conflict::Missing, "DELETE FROM started_calls WHERE key = $1", params![key])
        }
    });
    Ok(())
}

#[async_trait]
impl CallStore for PostgresStore {
    async fn started_calls(&self, node: &Incarnation) -> Result<Vec<StartedCall>, StoreError> {
        let sql = "SELECT key, node, place, record FROM started_calls WHERE node = $1 ORDER BY asked_at, key";
        let read = |row: &Row| {
            let target = rows::optional(row, 2, rows::json)?;
            Ok(StartedCall {
                key: rows::get(row, 0)?,
                node: rows::text_form(row, 1)?,
                target,
                record: rows::json(row, 3)?,
            })
        };
        self.readers.all(sql, params![node.as_str()], read).await
    }

    async fn begun_calls(&self, node: &Incarnation) -> Result<Vec<(Execution, CallAuthorization)>, StoreError> {
        self.readers.all(executions::BEGUN, params![node.as_str()], executions::read_begun).await
    }
}
