//! The store in one SQLite file.
//!
//! One thread writes, and several callers share one sync of the disk (`writer`). Readers have
//! connections of their own and never wait for the writer (`readers`). Each aggregate has its
//! statements in a file of its own.

mod accounts;
mod approvals;
mod audit;
mod bundles;
mod callbacks;
mod calls;
mod changes;
mod check;
mod connection;
mod consent;
mod directory;
mod drafts;
mod executions;
mod followed;
mod forget;
mod grants;
mod keys;
mod letters;
mod mail;
mod messages;
mod migrations;
mod people;
mod ports;
mod problem;
mod readers;
mod relations;
mod relay;
mod relayed;
mod remembered;
mod rows;
mod sessions;
mod tasks;
mod turns;
mod wal;
mod webhooks;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuncio_engine::ports::Meter;
use nuncio_engine::ports::meter::Uncounted;
use nuncio_engine::ports::store::{StoreCheck, StoreError};

use readers::Readers;
use writer::Writer;

/// A store in one SQLite file. Dropping it finishes the commits that are queued, so do that where
/// waiting for the disk is allowed.
pub struct SqliteStore {
    path: PathBuf,
    // Before the writer: the last connection to close tidies up the log, and a reader cannot.
    readers: Readers,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the store in that file, or begins one that only this user can read.
    ///
    /// # Errors
    /// The file cannot be used, is no store, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_counted(path, Arc::new(Uncounted))
    }

    /// The same, with someone who counts the commits.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_counted(path: &Path, meter: Arc<dyn Meter>) -> Result<Self, StoreError> {
        // SQLite would drop the commits behind a damaged frame, and the next checkpoint would make that final.
        if let Some(damage) = wal::damage(path).map_err(|error| wal::unreadable(path, &error))? {
            return Err(StoreError::Damaged(damage));
        }
        let writing = connection::writing(path)?;
        migrations::run(&writing)?;
        let readers = Readers::open(path)?;
        let writer = Writer::start(writing, meter)?;
        Ok(Self { path: path.to_owned(), readers, writer })
    }
}

/// Looks for damage in a store that nobody has opened yet: quickly, and in part where it is large.
///
/// # Errors
/// The file cannot be read.
pub fn quick_check(path: &Path) -> Result<StoreCheck, StoreError> {
    check::quick(path, check::QUICK)
}

/// Looks for damage in everything a store holds, however long that takes.
///
/// # Errors
/// The file cannot be read.
pub fn full_check(path: &Path) -> Result<StoreCheck, StoreError> {
    check::full(path)
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}
