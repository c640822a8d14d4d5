//! Keys of the server that all nodes share.

use async_trait::async_trait;
use nuncio_engine::ports::store::{Conflict, KeyringChange, KeyringEntry, KeyringStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, to_integer};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &KeyringChange, out: &mut Writes) -> Translated {
    out.push(match change {
        KeyringChange::Create(KeyringEntry { name, sealed, revision }) => SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO keyring (name, sealed, revision) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
            params![name, sealed, to_integer(*revision)?],
        ),
        KeyringChange::Replace(KeyringEntry { name, sealed, revision }) => SqlWrite::found_or(
            Conflict::Moved,
            Conflict::Missing,
            "SELECT 1 FROM keyring WHERE name = $1",
            "UPDATE keyring SET sealed = $2, revision = $3::BIGINT WHERE name = $1 AND revision = $3::BIGINT - 1",
            params![name, sealed, to_integer(*revision)?],
        ),
    });
    Ok(())
}

#[async_trait]
impl KeyringStore for PostgresStore {
    async fn keyring_entry(&self, name: &str) -> Result<Option<KeyringEntry>, StoreError> {
        let sql = "SELECT name, sealed, revision FROM keyring WHERE name = $1";
        self.readers.first(sql, params![name], read).await
    }

    async fn keyring(&self) -> Result<Vec<KeyringEntry>, StoreError> {
        self.readers.all("SELECT name, sealed, revision FROM keyring ORDER BY name", Vec::new(), read).await
    }
}

fn read(row: &Row) -> Result<KeyringEntry, SqlError> {
    Ok(KeyringEntry { name: rows::get(row, 0)?, sealed: rows::get(row, 1)?, revision: rows::number(row, 2)? })
}
