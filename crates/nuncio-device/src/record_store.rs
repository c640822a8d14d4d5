//! JSON records of the device, stored in the same key store as its keys.

use std::sync::Arc;

use nuncio_identity::seal::{KeyStore, KeyStoreError, SealedRecordChange};
use serde::Serialize;
use serde::de::DeserializeOwned;

const RECORD_PREFIX: &str = "device/";

pub(crate) type NamedRecord<T> = (String, Result<T, KeyStoreError>);

#[derive(Debug, Clone)]
pub(crate) struct RecordStore(Arc<dyn KeyStore>);

impl RecordStore {
    pub(crate) fn new(key_store: Arc<dyn KeyStore>) -> Self {
        Self(key_store)
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, KeyStoreError> {
        let Some(bytes) = self.0.load(&format!("{RECORD_PREFIX}{name}"))? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|_| damaged(name))
    }

    /// Change that writes a record; [`Self::save`] applies it.
    pub(crate) fn put(name: &str, value: &impl Serialize) -> SealedRecordChange {
        (format!("{RECORD_PREFIX}{name}"), Some(serde_json::to_vec(value).unwrap_or_default()))
    }

    pub(crate) fn delete(name: &str) -> SealedRecordChange {
        (format!("{RECORD_PREFIX}{name}"), None)
    }

    pub(crate) fn set(&self, name: &str, value: &impl Serialize) -> Result<(), KeyStoreError> {
        self.0.save(vec![Self::put(name, value)])
    }

    /// Applies all record changes or none.
    pub(crate) fn save(&self, changes: Vec<SealedRecordChange>) -> Result<(), KeyStoreError> {
        if changes.is_empty() { Ok(()) } else { self.0.save(changes) }
    }

    /// Records whose names start with `prefix`, in order of name. Each unreadable record is returned as an error.
    pub(crate) fn all<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<NamedRecord<T>>, KeyStoreError> {
        let records = self.0.all(&format!("{RECORD_PREFIX}{prefix}"))?;
        let named = |(name, bytes): (String, Vec<u8>)| {
            let name = name.strip_prefix(RECORD_PREFIX)?.to_owned();
            let value = serde_json::from_slice(&bytes).map_err(|_| damaged(&name));
            Some((name, value))
        };
        Ok(records.into_iter().filter_map(named).collect())
    }

    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>, KeyStoreError> {
        let names = self.0.names(&format!("{RECORD_PREFIX}{prefix}"))?;
        Ok(names.into_iter().filter_map(|name| name.strip_prefix(RECORD_PREFIX).map(str::to_owned)).collect())
    }
}

fn damaged(name: &str) -> KeyStoreError {
    KeyStoreError(format!("the record {name:?} cannot be read"))
}
