//! Opens and creates the hotel's database file.

use std::{fs, path::Path, thread, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{HotelError, inventory};

/// `GRHO`, the SQLite application id of a Grand Hotel ledger.
const APPLICATION_ID: i32 = 0x4752_484F;
/// Revision of the database schema `ledger.sql`.
const REVISION: i32 = 1;
const SCHEMA: &str = include_str!("ledger.sql");

/// Time that one SQL statement waits for a database lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const WAL_ATTEMPTS: u32 = 200;
const WAL_PAUSE: Duration = Duration::from_millis(25);

/// Connection to the hotel's database. Calls block; open one per thread or share one behind a mutex.
#[derive(Debug)]
pub struct HotelDatabase {
    pub(super) connection: Connection,
}

impl HotelDatabase {
    /// Opens the ledger, and creates it with its rooms if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or belongs to another program; such a file is not changed.
    pub fn open(path: &Path) -> Result<Self, HotelError> {
        make_folder(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;

        let not_ours = || HotelError::NotALedger(path.display().to_string());
        let found = DatabaseFileContents::of(&connection)?;
        if found == DatabaseFileContents::Foreign {
            return Err(not_ours());
        }
        enter_wal(&connection)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;

        if found == DatabaseFileContents::Nothing {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Another process may have created the ledger while this one waited for the lock.
            match DatabaseFileContents::of(&transaction)? {
                DatabaseFileContents::Nothing => {
                    transaction.execute_batch(SCHEMA)?;
                    inventory::insert_rooms(&transaction)?;
                    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
                    transaction.pragma_update(None, "user_version", REVISION)?;
                    transaction.commit()?;
                }
                DatabaseFileContents::Ledger => {}
                DatabaseFileContents::Foreign => return Err(not_ours()),
            }
        }
        Ok(Self { connection })
    }
}

#[derive(PartialEq, Eq)]
enum DatabaseFileContents {
    Nothing,
    Ledger,
    Foreign,
}

impl DatabaseFileContents {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        // One statement reads one database snapshot, so it never sees a half-created ledger.
        let (id, revision, tables): (i32, i32, i64) = connection.query_row(
            "SELECT (SELECT application_id FROM pragma_application_id),
                    (SELECT user_version FROM pragma_user_version),
                    (SELECT count(*) FROM sqlite_schema)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        Ok(match (id, revision, tables) {
            (APPLICATION_ID, REVISION, _) => Self::Ledger,
            (0, 0, 0) => Self::Nothing,
            _ => Self::Foreign,
        })
    }
}

/// Switches the database file permanently to write-ahead logging. Retries in a loop, because the busy timeout does
/// not cover this step when several processes start at the same time.
fn enter_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut attempt = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && attempt < WAL_ATTEMPTS => {
                attempt += 1;
                thread::sleep(WAL_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn make_folder(file: &Path) -> Result<(), HotelError> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(|source| HotelError::Folder { path: folder.display().to_string(), source })
}
