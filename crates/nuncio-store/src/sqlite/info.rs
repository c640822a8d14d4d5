//! What the store says about itself.

use std::collections::BTreeMap;

use async_trait::async_trait;
use nuncio_engine::ports::store::{Conflict, StoreError, StoreInfoChange, StoreInfoStore};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{execute_or, run};

pub(super) fn apply(connection: &Connection, change: &StoreInfoChange) -> Result<(), SqlError> {
    match change {
        StoreInfoChange::Put { name, value } => run(
            connection,
            "INSERT INTO store_info (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            params![name, value],
        ),
        StoreInfoChange::Remove { name } => {
            execute_or(Conflict::Missing, connection, "DELETE FROM store_info WHERE name = ?1", [name])
        }
    }
}

#[async_trait]
impl StoreInfoStore for SqliteStore {
    async fn store_info(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let entries = self.readers.all("SELECT name, value FROM store_info", [], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(entries.await?.into_iter().collect())
    }
}
