//! What the store says about itself.

use std::collections::BTreeMap;

use async_trait::async_trait;
use nuncio_engine::ports::store::{Conflict, StoreError, StoreInfoChange, StoreInfoStore};

use super::PostgresStore;
use super::rows;
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &StoreInfoChange, out: &mut Writes) -> Translated {
    out.push(match change {
        StoreInfoChange::Put { name, value } => SqlWrite::any(
            "INSERT INTO store_info (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            params![name, value],
        ),
        StoreInfoChange::Remove { name } => {
            SqlWrite::one_or(Conflict::Missing, "DELETE FROM store_info WHERE name = $1", params![name])
        }
    });
    Ok(())
}

#[async_trait]
impl StoreInfoStore for PostgresStore {
    async fn store_info(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let read = |row: &tokio_postgres::Row| Ok((rows::get(row, 0)?, rows::get(row, 1)?));
        let entries = self.readers.all("SELECT name, value FROM store_info", Vec::new(), read).await?;
        Ok(entries.into_iter().collect())
    }
}
