//! Encrypted records in a [`KeyStore`](super::KeyStore). The key that encrypts the records is stored beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::cipher;
use super::key_store::{KeyStore, KeyStoreError};

/// A record to save under a name; `None` removes it.
pub type SealedRecordChange = (String, Option<Vec<u8>>);

/// Name of the record that holds the key of all other records.
const KEY: &str = "key";

/// Encrypted records of one identity. Each ciphertext is bound to its record name.
pub(super) struct SealedRecords {
    store: Arc<dyn KeyStore>,
    key: Zeroizing<[u8; 32]>,
}

impl SealedRecords {
    /// Returns a new vault and the change that stores its key.
    pub(super) fn create(store: Arc<dyn KeyStore>) -> Result<(Self, SealedRecordChange), KeyStoreError> {
        if store.load(KEY)?.is_some() {
            return Err(KeyStoreError("the store already has keys".to_owned()));
        }
        let key = Zeroizing::new(cipher::random());
        let change = (KEY.to_owned(), Some(key.to_vec()));
        Ok((Self { store, key }, change))
    }

    pub(super) fn load(store: Arc<dyn KeyStore>) -> Result<Option<Self>, KeyStoreError> {
        let Some(key) = store.load(KEY)?.map(Zeroizing::new) else { return Ok(None) };
        let key = <[u8; 32]>::try_from(key.as_slice());
        let key = key.map_err(|_| KeyStoreError("the record \"key\" is damaged".to_owned()))?;
        Ok(Some(Self { store, key: Zeroizing::new(key) }))
    }

    /// The change that stores a value.
    pub(super) fn put(&self, name: String, value: &impl Serialize) -> SealedRecordChange {
        self.put_large(name, value, 4096)
    }

    /// The change that stores a value of about `room` bytes. Reserving enough room avoids reallocation, which would
    /// leave plaintext copies in memory.
    pub(super) fn put_large(&self, name: String, value: &impl Serialize, room: usize) -> SealedRecordChange {
        let mut text = Zeroizing::new(Vec::with_capacity(room));
        serde_json::to_writer(&mut *text, value).expect("a record has only values that JSON can hold");
        let record = cipher::seal(&self.key, name.as_bytes(), &text);
        (name, Some(record))
    }

    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, KeyStoreError> {
        let Some(record) = self.store.load(name)? else { return Ok(None) };
        let damaged = || KeyStoreError(format!("the record {name:?} is damaged"));
        let text = Zeroizing::new(cipher::open(&self.key, name.as_bytes(), record).ok_or_else(damaged)?);
        serde_json::from_slice(&text).map(Some).map_err(|_| damaged())
    }

    /// The record names with this prefix.
    pub(super) fn names(&self, prefix: &str) -> Result<Vec<String>, KeyStoreError> {
        self.store.names(prefix)
    }

    /// Saves all changes atomically. If a name occurs twice, the later change wins.
    pub(super) fn save(&self, changes: Vec<SealedRecordChange>) -> Result<(), KeyStoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let changes: BTreeMap<_, _> = changes.into_iter().collect();
        self.store.save(changes.into_iter().collect())
    }
}
