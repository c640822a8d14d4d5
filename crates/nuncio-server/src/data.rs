//! The data directory: one process at a time, files that only their owner may read.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nuncio_core::Code;
use nuncio_engine::ports::Entropy;
use nuncio_engine::vault::KEY_BYTES;
use ring::signature::Ed25519KeyPair;

use crate::error::StartError;

/// An opened data directory. The lock is held until it is dropped, or the process dies.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Opens the directory, making it where there is none.
    ///
    /// # Errors
    /// It cannot be used, or another process uses it.
    pub fn open(path: &Path) -> Result<Self, StartError> {
        let unusable = |what: &str, error: &std::io::Error| {
            let message = format!("the data directory {} cannot be used: {what}: {error}", path.display());
            StartError::new(Code::DataDirUnusable, message)
        };
        fs::create_dir_all(path).map_err(|error| unusable("making it", &error))?;
        let path = path.canonicalize().map_err(|error| unusable("finding it", &error))?;
        fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(|error| unusable("closing it to others", &error))?;
        let lock = private()
            .create(true)
            .truncate(false)
            .open(path.join("lock"))
            .map_err(|error| unusable("the lock file", &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => {
                let message = format!(
                    "another process uses the data directory {}; stop it, or choose another with --data",
                    path.display()
                );
                Err(StartError::new(Code::DataDirInUse, message))
            }
            Err(fs::TryLockError::Error(error)) => Err(unusable("locking it", &error)),
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the store is.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join("nuncio.db")
    }

    /// The key under which secrets are kept, made at first need.
    ///
    /// # Errors
    /// The file cannot be used, or is open to others.
    pub fn secret_key(&self, entropy: &dyn Entropy) -> Result<[u8; KEY_BYTES], StartError> {
        let bytes = self.key_file("secret.key", || {
            let mut key = [0; KEY_BYTES];
            entropy.fill(&mut key);
            key.to_vec()
        })?;
        bytes.try_into().map_err(|_| self.broken("secret.key", "it does not hold a key of 32 bytes"))
    }

    /// The key that signs the audit chain's checkpoints, made at first need.
    ///
    /// # Errors
    /// The file cannot be used, or is open to others.
    pub fn audit_key(&self) -> Result<Ed25519KeyPair, StartError> {
        let random = ring::rand::SystemRandom::new();
        let bytes = self.key_file("audit.key", || {
            Ed25519KeyPair::generate_pkcs8(&random).expect("the system has randomness").as_ref().to_vec()
        })?;
        Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| self.broken("audit.key", "it does not hold an Ed25519 key"))
    }

    fn key_file(&self, name: &str, make: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, StartError> {
        let path = self.path.join(name);
        let failed = |error: std::io::Error| self.broken(name, &error.to_string());
        match File::open(&path) {
            Ok(mut file) => {
                let mode = file.metadata().map_err(failed)?.permissions().mode();
                if mode & 0o077 != 0 {
                    return Err(self.broken(
                        name,
                        &format!("others may read it (mode {:o}); run `chmod 600` on it", mode & 0o777),
                    ));
                }
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(failed)?;
                Ok(bytes)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Written beside and moved into place, so that a crash leaves no half a key.
                let bytes = make();
                let fresh = self.path.join(format!("{name}.new"));
                let mut file = private().create(true).truncate(true).open(&fresh).map_err(failed)?;
                file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
                fs::rename(&fresh, &path).map_err(failed)?;
                File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failed)?;
                Ok(bytes)
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn broken(&self, name: &str, why: &str) -> StartError {
        StartError::new(Code::DataDirUnusable, format!("{}: {why}", self.path.join(name).display()))
    }
}

/// Options for a file that only its owner may read and write.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}
