//! Where a party keeps what it must not lose.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use super::vault::Change;

/// What a party keeps, durable. One party uses it at a time.
///
/// The first record is the key that seals the party's others, so whoever reads everything here reads everything the
/// party reads: a file must be of mode 0600, and a device's is sealed under a [`StorageKey`](super::StorageKey). An older copy must never be put back, since keys of a ratchet would be used
/// twice; what survives a lost disk is a [`backup`](super::backup).
pub trait Keep: fmt::Debug + Send + Sync {
    /// What was last saved under a name.
    ///
    /// # Errors
    /// It cannot be read.
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeepError>;

    /// Saves records, and removes those without a value: all or none, and on disk when it returns. No name stands
    /// twice in one call.
    ///
    /// # Errors
    /// Nothing was saved.
    fn save(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), KeepError>;

    /// The names that begin so.
    ///
    /// # Errors
    /// They cannot be read.
    fn names(&self, prefix: &str) -> Result<Vec<String>, KeepError>;

    /// The records whose names begin so, in the order of their names, all as they are at one moment.
    ///
    /// # Errors
    /// They cannot be read.
    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeepError>;

    /// Removes the records whose name or value mentions one of these texts.
    ///
    /// # Errors
    /// Nothing was removed.
    fn forget(&self, texts: &[String]) -> Result<(), KeepError> {
        self.save(mentioning(self, texts)?)
    }
}

/// The changes that remove the records whose name or value mentions one of these texts.
///
/// # Errors
/// They cannot be read.
pub fn mentioning(keep: &(impl Keep + ?Sized), texts: &[String]) -> Result<Vec<Change>, KeepError> {
    let has = |bytes: &[u8], text: &String| bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes());
    let mentions = |bytes: &[u8]| texts.iter().any(|text| has(bytes, text));
    let records = keep.all("")?.into_iter();
    let gone = records.filter(|(name, value)| mentions(name.as_bytes()) || mentions(value));
    Ok(gone.map(|(name, _)| (name, None)).collect())
}

/// Why something is not kept or cannot be read again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the keys cannot be kept: {0}")]
pub struct KeepError(pub String);

/// Keeps everything in memory: for tests and short lives.
#[derive(Default)]
pub struct MemoryKeep(Mutex<BTreeMap<String, Vec<u8>>>);

impl MemoryKeep {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn records(&self) -> Result<std::sync::MutexGuard<'_, BTreeMap<String, Vec<u8>>>, KeepError> {
        self.0.lock().map_err(|_| KeepError("another thread died while it was writing".to_owned()))
    }
}

impl Keep for MemoryKeep {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeepError> {
        Ok(self.records()?.get(name).cloned())
    }

    fn save(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), KeepError> {
        let mut records = self.records()?;
        for (name, value) in changes {
            match value {
                Some(value) => records.insert(name, value),
                None => records.remove(&name),
            };
        }
        Ok(())
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, KeepError> {
        let records = self.records()?;
        let from = records.range(prefix.to_owned()..).map(|(name, _)| name);
        Ok(from.take_while(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeepError> {
        let records = self.records()?;
        let from = records.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

impl fmt::Debug for MemoryKeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryKeep")
    }
}
