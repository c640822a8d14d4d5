//! Storage interface for the secrets and state of a [`SealIdentity`](super::SealIdentity).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use super::vault::SealedRecordChange;

use nuncio_core::opaque_debug;

/// Durable record storage of one identity. Only one identity may use it at a time.
///
/// The first record is the key that encrypts the other records, so read access to the storage reveals everything: a
/// file needs mode 0600, and a device encrypts its storage under a [`StorageKey`](super::StorageKey). An older copy
/// must never be restored, because ratchet keys would be used twice; use a [`backup`](super::backup) instead.
pub trait KeyStore: fmt::Debug + Send + Sync {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeyStoreError>;

    /// Saves the records that have a value and removes those without. The call is atomic and durable when it returns. A
    /// name must not occur twice in one call.
    fn save(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), KeyStoreError>;

    /// The record names with this prefix.
    fn names(&self, prefix: &str) -> Result<Vec<String>, KeyStoreError>;

    /// The records whose names have this prefix, sorted by name, from one consistent snapshot.
    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeyStoreError>;

    /// Removes the records whose name or value contains one of these texts.
    fn forget(&self, texts: &[String]) -> Result<(), KeyStoreError> {
        self.save(mentioning(self, texts)?)
    }
}

/// The changes that remove all records whose name or value contains one of these texts.
pub fn mentioning(
    store: &(impl KeyStore + ?Sized),
    texts: &[String],
) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
    let has = |bytes: &[u8], text: &String| bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes());
    let mentions = |bytes: &[u8]| texts.iter().any(|text| has(bytes, text));
    let records = store.all("")?.into_iter();
    let gone = records.filter(|(name, value)| mentions(name.as_bytes()) || mentions(value));
    Ok(gone.map(|(name, _)| (name, None)).collect())
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the keys cannot be stored: {0}")]
pub struct KeyStoreError(pub String);

/// Keeps records in memory, for tests and short-lived processes.
#[derive(Default)]
pub struct MemoryKeyStore(Mutex<BTreeMap<String, Vec<u8>>>);

impl MemoryKeyStore {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn records(&self) -> Result<std::sync::MutexGuard<'_, BTreeMap<String, Vec<u8>>>, KeyStoreError> {
        self.0.lock().map_err(|_| KeyStoreError("another thread panicked while it was writing".to_owned()))
    }
}

impl KeyStore for MemoryKeyStore {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeyStoreError> {
        Ok(self.records()?.get(name).cloned())
    }

    fn save(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), KeyStoreError> {
        let mut records = self.records()?;
        for (name, value) in changes {
            match value {
                Some(value) => records.insert(name, value),
                None => records.remove(&name),
            };
        }
        Ok(())
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, KeyStoreError> {
        let records = self.records()?;
        let from = records.range(prefix.to_owned()..).map(|(name, _)| name);
        Ok(from.take_while(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeyStoreError> {
        let records = self.records()?;
        let from = records.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

opaque_debug!(MemoryKeyStore);
