//! Files with the keys and sessions that agents have with people's devices, encrypted with keys that are derived from
//! the server's `secret.key`.

use std::path::PathBuf;

use nuncio_core::ids::AgentName;
use nuncio_core::opaque_debug;
use nuncio_engine::secret_cipher::KEY_BYTES;
use nuncio_identity::seal::{KeyStoreError, StorageKey};
use nuncio_store::SqliteKeyStore;

/// The folder of the key stores, one file per agent.
pub(crate) struct AgentKeyStoreFolder {
    pub(crate) path: PathBuf,
    /// The content of `secret.key`.
    pub(crate) secret: [u8; KEY_BYTES],
}

impl AgentKeyStoreFolder {
    /// Opens the key store of an agent. An unencrypted file of an earlier version is encrypted now.
    pub(super) fn open(&self, agent: &AgentName) -> Result<SqliteKeyStore, KeyStoreError> {
        std::fs::create_dir_all(&self.path).map_err(|why| KeyStoreError(why.to_string()))?;
        let file = self.path.join(format!("{agent}.db"));
        let key = StorageKey::derived(&self.secret, &format!("seals/{agent}"));
        SqliteKeyStore::open(&file)?.seal_with(key).map_err(|KeyStoreError(why)| {
            KeyStoreError(format!(
                "{}: {why}; restore secret.key, or remove this file: the agent then gets new keys, and people are \
                 shown that they changed",
                file.display()
            ))
        })
    }

    pub(super) fn agents(&self) -> impl Iterator<Item = AgentName> + use<> {
        let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten().map(|file| file.path());
        let databases = files.filter(|path| path.extension().is_some_and(|extension| extension == "db"));
        databases.filter_map(|path| AgentName::parse(path.file_stem()?.to_str()?).ok())
    }
}

opaque_debug!(AgentKeyStoreFolder);

#[cfg(test)]
mod tests {
    use nuncio_identity::seal::KeyStore as _;

    use super::*;

    #[test]
    fn unencrypted_key_store_of_an_earlier_version_is_encrypted_when_opened() {
        let folder = tempfile::tempdir().unwrap();
        let seals = AgentKeyStoreFolder { path: folder.path().join("seals"), secret: [1; KEY_BYTES] };
        let desk = AgentName::parse("desk").unwrap();
        let record = |text: &str| vec![("session/1".to_owned(), Some(text.as_bytes().to_vec()))];
        std::fs::create_dir(folder.path().join("seals")).unwrap();
        let file = folder.path().join("seals/desk.db");
        SqliteKeyStore::open(&file).unwrap().save(record("plain words")).unwrap();
        let store = seals.open(&desk).unwrap();
        assert_eq!(store.load("session/1").unwrap().unwrap(), b"plain words");
        store.save(record("other words")).unwrap();
        drop(store);
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"words"));
        assert_eq!(seals.open(&desk).unwrap().load("session/1").unwrap().unwrap(), b"other words");
        assert_eq!(seals.agents().map(|name| name.to_string()).collect::<Vec<_>>(), ["desk"]);
        let other = AgentKeyStoreFolder { path: folder.path().join("seals"), secret: [2; KEY_BYTES] };
        let refused = other.open(&desk).unwrap_err().to_string();
        assert!(refused.contains("another key") && refused.contains("remove this file"), "{refused}");
    }
}
