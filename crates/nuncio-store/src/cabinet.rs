//! A drawer for one party's keys: names and bytes in a file of its own, which only its owner may read. It is
//! SQLite for its one promise: what was saved is on disk, all or none.

use std::fmt;
use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nuncio_identity::seal::{Change, Keep, KeepError};
use rusqlite::{Connection, OptionalExtension as _, params};

/// A file of records.
pub struct Cabinet {
    connection: Mutex<Connection>,
}

impl Cabinet {
    /// Opens the file, making it where there is none. One process uses it at a time.
    ///
    /// # Errors
    /// It cannot be used, or another process uses it.
    pub fn open(path: &Path) -> Result<Self, KeepError> {
        let unusable = |why: &dyn fmt::Display| KeepError(format!("{}: {why}", path.display()));
        // Made before SQLite does, so that it is never open to others. One that is there is not opened here: closing it
        // would give up the locks that this process holds on it.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => {}
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            Err(why) => return Err(unusable(&why)),
        }
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|why| unusable(&why))?;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(2))?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "secure_delete", "ON")?;
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS records (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;",
            )?;
            Ok(connection)
        };
        Ok(Self { connection: Mutex::new(open().map_err(|why| unusable(&why))?) })
    }

    fn connection(&self) -> Result<MutexGuard<'_, Connection>, KeepError> {
        self.connection.lock().map_err(|_| KeepError("another thread died while it was writing".to_owned()))
    }
}

impl fmt::Debug for Cabinet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cabinet")
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn failed(error: rusqlite::Error) -> KeepError {
    KeepError(error.to_string())
}

impl Keep for Cabinet {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeepError> {
        let connection = self.connection()?;
        let mut query = connection.prepare_cached("SELECT value FROM records WHERE name = ?1").map_err(failed)?;
        query.query_row([name], |row| row.get(0)).optional().map_err(failed)
    }

    fn save(&self, changes: Vec<Change>) -> Result<(), KeepError> {
        let mut connection = self.connection()?;
        let transaction = connection.transaction().map_err(failed)?;
        for (name, value) in changes {
            let done = match value {
                Some(value) => transaction
                    .prepare_cached("INSERT OR REPLACE INTO records (name, value) VALUES (?1, ?2)")
                    .and_then(|mut insert| insert.execute(params![name, value])),
                None => transaction
                    .prepare_cached("DELETE FROM records WHERE name = ?1")
                    .and_then(|mut delete| delete.execute([name])),
            };
            done.map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, KeepError> {
        let connection = self.connection()?;
        let sql = "SELECT name FROM records WHERE name >= ?1 ORDER BY name";
        let mut query = connection.prepare_cached(sql).map_err(failed)?;
        let names = query.query_map([prefix], |row| row.get::<_, String>(0)).map_err(failed)?;
        let mut found = Vec::new();
        for name in names {
            let name = name.map_err(failed)?;
            if !name.starts_with(prefix) {
                break;
            }
            found.push(name);
        }
        Ok(found)
    }

    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeepError> {
        let connection = self.connection()?;
        let sql = "SELECT name, value FROM records WHERE name >= ?1 ORDER BY name";
        let mut query = connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = query.query([prefix]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let name: String = row.get(0).map_err(failed)?;
            if !name.starts_with(prefix) {
                break;
            }
            found.push((name, row.get(1).map_err(failed)?));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_there_again_and_nobody_else_opens_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.db");
        let change = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
        {
            let cabinet = Cabinet::open(&path).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            cabinet
                .save(vec![change("a/1", Some(b"one")), change("a/2", Some(b"two")), change("b", Some(b"x"))])
                .unwrap();
            cabinet.save(vec![change("a/1", Some(b"three")), change("b", None)]).unwrap();
            assert!(Cabinet::open(&path).is_err(), "two use one drawer");
        }
        let cabinet = Cabinet::open(&path).unwrap();
        assert_eq!(cabinet.load("a/1").unwrap().as_deref(), Some(b"three".as_slice()));
        assert_eq!(cabinet.load("b").unwrap(), None);
        assert_eq!(cabinet.names("a/").unwrap(), ["a/1", "a/2"]);
        assert_eq!(cabinet.names("c").unwrap(), Vec::<String>::new());
        let all = cabinet.all("a/").unwrap();
        assert_eq!(all, [("a/1".to_owned(), b"three".to_vec()), ("a/2".to_owned(), b"two".to_vec())]);
        assert_eq!(cabinet.all("c").unwrap(), []);
    }
}
