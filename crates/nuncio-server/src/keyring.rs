//! The keys of this server in its store, sealed under the secret key: those that sign tokens of people's devices and
//! webhooks, and the keys of the DIDs. All nodes of a store share them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::{ErrorCode, opaque_debug};
use nuncio_engine::ports::Store;
use nuncio_engine::ports::store::{Conflict, KeyringChange, KeyringEntry, StoreError};
use nuncio_engine::rekey::keyring_place;
use nuncio_engine::secret_cipher::SecretCipher;
use ring::signature::Ed25519KeyPair;

use crate::error::OperatorError;
use crate::system::SystemEntropy;

mod import;

pub(crate) use import::{KeyFile, import_key_files};

/// Signs the access tokens of people's devices.
pub(crate) const PEOPLE_KEY: &str = "people";
/// Signs webhooks.
pub(crate) const WEBHOOK_KEY: &str = "webhook";
/// Names of public keys begin with it: those of the `audit.key` of each data directory that the store was used with.
pub(crate) const AUDIT_KEYS: &str = "audit/";
/// The entry that detects a wrong secret key.
const CHECK: &str = "check";

#[derive(Clone)]
pub(crate) struct ServerKeyring {
    store: Arc<dyn Store>,
    cipher: SecretCipher,
}

/// An opened entry of the keyring.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) content: String,
    pub(crate) revision: u64,
}

impl ServerKeyring {
    /// Opens the keyring of a store, unless it was sealed under another secret key.
    pub(crate) async fn open(store: Arc<dyn Store>, cipher: SecretCipher) -> Result<Self, OperatorError> {
        let keyring = Self { store, cipher };
        keyring.read_or_create(CHECK, String::new).await?;
        Ok(keyring)
    }

    pub(crate) async fn read(&self, name: &str) -> Result<Option<StoredKey>, OperatorError> {
        self.store.keyring_entry(name).await?.map(|entry| open_entry(&self.cipher, &entry)).transpose()
    }

    pub(crate) async fn all(&self) -> Result<BTreeMap<String, StoredKey>, OperatorError> {
        open_all(&self.cipher, self.store.keyring().await?)
    }

    /// Reads a key, or stores a new one. If other nodes store one at the same time, all get the same.
    pub(crate) async fn read_or_create(
        &self,
        name: &str,
        create: impl FnOnce() -> String,
    ) -> Result<StoredKey, OperatorError> {
        if let Some(found) = self.read(name).await? {
            return Ok(found);
        }
        self.create(vec![(name, create())]).await?;
        let missing = || OperatorError::new(ErrorCode::Internal, format!("the new key {name} is not in the store"));
        self.read(name).await?.ok_or_else(missing)
    }

