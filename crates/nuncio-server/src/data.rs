//! The data directory: used by one process at a time, with files that only their owner may read.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_engine::secret_cipher::KEY_BYTES;
use ring::signature::Ed25519KeyPair;

use crate::admin;
use crate::error::OperatorError;
use crate::rekey::SecretKeyFile;

mod files;
mod hotel;
mod secret_key;
mod store_location;

pub(crate) use files::PrivateFiles;
pub(crate) use hotel::move_hotel;
pub use secret_key::{SECRET_KEY_VARIABLE, SecretKeySource};
pub use store_location::StoreLocation;

pub(crate) const SECRET_KEY: &str = "secret.key";
/// Name of the key that signs audit checkpoints. Each data directory has its own.
pub(crate) const AUDIT_KEY: &str = "audit.key";
/// Name of a new directory's key file until its database exists.
const FIRST_SECRET_KEY: &str = "secret.key.first";

/// Number of bytes that must fit on the disk before a server starts.
const REQUIRED_DISK_BYTES: usize = 256 * 1024;

/// Time after which a start that waits for disk space checks it again.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A start that waits for disk space logs a warning once in this many tries.
const TRIES_PER_WARNING: u64 = 30;

/// Time after which a process that waits for the lock of the data directory tries again.
pub(crate) const LOCK_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Number of tries before the wait for the lock is reported: one second.
pub(crate) const LOCK_TRIES_BEFORE_REPORT: u64 = 20;

/// Number of tries to get the lock: 30 seconds. A server that is starting, and a command, normally take less.
pub(crate) const LOCK_TRIES: u64 = 600;

/// An open data directory, locked until it is dropped or the process dies.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: File,
    secret_key: SecretKeySource,
    store: StoreLocation,
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // A child process that is being started has a copy of the descriptor, which would keep the lock.
        let _ = self.lock.unlock();
    }
}

impl DataDir {
    /// Name of the database file.
    pub(crate) const DATABASE: &str = "nuncio.db";

    /// Opens the data directory, creating it if needed. Fails at once if another process has locked it.
    pub fn open(path: &Path) -> Result<Self, OperatorError> {
        let unusable = |what: &str, error: &std::io::Error| {
            if is_full(error) {
                return full(path);
            }
            let message = format!("the data directory {} cannot be used: {what}: {error}", path.display());
            OperatorError::new(ErrorCode::DataDirUnusable, message)
        };
        fs::create_dir_all(path).map_err(|error| unusable("creating it", &error))?;
        let path = path.canonicalize().map_err(|error| unusable("finding it", &error))?;
        fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(|error| unusable("restricting access to its owner", &error))?;
        let lock = private()
            .create(true)
            .truncate(false)
            .open(path.join("lock"))
            .map_err(|error| unusable("the lock file", &error))?;
        match lock.try_lock() {
            Ok(()) => {
                Ok(Self { path, lock, secret_key: SecretKeySource::DataDirectory, store: StoreLocation::default() })
            }
            Err(fs::TryLockError::WouldBlock) => {
                let message = format!(
                    "another process uses the data directory {}; stop it, or choose another with --data",
                    path.display()
                );
                Err(OperatorError::new(ErrorCode::DataDirInUse, message))
            }
            Err(fs::TryLockError::Error(error)) => Err(unusable("locking it", &error)),
        }
    }

    /// Takes the secret key from the given source.
    #[must_use]
    pub fn with_secret_key(mut self, source: SecretKeySource) -> Self {
        self.secret_key = source;
        self
    }

    /// Uses the store at the given location.
    #[must_use]
    pub fn with_store(mut self, store: StoreLocation) -> Self {
        self.store = store;
        self
    }

    #[must_use]
    pub fn store(&self) -> &StoreLocation {
        &self.store
    }

    /// Opens the data directory for a server. Waits and logs while its disk is full, and for a limited time while a
    /// command uses it.
    pub(crate) async fn open_when_writable(path: &Path, clock: &dyn Clock) -> Result<Self, OperatorError> {
        let mut lock_tries = 0;
        for tries in 0_u64.. {
            let wait = match Self::open(path).and_then(|data| data.check_space().map(|()| data)) {
                Err(error) if error.code == ErrorCode::DiskFull => {
                    if tries % TRIES_PER_WARNING == 0 {
                        tracing::warn!(code = %error.code, "{error}");
                    }
                    DISK_CHECK_INTERVAL
                }
                Err(error) if error.code == ErrorCode::DataDirInUse => {
                    lock_tries += 1;
                    if lock_tries > LOCK_TRIES || admin::is_served(path).await {
                        return Err(error);
                    }
                    if lock_tries == LOCK_TRIES_BEFORE_REPORT {
                        tracing::warn!("waiting for another process that uses the data directory {}", path.display());
                    }
                    LOCK_CHECK_INTERVAL
                }
                other => return other,
            };
            clock.sleep_until(clock.now().after(wait)).await;
        }
        unreachable!("there are more numbers than tries");
    }

