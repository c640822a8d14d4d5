//! The store in one SQLite file.
//!
//! One thread writes, and concurrent callers share a disk sync (`writer`). Readers have their own connections and never
//! wait for the writer (`readers`). Each subject has its changes and reads in its own file.

mod access;
mod accounts;
mod approvals;
mod audit;
mod bundles;
mod calls;
mod changes;
mod check;
mod connection;
mod direct_messages;
mod directory;
mod drafts;
mod dump;
mod executions;
mod forget;
mod info;
mod jobs;
mod keyring;
mod mail;
mod migrations;
mod nodes;
mod people;
mod problem;
mod readers;
mod relations;
mod relayed;
mod rows;
mod sealed;
mod sessions;
mod status;
mod tasks;
mod wal;
mod webhooks;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Meter;
use nuncio_engine::ports::meter::NoopMeter;
use nuncio_engine::ports::store::{Change, KeyringEntry, Store, StoreCheckResult, StoreError, StoreStatus};

pub(crate) use dump::tables_of_version;
pub use dump::{SqliteSnapshot, SqliteTarget};
pub use migrations::SCHEMA_VERSION;
use readers::ReaderPool;
#[cfg(feature = "contract")]
pub use rows::steps::{RecordedStatement, executed_statements, record_statements};
use writer::Writer;

/// A store in one SQLite file. Dropping it waits for queued commits, so drop it where blocking is allowed.
pub struct SqliteStore {
    path: PathBuf,
    // Dropped before the writer: the last connection to close removes the write-ahead log, which a reader cannot do.
    readers: ReaderPool,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the store, or creates one that only this user can read.
    ///
    /// # Errors
    /// The file cannot be used, is not a store, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_counted(path, Arc::new(NoopMeter))
    }

    /// Like [`SqliteStore::open`], with a meter for commits.
    pub fn open_counted(path: &Path, meter: Arc<dyn Meter>) -> Result<Self, StoreError> {
        // SQLite would drop the commits after a damaged frame, and the next checkpoint would make the loss final.
        if let Some(damage) = wal::damage(path).map_err(|error| wal::unreadable(path, &error))? {
            return Err(StoreError::Damaged(damage));
        }
        let writing = connection::writing(path)?;
        migrations::run(&writing)?;
        let readers = ReaderPool::open(path)?;
        let writer = Writer::start(writing, meter)?;
        Ok(Self { path: path.to_owned(), readers, writer })
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.writer.commit(changes).await
    }

    fn fence(&self, incarnation: &Incarnation) {
        self.writer.fence(incarnation);
    }

    async fn bytes_stored(&self, owner: &Principal) -> Result<u64, StoreError> {
        let sql = "SELECT bytes FROM stored_bytes WHERE owner = ?1";
        let bytes = self.readers.first(sql, [owner.to_string()], |row| rows::number(row, 0))?;
        Ok(bytes.unwrap_or_default())
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.writer.check().await
    }

    async fn check(&self) -> Result<StoreCheckResult, StoreError> {
        let path = self.path.clone();
        let checked = tokio::task::spawn_blocking(move || check::full(&path)).await;
        checked.map_err(|error| StoreError::Unavailable(format!("the check was stopped: {error}")))?
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        let path = self.path.clone();
        self.readers.list(move |connection| status::read(connection, &path)).await
    }

    async fn compact(&self) -> Result<(), StoreError> {
        self.writer.compact().await
    }

    fn queued(&self) -> usize {
        self.writer.queued()
    }
}

/// Reads the keys of a store without opening it for writing, while another process may use it. Empty if the store does
/// not exist, or an earlier version wrote it.
pub fn read_keyring(path: &Path) -> Result<Vec<KeyringEntry>, StoreError> {
    keyring::read_unopened(path)
}

/// Checks an unopened store for damage: quickly, and only in part if it is large.
pub fn quick_check(path: &Path) -> Result<StoreCheckResult, StoreError> {
    check::quick(path, check::QUICK_CHECK_TIME)
}

/// Checks all data for damage, however long that takes.
pub fn full_check(path: &Path) -> Result<StoreCheckResult, StoreError> {
    check::full(path)
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}
