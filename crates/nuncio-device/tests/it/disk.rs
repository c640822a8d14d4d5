//! In-memory key store of a device process that a test can kill.

use std::sync::{Mutex, MutexGuard};

use nuncio_identity::seal::{KeyStore, KeyStoreError, MemoryKeyStore};

/// Key store of a device process, until the next process takes over its records.
#[derive(Debug, Default)]
pub(crate) struct KillableKeyStore {
    records: MemoryKeyStore,
    is_taken: Mutex<bool>,
}

impl KillableKeyStore {
    /// Copies the records as a killed process would leave them. From then on the old process can store nothing, and so
    /// seals and sends nothing.
    pub(crate) fn take(&self) -> Self {
        let mut is_taken = self.is_taken.lock().unwrap();
        *is_taken = true;
        let left = Self::default();
        let records = self.records.all("").unwrap();
        left.records.save(records.into_iter().map(|(name, value)| (name, Some(value))).collect()).unwrap();
        left
    }

    /// Lock held during each read and write; an error after the records were taken over.
    fn alive(&self) -> Result<MutexGuard<'_, bool>, KeyStoreError> {
        let is_taken = self.is_taken.lock().unwrap();
        if *is_taken { Err(KeyStoreError("the process was killed".to_owned())) } else { Ok(is_taken) }
    }
}

impl KeyStore for KillableKeyStore {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeyStoreError> {
        let _alive = self.alive()?;
        self.records.load(name)
    }

    fn save(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), KeyStoreError> {
        let _alive = self.alive()?;
        self.records.save(changes)
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, KeyStoreError> {
        let _alive = self.alive()?;
        self.records.names(prefix)
    }

    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeyStoreError> {
        let _alive = self.alive()?;
        self.records.all(prefix)
    }
}