    /// Checks the disk space by writing a file of [`REQUIRED_DISK_BYTES`] and removing it.
    fn check_space(&self) -> Result<(), OperatorError> {
        let file = self.path.join("space-check");
        let written = private()
            .create(true)
            .truncate(true)
            .open(&file)
            .and_then(|mut file| file.write_all(&vec![0; REQUIRED_DISK_BYTES]));
        let _ = fs::remove_file(&file);
        match written {
            Err(error) if is_full(&error) => Err(full(&self.path)),
            // Other errors are reported when the actual files are written.
            _ => Ok(()),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join(Self::DATABASE)
    }

    /// The key that encrypts stored secrets. A new directory gets one, and [`DataDir::keep_secret_key`] gives its file
    /// the final name once there is a database. A key without a database, or the reverse, means that one was lost; a
    /// server that started anyway would have no API keys and be open to everyone on this machine.
    pub fn secret_key(&self, entropy: &dyn Entropy) -> Result<[u8; KEY_BYTES], OperatorError> {
        let files = self.private_files();
        let incomplete =
            |what: &str| OperatorError::new(ErrorCode::DataDirIncomplete, format!("{} {what}", self.path.display()));
        let is_here = self.store.is_in_data_directory();
        let has_database = is_here && fs::metadata(self.database()).is_ok_and(|file| file.len() > 0);
        if let Some(key) = self.secret_key.read()? {
            // The key is elsewhere, so a file that every server leaves here says that there was a database.
            if is_here && !has_database && files.read(AUDIT_KEY)?.is_some() {
                return Err(incomplete(
                    "contains an audit.key but no database: restore nuncio.db from a backup, or remove audit.key too to \
                     start without the earlier keys and records",
                ));
            }
            if files.read(SECRET_KEY)?.is_some_and(|own| own != key) {
                let message = format!(
                    "{} contains another secret.key than the one that was given; remove it, if it is not the key of \
                     this store",
                    self.path.display()
                );
                return Err(OperatorError::new(ErrorCode::SecretKeyWrong, message));
            }
            return Ok(key);
        }
        let bytes = match (files.read(SECRET_KEY)?, has_database) {
            (Some(key), true) => key,
            // The store contains a check value, so a wrong key is noticed.
            (Some(key), false) if !is_here => key,
            (Some(_), false) => {
                return Err(incomplete(
                    "contains a secret.key but no database: restore nuncio.db from a backup, or remove secret.key too \
                     to start without the earlier keys and records",
                ));
            }
            // A first start that was interrupted left its key under the first name.
            (None, has_database) => match files.read(FIRST_SECRET_KEY)? {
                Some(key) => key,
                None if has_database => {
                    return Err(incomplete(
                        "contains a database but not its secret.key: restore secret.key from a backup; without it, the \
                         secrets in the database cannot be decrypted",
                    ));
                }
                None => {
                    let mut key = [0; KEY_BYTES];
                    entropy.fill(&mut key);
                    files.write(FIRST_SECRET_KEY, &key)?;
                    key.to_vec()
                }
            },
        };
        bytes.try_into().map_err(|_| self.broken(SECRET_KEY, "it does not contain a key of 32 bytes"))
    }

    /// The file of the secret key, which can be replaced; `None` if the key came from the environment.
    pub(crate) fn secret_key_file(&self) -> Option<SecretKeyFile> {
        match &self.secret_key {
            SecretKeySource::DataDirectory => SecretKeyFile::new(&self.path.join(SECRET_KEY)),
            SecretKeySource::File(file) => SecretKeyFile::new(file),
            SecretKeySource::Given(_) => None,
        }
    }

    /// The secret key of a data directory that has one. Creates none.
    pub(crate) fn existing_secret_key(&self) -> Result<[u8; KEY_BYTES], OperatorError> {
        self.secret_key.read_existing(&self.private_files())
    }

    /// Gives the key file of a new directory its final name, now that the database exists.
    pub fn keep_secret_key(&self) -> Result<(), OperatorError> {
        let first = self.path.join(FIRST_SECRET_KEY);
        if !first.exists() {
            return Ok(());
        }
        let failed = |error: std::io::Error| self.broken(SECRET_KEY, &error.to_string());
        fs::rename(first, self.path.join(SECRET_KEY)).map_err(failed)?;
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    /// The Ed25519 key in a file, created at first use.
    pub(crate) fn signing_key(&self, name: &str) -> Result<Ed25519KeyPair, OperatorError> {
        let files = self.private_files();
        let bytes = match files.read(name)? {
            Some(bytes) => bytes,
            None => {
                let random = ring::rand::SystemRandom::new();
                let new = Ed25519KeyPair::generate_pkcs8(&random).expect("the system has randomness");
                files.write(name, new.as_ref())?;
                new.as_ref().to_vec()
            }
        };
        Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| files.broken(name, "it does not contain an Ed25519 key"))
    }

    /// The private files of a data directory, without locking it: another process may use it.
    pub(crate) fn files_of(path: &Path) -> Result<PrivateFiles, OperatorError> {
        let path = path.canonicalize().map_err(|error| {
            let message = format!("there is no data directory {}: {error}; name one with --data", path.display());
            OperatorError::new(ErrorCode::DataDirUnusable, message)
        })?;
        Ok(PrivateFiles::new(&path))
    }

    pub(crate) fn private_files(&self) -> PrivateFiles {
        PrivateFiles::new(&self.path)
    }

    fn broken(&self, name: &str, why: &str) -> OperatorError {
        self.private_files().broken(name, why)
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn full(path: &Path) -> OperatorError {
    let message = format!(
        "the disk of the data directory {0} is full; the server starts once there is space (see `df -h {0}`)",
        path.display()
    );
    OperatorError::new(ErrorCode::DiskFull, message)
}

/// Options for a file that only its owner may read and write.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}
