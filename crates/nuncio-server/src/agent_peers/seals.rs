//! Files with the keys and sessions that agents have with people's devices, encrypted with keys that are derived from
//! the server's `secret.key`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use nuncio_core::ids::AgentName;
use nuncio_core::opaque_debug;
use nuncio_engine::secret_cipher::KEY_BYTES;
use nuncio_identity::seal::{KeyStoreError, StorageKey};
use nuncio_store::SqliteKeyStore;

/// The folder of the key stores, one file per agent.
pub(crate) struct AgentKeyStoreFolder {
    path: PathBuf,
    /// The secret key, then those that it replaced.
    secrets: RwLock<Vec<[u8; KEY_BYTES]>>,
    open: Mutex<HashMap<AgentName, Weak<SqliteKeyStore>>>,
}

impl AgentKeyStoreFolder {
    /// `secrets` are the secret key and those that it replaces.
    pub(crate) fn new(path: PathBuf, secrets: Vec<[u8; KEY_BYTES]>) -> Self {
        Self { path, secrets: RwLock::new(secrets), open: Mutex::default() }
    }

    /// Opens the key store of an agent. An unencrypted file of an earlier version is encrypted now.
    pub(super) fn open(&self, agent: &AgentName) -> Result<Arc<SqliteKeyStore>, KeyStoreError> {
        std::fs::create_dir_all(&self.path).map_err(|why| KeyStoreError(why.to_string()))?;
        let file = self.path.join(format!("{agent}.db"));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone();
        let with = |secret| SqliteKeyStore::open(&file)?.seal_with(storage_key(secret, agent));
        let mut found = with(&secrets[0]);
        for replaced in &secrets[1..] {
            if found.is_err() {
                found = with(replaced).and_then(|store| store.reseal(storage_key(&secrets[0], agent)).map(|()| store));
            }
        }
        let store = found.map_err(|KeyStoreError(why)| {
            KeyStoreError(format!(
                "{}: {why}; restore secret.key, or remove this file: the agent then gets new keys, and people are \
                 shown that they changed",
                file.display()
            ))
        })?;
        let store = Arc::new(store);
        open.insert(agent.clone(), Arc::downgrade(&store));
        Ok(store)
    }

    /// Encrypts all files under a new secret key, also those in use.
    pub(super) fn change_secret_key(&self, secret: &[u8; KEY_BYTES]) -> Result<(), KeyStoreError> {
        let mut secrets = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        if secrets[0] != *secret {
            secrets.insert(0, *secret);
        }
        drop(secrets);
        for agent in self.agents() {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&agent).and_then(Weak::upgrade);
            match open {
                Some(store) => store.reseal(storage_key(secret, &agent))?,
                None => drop(self.open(&agent)?),
            }
        }
        Ok(())
    }

    pub(super) fn agents(&self) -> impl Iterator<Item = AgentName> + use<> {
        let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten().map(|file| file.path());
        let databases = files.filter(|path| path.extension().is_some_and(|extension| extension == "db"));
        databases.filter_map(|path| AgentName::parse(path.file_stem()?.to_str()?).ok())
    }
}

fn storage_key(secret: &[u8; KEY_BYTES], agent: &AgentName) -> StorageKey {
    StorageKey::derived(secret, &format!("seals/{agent}"))
}

opaque_debug!(AgentKeyStoreFolder);

#[cfg(test)]
mod tests {
    use nuncio_identity::seal::KeyStore as _;

    use super::*;

    #[test]
    fn unencrypted_key_store_of_an_earlier_version_is_encrypted_when_opened() {
        let folder = tempfile::tempdir().unwrap();
        let seals = AgentKeyStoreFolder::new(folder.path().join("seals"), vec![[1; KEY_BYTES]]);
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
        let other = AgentKeyStoreFolder::new(folder.path().join("seals"), vec![[2; KEY_BYTES]]);
        let refused = other.open(&desk).unwrap_err().to_string();
        assert!(refused.contains("another key") && refused.contains("remove this file"), "{refused}");
    }

    #[test]
    fn new_secret_key_applies_to_open_and_closed_files_and_to_those_that_were_missed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("seals");
        let [open, closed] = ["open", "closed"].map(|name| AgentName::parse(name).unwrap());
        let record = || vec![("session/1".to_owned(), Some(b"words".to_vec()))];
        let load = |store: &SqliteKeyStore| store.load("session/1").unwrap().unwrap();
        let seals = AgentKeyStoreFolder::new(place.clone(), vec![[1; KEY_BYTES]]);
        seals.open(&closed).unwrap().save(record()).unwrap();
        let store = seals.open(&open).unwrap();
        store.save(record()).unwrap();
        seals.change_secret_key(&[2; KEY_BYTES]).unwrap();
        assert_eq!(load(&store), b"words");
        drop(store);
        for agent in [&open, &closed] {
            assert!(AgentKeyStoreFolder::new(place.clone(), vec![[1; KEY_BYTES]]).open(agent).is_err());
            let both = AgentKeyStoreFolder::new(place.clone(), vec![[3; KEY_BYTES], [2; KEY_BYTES]]);
            assert_eq!(load(&both.open(agent).unwrap()), b"words");
            assert_eq!(
                load(&AgentKeyStoreFolder::new(place.clone(), vec![[3; KEY_BYTES]]).open(agent).unwrap()),
                b"words"
            );
        }
    }
}
