//! What the device keeps beside its keys, as JSON under names of its own.

use std::sync::Arc;

use nuncio_identity::seal::{Change, Keep, KeepError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How every name begins.
const PREFIX: &str = "device/";

/// The device's records.
#[derive(Debug, Clone)]
pub(crate) struct Records(Arc<dyn Keep>);

impl Records {
    pub(crate) fn new(keep: Arc<dyn Keep>) -> Self {
        Self(keep)
    }

    /// What is kept under a name.
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, KeepError> {
        let Some(bytes) = self.0.load(&format!("{PREFIX}{name}"))? else { return Ok(None) };
        let damaged = |_| KeepError(format!("the record {name:?} cannot be read"));
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// The change that keeps a value.
    pub(crate) fn put(name: &str, value: &impl Serialize) -> Change {
        (format!("{PREFIX}{name}"), Some(serde_json::to_vec(value).unwrap_or_default()))
    }

    /// The change that forgets one.
    pub(crate) fn gone(name: &str) -> Change {
        (format!("{PREFIX}{name}"), None)
    }

    /// Keeps a value.
    pub(crate) fn set(&self, name: &str, value: &impl Serialize) -> Result<(), KeepError> {
        self.0.save(vec![Self::put(name, value)])
    }

    /// Makes changes, all or none.
    pub(crate) fn save(&self, changes: Vec<Change>) -> Result<(), KeepError> {
        if changes.is_empty() { Ok(()) } else { self.0.save(changes) }
    }

    /// The names that begin so, without what all begin with.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>, KeepError> {
        let names = self.0.names(&format!("{PREFIX}{prefix}"))?;
        Ok(names.into_iter().filter_map(|name| name.strip_prefix(PREFIX).map(str::to_owned)).collect())
    }
}
