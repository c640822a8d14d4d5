//! Opening the file.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use nuncio_engine::ports::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::problem::Problem;

/// How long to wait for another process, such as a command run beside the server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Above the number of different statements there are, so that each is prepared once.
const STATEMENTS: usize = 256;

/// After how many pages the log is carried over into the file.
const LOG_PAGES: i64 = 8192;

/// The size the log is cut back to after a burst.
const LOG_BYTES: i64 = 64 << 20;

/// The connection that writes. When it says that a commit is done, it is on disk.
pub(super) fn writing(path: &Path) -> Result<Connection, StoreError> {
    create(path).map_err(|error| StoreError::Unavailable(format!("{} cannot be opened: {error}", path.display())))?;
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    durable(&connection)?;
    Ok(connection)
}

/// A connection that only reads; there must have been a writing one.
pub(super) fn reading(path: &Path) -> Result<Connection, StoreError> {
    Ok(checking(path)?)
}

/// The same for a check, which tells damage from other problems.
pub(super) fn checking(path: &Path) -> Result<Connection, Problem> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, Problem> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Or SQLite plans a statement anew whenever a number in it changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn durable(connection: &Connection) -> Result<(), Problem> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Problem::Unwritable(format!(
            "its file system cannot keep a write-ahead log (journal mode {mode}); use a local disk"
        )));
    }
    connection.pragma_update(None, "synchronous", "full")?;
    // Where a plain fsync stops at the drive's cache (macOS).
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    // Pages that change often are then carried over once, not in every few commits.
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What a savepoint may have to undo is not worth a file.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(())
}

/// Makes the file for this user alone; SQLite gives its log the same mode. A file that is there is
/// left as it is.
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

/// A new file is only there after a crash if its folder was synced too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
    use super::*;

    #[test]
    fn a_commit_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let connection = writing(&folder.path().join("store.db")).unwrap();
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!((pragma("synchronous"), pragma("foreign_keys")), (2, 1));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_the_file_or_its_log() {
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
