//! Keys of the server that all nodes share.

use std::path::Path;

use async_trait::async_trait;
use nuncio_engine::ports::store::{Conflict, KeyringChange, KeyringEntry, KeyringStore, StoreError};
use rusqlite::{Connection, Row, params};

use super::problem::SqlError;
use super::rows::{self, execute, execute_or, exists, to_integer};
use super::{SqliteStore, connection};

const ALL: &str = "SELECT name, sealed, revision FROM keyring ORDER BY name";

pub(super) fn apply(connection: &Connection, change: &KeyringChange) -> Result<(), SqlError> {
    match change {
        KeyringChange::Create(KeyringEntry { name, sealed, revision }) => execute_or(
            Conflict::Exists,
            connection,
            "INSERT INTO keyring (name, sealed, revision) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO NOTHING",
            params![name, sealed, to_integer(*revision)?],
        ),
        KeyringChange::Replace(KeyringEntry { name, sealed, revision }) => {
            let sql = "UPDATE keyring SET sealed = ?2, revision = ?3 WHERE name = ?1 AND revision = ?3 - 1";
            if execute(connection, sql, params![name, sealed, to_integer(*revision)?])? > 0 {
                return Ok(());
            }
            let is_there = exists(connection, "SELECT 1 FROM keyring WHERE name = ?1", [name])?;
            Err(if is_there { Conflict::Moved } else { Conflict::Missing }.into())
        }
    }
}

#[async_trait]
impl KeyringStore for SqliteStore {
    async fn keyring_entry(&self, name: &str) -> Result<Option<KeyringEntry>, StoreError> {
        self.readers.first("SELECT name, sealed, revision FROM keyring WHERE name = ?1", [name], read)
    }

    async fn keyring(&self) -> Result<Vec<KeyringEntry>, StoreError> {
        self.readers.all(ALL, [], read).await
    }
}

/// Reads the keys of a store that another process may use, and changes nothing. Empty if the store does not exist or
/// was written by an earlier version, which had no keys in it.
pub(super) fn read_unopened(path: &Path) -> Result<Vec<KeyringEntry>, StoreError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let connection = connection::reading(path)?;
    if !exists(&connection, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'keyring'", [])? {
        return Ok(Vec::new());
    }
    Ok(rows::all(&connection, ALL, [], read)?)
}

fn read(row: &Row<'_>) -> Result<KeyringEntry, SqlError> {
    Ok(KeyringEntry { name: row.get(0)?, sealed: row.get(1)?, revision: rows::number(row, 2)? })
}
