//! Columns whose values are encrypted under the secret key.

use async_trait::async_trait;
use nuncio_engine::ports::store::{SealedColumn, SealedValueChange, SealedValueStore, StoreError};

use super::PostgresStore;
use super::rows::{self, to_limit};
use super::writes::{SqlWrite, Translated, Writes, params};

/// The statement that replaces a value of a column, and the query that lists them.
const fn statements(column: SealedColumn) -> (&'static str, &'static str) {
    match column {
        SealedColumn::Keyring => (
            "UPDATE keyring SET sealed = $3 WHERE name = $1 AND sealed = $2",
            "SELECT name, sealed FROM keyring WHERE name > $1 ORDER BY name LIMIT $2",
        ),
        SealedColumn::ApiKey => (
            "UPDATE api_keys SET sealed = $3 WHERE id = $1 AND sealed = $2",
            "SELECT id, sealed FROM api_keys WHERE id > $1 AND sealed IS NOT NULL ORDER BY id LIMIT $2",
        ),
        SealedColumn::PreviousApiKey => (
            "UPDATE api_keys SET previous_sealed = $3 WHERE id = $1 AND previous_sealed = $2",
            "SELECT id, previous_sealed FROM api_keys WHERE id > $1 AND previous_sealed IS NOT NULL
             ORDER BY id LIMIT $2",
        ),
        SealedColumn::Webhook => (
            "UPDATE webhooks SET secret = $3 WHERE recipient = $1 AND secret = $2",
            "SELECT recipient, secret FROM webhooks WHERE recipient > $1 ORDER BY recipient LIMIT $2",
        ),
        SealedColumn::SessionSettings => (
            "UPDATE sessions SET settings = $3 WHERE id = $1 AND settings = $2",
            "SELECT id, settings FROM sessions WHERE id > $1 AND position('\"sealed\"' IN settings) > 0
             ORDER BY id LIMIT $2",
        ),
    }
}

pub(super) fn translate(change: &SealedValueChange, out: &mut Writes) -> Translated {
    let SealedValueChange { column, id, from, to } = change;
    out.push(SqlWrite::any(statements(*column).0, params![id, from, to]));
    Ok(())
}

#[async_trait]
impl SealedValueStore for PostgresStore {
    async fn sealed_values(
        &self,
        column: SealedColumn,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let params = params![after.unwrap_or_default(), to_limit(limit)];
        let sql = statements(column).1;
        self.readers.all(sql, params, |row| Ok((rows::get(row, 0)?, rows::get(row, 1)?))).await
    }
}
