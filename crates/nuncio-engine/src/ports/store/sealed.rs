//! Columns whose values are encrypted under the secret key, for a replacement of that key.

use async_trait::async_trait;

use super::StoreError;

/// A column with encrypted values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedColumn {
    /// Keys of the server, by name.
    Keyring,
    /// Secrets of signing keys, by the id of the key.
    ApiKey,
    /// Previous secrets of signing keys, by the id of the key.
    PreviousApiKey,
    /// Secrets of webhooks, by recipient (`agent:` and the id of the agent).
    Webhook,
    /// Settings of sessions, by id: JSON that may contain encrypted options.
    SessionSettings,
}

impl SealedColumn {
    pub const ALL: [Self; 5] =
        [Self::Keyring, Self::ApiKey, Self::PreviousApiKey, Self::Webhook, Self::SessionSettings];
}

/// Replaces a value, unless it changed since it was read. No conflict if it did.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedValueChange {
    pub column: SealedColumn,
    pub id: String,
    pub from: String,
    pub to: String,
}

#[async_trait]
pub trait SealedValueStore: Send + Sync {
    /// At most `limit` ids and values of a column, of rows with an id above `after`, ordered by id. Rows without an
    /// encrypted value may be left out.
    async fn sealed_values(
        &self,
        column: SealedColumn,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, String)>, StoreError>;
}

nuncio_core::opaque_debug!(SealedValueChange);
