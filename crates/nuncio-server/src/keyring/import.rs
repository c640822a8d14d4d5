//! Moves the key files of earlier versions into the store.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::ErrorCode;
use ring::signature::Ed25519KeyPair;

use super::{PEOPLE_KEY, ServerKeyring, StoredKey, WEBHOOK_KEY};
use crate::data::PrivateFiles;
use crate::error::OperatorError;

/// Files with Ed25519 keys, and the names of their entries in the keyring.
const SIGNING_KEYS: [(&str, &str); 2] = [("people.key", PEOPLE_KEY), ("webhook.key", WEBHOOK_KEY)];

/// Folders of key files, which are removed when they are empty.
const FOLDERS: [&str; 2] = ["keys/agents", "keys"];

/// A valid key file of an earlier version.
pub(crate) struct KeyFile {
    pub(crate) file: String,
    /// Name of the key in the keyring.
    pub(crate) name: String,
    pub(crate) content: String,
}

/// Moves the signing keys and the given keys into the store in one commit, then removes their files. A file whose key is
/// in the store already was left by an interrupted move. If the store has another key of that name, the file stays.
pub(crate) async fn import_key_files(
    keyring: &ServerKeyring,
    files: &PrivateFiles,
    others: Vec<KeyFile>,
) -> Result<(), OperatorError> {
    let mut found = others;
    for (file, name) in SIGNING_KEYS {
        found.extend(read_signing_key(files, file, name)?);
    }
    if found.is_empty() {
        return Ok(());
    }
    let mut stored = keyring.all().await?;
    let new = found.iter().filter(|key| !stored.contains_key(&key.name));
    let new: Vec<_> = new.map(|key| (key.name.as_str(), key.content.clone())).collect();
    if !new.is_empty() {
        let count = new.len();
        if !keyring.create(new).await? {
            return Err(another_node());
        }
        tracing::info!(keys = count, "moved key files into the store");
        stored = keyring.all().await?;
    }
    remove_imported(files, &found, &stored)
}

fn another_node() -> OperatorError {
    let message = "another node created keys in this store while the key files of this data directory were moved into \
                   it; start again";
    OperatorError::new(ErrorCode::StoreUnavailable, message)
}

fn read_signing_key(files: &PrivateFiles, file: &str, name: &str) -> Result<Option<KeyFile>, OperatorError> {
    let Some(bytes) = files.read(file)? else { return Ok(None) };
    Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| files.broken(file, "it does not contain an Ed25519 key"))?;
    let content = STANDARD.encode(bytes);
    Ok(Some(KeyFile { file: file.to_owned(), name: name.to_owned(), content }))
}

fn remove_imported(
    files: &PrivateFiles,
    found: &[KeyFile],
    stored: &BTreeMap<String, StoredKey>,
) -> Result<(), OperatorError> {
    for key in found {
        if stored.get(&key.name).is_some_and(|stored| stored.content == key.content) {
            files.remove(&key.file)?;
        } else {
            tracing::warn!("{} is not used: the store has another key", key.file);
        }
    }
    for folder in FOLDERS {
        files.remove_empty_folder(folder);
    }
    Ok(())
}
