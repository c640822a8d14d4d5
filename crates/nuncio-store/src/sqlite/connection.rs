//! Opening of SQLite connections.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use nuncio_engine::ports::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::problem::SqlError;

/// Time to wait for the lock of another process, such as a command beside the server.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Capacity of the prepared statement cache, above the number of different statements.
const STATEMENT_CACHE_SIZE: usize = 256;

/// Number of pages after which the write-ahead log is checkpointed.
const LOG_PAGES: i64 = 8192;

/// Size in bytes to which the write-ahead log is truncated after a burst of commits.
const LOG_BYTES: i64 = 64 << 20;

/// Opens the writing connection, which syncs each commit to disk.
pub(super) fn writing(path: &Path) -> Result<Connection, StoreError> {
    create(path).map_err(|error| StoreError::Unavailable(format!("{} cannot be opened: {error}", path.display())))?;
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    durable(&connection)?;
    Ok(connection)
}

/// Opens a read-only connection to a file that a writing connection has created.
pub(super) fn reading(path: &Path) -> Result<Connection, StoreError> {
    Ok(checking(path)?)
}

/// Opens a read-only connection for a damage check, which distinguishes damage from other errors.
pub(super) fn checking(path: &Path) -> Result<Connection, SqlError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, SqlError> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    // Without this, SQLite plans a statement again for every parameter value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn durable(connection: &Connection) -> Result<(), SqlError> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(SqlError::Unwritable(format!(
            "its file system cannot keep a write-ahead log (journal mode {mode}); use a local disk"
        )));
    }
    connection.pragma_update(None, "synchronous", "full")?;
    // On macOS a plain fsync stops at the drive's cache.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    // With rare checkpoints, pages that change often are written back once, not every few commits.
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Savepoint journals stay in memory.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(())
}

/// Creates the file readable only by this user; SQLite gives its log the same mode. An existing file is unchanged.
fn create(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => sync_folder(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Syncs the folder, without which a new file may be lost in a crash.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
    use super::*;

    #[test]
    fn writing_connection_uses_full_sync_mode_and_foreign_keys() {
        let folder = tempfile::tempdir().unwrap();
        let connection = writing(&folder.path().join("store.db")).unwrap();
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!((pragma("synchronous"), pragma("foreign_keys")), (2, 1));
    }

    #[cfg(unix)]
    #[test]
    fn database_and_write_ahead_files_are_accessible_only_by_their_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let connection = writing(&folder.path().join("store.db")).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let modes: Vec<u32> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().permissions().mode() & 0o777)
            .collect();
        assert_eq!(modes, [0o600; 3]);
    }
}
