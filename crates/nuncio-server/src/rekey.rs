//! Replacement of the secret key while the server runs: `nuncio store rekey`.
//!
//! The new key is written beside the current one first. From then on both are tried for reading and the new one seals.
//! When nothing is sealed under the old key any more, the new file takes the place of the old one. A start that finds a
//! file of a new key finishes the replacement.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_engine::Engine;
use nuncio_engine::ports::Entropy as _;
use nuncio_engine::secret_cipher::KEY_BYTES;
use nuncio_identity::seal::KeyStoreError;
use tokio::sync::Mutex;

use crate::admin::replies::RekeyedStore;
use crate::agent_peers::AgentPeers;
use crate::data::PrivateFiles;
use crate::error::OperatorError;
use crate::system::SystemEntropy;

/// The file of a secret key. Clones share a lock, so that one replacement runs at a time.
#[derive(Debug, Clone)]
pub(crate) struct SecretKeyFile {
    files: PrivateFiles,
    name: String,
    path: PathBuf,
    replacing: Arc<Mutex<()>>,
}

impl SecretKeyFile {
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let path = std::path::absolute(path).ok()?;
        let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
        Some(Self {
            files: PrivateFiles::new(folder),
            name: name.to_owned(),
            path: path.clone(),
            replacing: Arc::default(),
        })
    }

    fn next_name(&self) -> String {
        format!("{}.next", self.name)
    }

    /// The new key of a replacement that was begun.
    pub(crate) fn next(&self) -> Result<Option<[u8; KEY_BYTES]>, OperatorError> {
        let name = self.next_name();
        let Some(bytes) = self.files.read(&name)? else { return Ok(None) };
        let key = bytes.try_into().map_err(|_| self.files.broken(&name, "it does not contain a key of 32 bytes"))?;
        Ok(Some(key))
    }

    /// Creates a new key beside the current one, or continues with the one that was created before.
    fn begin(&self) -> Result<[u8; KEY_BYTES], OperatorError> {
        if let Some(key) = self.next()? {
            return Ok(key);
        }
        let mut key = [0; KEY_BYTES];
        SystemEntropy.fill(&mut key);
        self.files.write(&self.next_name(), &key)?;
        Ok(key)
    }

    /// Puts the new key in the place of the old one.
    fn finish(&self) -> Result<(), OperatorError> {
        let failed = |error: std::io::Error| self.files.broken(&self.name, &error.to_string());
        let next = self.path.with_file_name(self.next_name());
        fs::rename(next, &self.path).map_err(failed)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

/// Replaces the secret key. `file` is `None` if the key came from the environment, which nobody can replace here.
pub(crate) async fn rekey(
    engine: &Engine,
    peers: &AgentPeers,
    file: Option<&SecretKeyFile>,
) -> Result<RekeyedStore, OperatorError> {
    let file = file.ok_or_else(|| {
        let message = "the secret key comes from NUNCIO_SECRET_KEY, which cannot be replaced while the server runs; put \
                       the key into a file, start with --secret-key FILE, and repeat the command";
        OperatorError::new(ErrorCode::SecretKeyInvalid, message)
    })?;
    let _replacing = file.replacing.lock().await;
    let key = file.begin()?;
    engine.change_secret_key(&key);
    let values = reseal(engine, peers, &key).await?;
    file.finish()?;
    Ok(RekeyedStore { values, file: file.path.clone() })
}

/// Finishes a replacement that was interrupted.
pub(crate) async fn finish_rekey(
    engine: &Engine,
    peers: &AgentPeers,
    file: &SecretKeyFile,
    key: &[u8; KEY_BYTES],
) -> Result<(), OperatorError> {
    let values = reseal(engine, peers, key).await?;
    file.finish()?;
    tracing::info!(values, "finished the replacement of the secret key");
    Ok(())
}

/// Seals everything under the current key. Values that are stored meanwhile are sealed under it already.
async fn reseal(engine: &Engine, peers: &AgentPeers, key: &[u8; KEY_BYTES]) -> Result<u64, OperatorError> {
    let mut values = 0;
    loop {
        match engine.reseal_secrets().await? {
            0 => break,
            some => values += some,
        }
    }
    let unusable = |why: KeyStoreError| OperatorError::new(ErrorCode::DataDirUnusable, why.to_string());
    peers.change_secret_key(key).map_err(unusable)?;
    Ok(values)
}