    /// Stores new keys in one commit; returns false if one of them exists already.
    async fn create(&self, keys: Vec<(&str, String)>) -> Result<bool, OperatorError> {
        let creation = |(name, content): &(&str, String)| KeyringChange::Create(self.seal(name, content, 1)).into();
        match self.store.commit(keys.iter().map(creation).collect()).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict(Conflict::Exists)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces a key that was read at `revision`, or stores the first one if that is 0. Returns the new revision.
    pub(crate) async fn replace(&self, name: &str, content: &str, revision: u64) -> Result<u64, OperatorError> {
        let entry = self.seal(name, content, revision + 1);
        let change = if revision == 0 { KeyringChange::Create(entry) } else { KeyringChange::Replace(entry) };
        match self.store.commit(vec![change.into()]).await {
            Ok(()) => Ok(revision + 1),
            Err(StoreError::Conflict(_)) => {
                let message = format!("another process changed the key {name} at the same time; try again");
                Err(OperatorError::new(ErrorCode::StoreUnavailable, message))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// An Ed25519 key, created at first use.
    pub(crate) async fn signing_key(&self, name: &str) -> Result<Ed25519KeyPair, OperatorError> {
        let create = || {
            let random = ring::rand::SystemRandom::new();
            STANDARD.encode(Ed25519KeyPair::generate_pkcs8(&random).expect("the system has randomness"))
        };
        let stored = self.read_or_create(name, create).await?;
        let pair = STANDARD.decode(stored.content).ok().and_then(|bytes| Ed25519KeyPair::from_pkcs8(&bytes).ok());
        pair.ok_or_else(|| damaged(name, "it is not an Ed25519 key"))
    }

    fn seal(&self, name: &str, content: &str, revision: u64) -> KeyringEntry {
        let sealed = self.cipher.seal(&SystemEntropy, &keyring_place(name), content);
        KeyringEntry { name: name.to_owned(), sealed, revision }
    }
}

/// Opens the entries of a keyring.
pub(crate) fn open_all(
    cipher: &SecretCipher,
    entries: Vec<KeyringEntry>,
) -> Result<BTreeMap<String, StoredKey>, OperatorError> {
    // A wrong secret key is reported as such, and not as damage of another entry.
    if let Some(check) = entries.iter().find(|entry| entry.name == CHECK) {
        open_entry(cipher, check)?;
    }
    entries.into_iter().map(|entry| Ok((entry.name.clone(), open_entry(cipher, &entry)?))).collect()
}

fn open_entry(cipher: &SecretCipher, entry: &KeyringEntry) -> Result<StoredKey, OperatorError> {
    match cipher.open(&keyring_place(&entry.name), &entry.sealed) {
        Some(content) => Ok(StoredKey { content, revision: entry.revision }),
        None if entry.name == CHECK => {
            let message = "the secret key is not the one of this store; name the right one with --secret-key or \
                           NUNCIO_SECRET_KEY, or restore secret.key";
            Err(OperatorError::new(ErrorCode::SecretKeyWrong, message))
        }
        None => Err(damaged(&entry.name, "it cannot be decrypted")),
    }
}

/// The error of a key that cannot be read. It is never replaced, because others know the server by it.
pub(crate) fn damaged(name: &str, why: &str) -> OperatorError {
    OperatorError::new(
        ErrorCode::StoreDamaged,
        format!("the key {name} in the store is damaged: {why}; restore a backup"),
    )
}

opaque_debug!(ServerKeyring);
opaque_debug!(StoredKey);

#[cfg(test)]
mod tests {
    use nuncio_engine::secret_cipher::KEY_BYTES;
    use nuncio_store::SqliteStore;
    use ring::signature::KeyPair as _;

    use super::*;

    fn store(folder: &tempfile::TempDir) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&folder.path().join("nuncio.db")).unwrap())
    }

    fn cipher(byte: u8) -> SecretCipher {
        SecretCipher::new(&[byte; KEY_BYTES])
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nodes_that_start_at_once_on_an_empty_store_get_the_same_keys() {
        let folder = tempfile::tempdir().unwrap();
        let stores = [store(&folder), store(&folder)];
        let starts = (0..16).map(|n| {
            let store = Arc::clone(&stores[n % 2]);
            tokio::spawn(async move {
                let keyring = ServerKeyring::open(store, cipher(1)).await.unwrap();
                keyring.signing_key(PEOPLE_KEY).await.unwrap().public_key().as_ref().to_vec()
            })
        });
        let keys = futures_util::future::try_join_all(starts).await.unwrap();
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn wrong_secret_key_is_refused_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let keyring = ServerKeyring::open(Arc::clone(&store), cipher(1)).await.unwrap();
        keyring.signing_key(WEBHOOK_KEY).await.unwrap();
        let before = store.keyring().await.unwrap();
        let error = ServerKeyring::open(Arc::clone(&store), cipher(2)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::SecretKeyWrong);
        assert_eq!(store.keyring().await.unwrap(), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn entry_moved_to_another_name_does_not_open() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let keyring = ServerKeyring::open(Arc::clone(&store), cipher(1)).await.unwrap();
        keyring.signing_key(WEBHOOK_KEY).await.unwrap();
        let entry = store.keyring_entry(WEBHOOK_KEY).await.unwrap().unwrap();
        let moved = KeyringEntry { name: PEOPLE_KEY.to_owned(), ..entry };
        store.commit(vec![KeyringChange::Create(moved).into()]).await.unwrap();
        assert_eq!(keyring.signing_key(PEOPLE_KEY).await.unwrap_err().code, ErrorCode::StoreDamaged);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn key_replaced_by_another_process_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = ServerKeyring::open(store(&folder), cipher(1)).await.unwrap();
        assert_eq!(keyring.replace("did/service", "a", 0).await.unwrap(), 1);
        assert_eq!(keyring.replace("did/service", "b", 1).await.unwrap(), 2);
        for revision in [0, 1] {
            assert!(keyring.replace("did/service", "c", revision).await.is_err());
        }
        assert_eq!(keyring.read("did/service").await.unwrap().unwrap().content, "b");
    }
}
