//! Columns whose values are encrypted under the secret key.

use async_trait::async_trait;
use nuncio_engine::ports::store::{SealedColumn, SealedValueChange, SealedValueStore, StoreError};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{run, to_limit};

/// Table, id column and value column, and the condition of rows that may have an encrypted value.
const fn place(column: SealedColumn) -> (&'static str, &'static str, &'static str, &'static str) {
    match column {
        SealedColumn::Keyring => ("keyring", "name", "sealed", "1"),
        SealedColumn::ApiKey => ("api_keys", "id", "sealed", "sealed IS NOT NULL"),
        SealedColumn::PreviousApiKey => ("api_keys", "id", "previous_sealed", "previous_sealed IS NOT NULL"),
        SealedColumn::Webhook => ("webhooks", "recipient", "secret", "1"),
        SealedColumn::SessionSettings => ("sessions", "id", "settings", "instr(settings, '\"sealed\"') > 0"),
    }
}

pub(super) fn apply(connection: &Connection, change: &SealedValueChange) -> Result<(), SqlError> {
    let SealedValueChange { column, id, from, to } = change;
    let (table, key, value, _) = place(*column);
    let sql = format!("UPDATE {table} SET {value} = ?3 WHERE {key} = ?1 AND {value} = ?2");
    run(connection, &sql, params![id, from, to])
}

#[async_trait]
impl SealedValueStore for SqliteStore {
    async fn sealed_values(
        &self,
        column: SealedColumn,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let (table, key, value, has_value) = place(column);
        let sql =
            format!("SELECT {key}, {value} FROM {table} WHERE {key} > ?1 AND {has_value} ORDER BY {key} LIMIT ?2");
        let after = after.unwrap_or_default().to_owned();
        self.readers.all(sql, params_of(after, limit), |row| Ok((row.get(0)?, row.get(1)?))).await
    }
}

fn params_of(after: String, limit: usize) -> (String, i64) {
    (after, to_limit(limit))
}
