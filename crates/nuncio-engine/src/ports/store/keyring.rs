//! Store of the server's own keys, which all nodes share. Their contents are sealed under the secret key.

use async_trait::async_trait;

use super::StoreError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyringChange {
    /// Stores a key. `Exists` if there is one of this name.
    Create(KeyringEntry),
    /// Replaces a key. `Missing` if there is none of this name; `Moved` unless its stored revision is the previous one.
    Replace(KeyringEntry),
}

#[derive(Clone, PartialEq, Eq)]
pub struct KeyringEntry {
    pub name: String,
    /// Sealed content.
    pub sealed: String,
    /// 1 for a new key; increases with each replacement.
    pub revision: u64,
}

#[async_trait]
pub trait KeyringStore: Send + Sync {
    async fn keyring_entry(&self, name: &str) -> Result<Option<KeyringEntry>, StoreError>;
    /// All keys, ordered by name.
    async fn keyring(&self) -> Result<Vec<KeyringEntry>, StoreError>;
}

nuncio_core::opaque_debug!(KeyringEntry);
