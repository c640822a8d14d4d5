//! Key store of one agent or device: named values in a private SQLite file, written atomically.

use std::fmt;
use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use nuncio_core::opaque_debug;
use nuncio_identity::seal::{KeyStore, KeyStoreError, SealedRecordChange, StorageKey, mentioning};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

/// `user_version` of a file with plain values.
const PLAIN_VALUES: i64 = 0;
/// `user_version` of a file with encrypted values; free pages or the write-ahead file may still contain plain ones.
const SEALED_UNCLEANED: i64 = 1;
/// `user_version` of a file with encrypted values and no plain value left on disk.
const SEALED_VALUES: i64 = 2;

/// Name of the record that detects a wrong encryption key.
const KEY_CHECK_RECORD: &str = "storage-check";

pub struct SqliteKeyStore {
    connection: Mutex<Connection>,
    version: i64,
    /// Key that encrypts the values; names stay plain. Changes only while the connection is locked.
    key: RwLock<Option<StorageKey>>,
}

impl SqliteKeyStore {
    /// Opens or creates the key store file. Only one process can use it at a time.
    ///
    /// # Errors
    /// The file cannot be used, or another process uses it.
    pub fn open(path: &Path) -> Result<Self, KeyStoreError> {
        let unusable = |why: &dyn fmt::Display| KeyStoreError(format!("{}: {why}", path.display()));
        // Created before SQLite does, so that the file is never readable by others. An existing file is not opened,
        // because closing it would release the locks that this process holds on it.
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
        let connection = open().map_err(|why| unusable(&why))?;
        let version = version(&connection)?;
        Ok(Self { connection: Mutex::new(connection), version, key: RwLock::default() })
    }

    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.version != PLAIN_VALUES
    }

    /// Encrypts all values with `key`. Plain values are removed from the file and its write-ahead file.
    ///
    /// # Errors
    /// The file was encrypted with another key, or cannot be written.
    pub fn seal_with(mut self, key: StorageKey) -> Result<Self, KeyStoreError> {
        let mut connection = self.connection()?;
        match self.version {
            PLAIN_VALUES => seal_values(&mut connection, &key)?,
            SEALED_UNCLEANED | SEALED_VALUES => {
                let sql = "SELECT value FROM storage_check";
                let check: Vec<u8> = connection.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
                if key.open(KEY_CHECK_RECORD, check).is_none() {
                    return Err(KeyStoreError("the records are sealed with another key".to_owned()));
                }
            }
            newer => return Err(KeyStoreError(format!("its format {newer} is of a newer version of Nuncio"))),
        }
        if self.version != SEALED_VALUES {
            clean(&connection)?;
        }
        drop(connection);
        (self.version, self.key) = (SEALED_VALUES, RwLock::new(Some(key)));
        Ok(self)
    }

    /// Encrypts all values with another key in one transaction, while the store is open.
    ///
    /// # Errors
    /// The store is not encrypted, or the file cannot be written.
    pub fn reseal(&self, key: StorageKey) -> Result<(), KeyStoreError> {
        let mut connection = self.records()?;
        if !self.is_sealed() {
            return Err(KeyStoreError("the records are not sealed".to_owned()));
        }
        let transaction = connection.transaction().map_err(failed)?;
        for name in names(&transaction)? {
            let sql = "SELECT value FROM records WHERE name = ?1";
            let value: Vec<u8> = transaction.query_row(sql, [&name], |row| row.get(0)).map_err(failed)?;
            let value = key.seal(&name, &self.opened(&name, value)?);
            let sql = "UPDATE records SET value = ?2 WHERE name = ?1";
            transaction.execute(sql, params![name, value]).map_err(failed)?;
        }
        let sql = "UPDATE storage_check SET value = ?1";
        transaction.execute(sql, [key.seal(KEY_CHECK_RECORD, b"")]).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
        checkpoint(&connection)
    }

    fn key(&self) -> RwLockReadGuard<'_, Option<StorageKey>> {
        self.key.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn sealed(&self, name: &str, value: Vec<u8>) -> Vec<u8> {
        match &*self.key() {
            Some(key) => key.seal(name, &value),
            None => value,
        }
    }

    fn opened(&self, name: &str, value: Vec<u8>) -> Result<Vec<u8>, KeyStoreError> {
        let damaged = || KeyStoreError(format!("the record {name:?} is damaged"));
        match &*self.key() {
            Some(key) => key.open(name, value).ok_or_else(damaged),
            None => Ok(value),
        }
    }

    fn records(&self) -> Result<MutexGuard<'_, Connection>, KeyStoreError> {
        let connection = self.connection()?;
        if self.key().is_none() && self.is_sealed() {
            return Err(KeyStoreError("the records are sealed, and no key was given".to_owned()));
        }
        Ok(connection)
    }

    /// Reads the rows whose name, the first column, has the prefix; `sql` starts at the prefix and sorts by name.
    fn scan<T>(
        &self,
        sql: &str,
        prefix: &str,
        read: impl Fn(String, &Row<'_>) -> Result<T, KeyStoreError>,
    ) -> Result<Vec<T>, KeyStoreError> {
        let connection = self.records()?;
        let mut query = connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = query.query([prefix]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let name: String = row.get(0).map_err(failed)?;
            if !name.starts_with(prefix) {
                break;
            }
            found.push(read(name, row)?);
        }
        Ok(found)
    }

    fn connection(&self) -> Result<MutexGuard<'_, Connection>, KeyStoreError> {
        self.connection.lock().map_err(|_| KeyStoreError("another thread failed while it was writing".to_owned()))
    }
}

opaque_debug!(SqliteKeyStore);

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn failed(error: rusqlite::Error) -> KeyStoreError {
    KeyStoreError(error.to_string())
}

fn version(connection: &Connection) -> Result<i64, KeyStoreError> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)
}

/// Encrypts every value in one transaction.
fn seal_values(connection: &mut Connection, key: &StorageKey) -> Result<(), KeyStoreError> {
    let transaction = connection.transaction().map_err(failed)?;
    for name in names(&transaction)? {
        let sql = "SELECT value FROM records WHERE name = ?1";
        let value: Vec<u8> = transaction.query_row(sql, [&name], |row| row.get(0)).map_err(failed)?;
        let sql = "UPDATE records SET value = ?2 WHERE name = ?1";
        transaction.execute(sql, params![name, key.seal(&name, &value)]).map_err(failed)?;
    }
    transaction
        .execute_batch(
            "CREATE TABLE storage_check (id INTEGER PRIMARY KEY CHECK (id = 1), value BLOB NOT NULL) STRICT;",
        )
        .map_err(failed)?;
    let sql = "INSERT INTO storage_check (id, value) VALUES (1, ?1)";
    transaction.execute(sql, [key.seal(KEY_CHECK_RECORD, b"")]).map_err(failed)?;
    transaction.pragma_update(None, "user_version", SEALED_UNCLEANED).map_err(failed)?;
    transaction.commit().map_err(failed)
}

fn names(connection: &Connection) -> Result<Vec<String>, KeyStoreError> {
    let mut query = connection.prepare("SELECT name FROM records").map_err(failed)?;
    let names = query.query_map([], |row| row.get(0)).map_err(failed)?;
    names.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Rewrites the file without its free pages, and empties the write-ahead file.
fn clean(connection: &Connection) -> Result<(), KeyStoreError> {
    connection.execute_batch("VACUUM").map_err(failed)?;
    checkpoint(connection)?;
    connection.pragma_update(None, "user_version", SEALED_VALUES).map_err(failed)
}

fn checkpoint(connection: &Connection) -> Result<(), KeyStoreError> {
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    match busy {
        0 => Ok(()),
        _ => Err(KeyStoreError("the write-ahead file cannot be emptied: another process reads it".to_owned())),
    }
}

impl KeyStore for SqliteKeyStore {
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, KeyStoreError> {
        let connection = self.records()?;
        let mut query = connection.prepare_cached("SELECT value FROM records WHERE name = ?1").map_err(failed)?;
        let value = query.query_row([name], |row| row.get(0)).optional().map_err(failed)?;
        value.map(|value| self.opened(name, value)).transpose()
    }

    fn save(&self, changes: Vec<SealedRecordChange>) -> Result<(), KeyStoreError> {
        let mut connection = self.records()?;
        let transaction = connection.transaction().map_err(failed)?;
        for (name, value) in changes {
            let done = match value {
                Some(value) => transaction
                    .prepare_cached("INSERT OR REPLACE INTO records (name, value) VALUES (?1, ?2)")
                    .and_then(|mut insert| insert.execute(params![name, self.sealed(&name, value)])),
                None => transaction
                    .prepare_cached("DELETE FROM records WHERE name = ?1")
                    .and_then(|mut delete| delete.execute([name])),
            };
            done.map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, KeyStoreError> {
        self.scan("SELECT name FROM records WHERE name >= ?1 ORDER BY name", prefix, |name, _| Ok(name))
    }

    fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, KeyStoreError> {
        self.scan("SELECT name, value FROM records WHERE name >= ?1 ORDER BY name", prefix, |name, row| {
            let value = self.opened(&name, row.get(1).map_err(failed)?)?;
            Ok((name, value))
        })
    }

    fn forget(&self, texts: &[String]) -> Result<(), KeyStoreError> {
        self.save(mentioning(self, texts)?)?;
        let connection = self.connection()?;
        connection.execute_batch("VACUUM").map_err(failed)?;
        checkpoint(&connection)
    }
}

#[cfg(test)]
mod tests {
    use nuncio_identity::seal::{WrappedStorageKey, WrappingKey, WrappingKeySource};

    use super::*;

    #[test]
    fn saved_keys_survive_reopening_and_a_second_concurrent_open_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.db");
        let change = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
        {
            let cabinet = SqliteKeyStore::open(&path).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            cabinet
                .save(vec![change("a/1", Some(b"one")), change("a/2", Some(b"two")), change("b", Some(b"x"))])
                .unwrap();
            cabinet.save(vec![change("a/1", Some(b"three")), change("b", None)]).unwrap();
            assert!(SqliteKeyStore::open(&path).is_err(), "two use one drawer");
        }
        let cabinet = SqliteKeyStore::open(&path).unwrap();
        assert_eq!(cabinet.load("a/1").unwrap().as_deref(), Some(b"three".as_slice()));
        assert_eq!(cabinet.load("b").unwrap(), None);
        assert_eq!(cabinet.names("a/").unwrap(), ["a/1", "a/2"]);
        assert_eq!(cabinet.names("c").unwrap(), Vec::<String>::new());
        let all = cabinet.all("a/").unwrap();
        assert_eq!(all, [("a/1".to_owned(), b"three".to_vec()), ("a/2".to_owned(), b"two".to_vec())]);
        assert_eq!(cabinet.all("c").unwrap(), []);
    }

    fn bytes_in(folder: &Path) -> Vec<u8> {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.flat_map(|file| std::fs::read(file).unwrap()).collect()
    }

    fn holds(folder: &Path, text: &str) -> bool {
        bytes_in(folder).windows(text.len()).any(|window| window == text.as_bytes())
    }

    fn save(cabinet: &SqliteKeyStore, name: &str, value: &str) {
        cabinet.save(vec![(name.to_owned(), Some(value.as_bytes().to_vec()))]).unwrap();
    }

    #[test]
    fn sealing_a_plain_key_store_leaves_no_plain_value_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.db");
        // Enough values that some are in the file and some in the write-ahead file, and that pages were freed.
        let plain = SqliteKeyStore::open(&path).unwrap();
        for number in 0..400 {
            save(&plain, &format!("talk/{number:03}"), &format!("plain {number} {}", "x".repeat(5000)));
        }
        for number in 0..100 {
            plain.save(vec![(format!("talk/{number:03}"), None)]).unwrap();
        }
        assert!(holds(folder.path(), "plain 399") && !plain.is_sealed());
        let (key, again) = (StorageKey::random(), StorageKey::random());
        let sealed = plain.seal_with(key).unwrap();
        assert!(!holds(folder.path(), "plain "), "while it is open");
        assert!(sealed.is_sealed());
        assert_eq!(sealed.names("talk/").unwrap().len(), 300);
        assert!(sealed.load("talk/399").unwrap().unwrap().starts_with(b"plain 399 "));
        save(&sealed, "talk/400", "plain 400");
        assert_eq!(sealed.all("talk/400").unwrap(), [("talk/400".to_owned(), b"plain 400".to_vec())]);
        assert!(!holds(folder.path(), "plain "), "in the write-ahead file");
        drop(sealed);
        assert!(!holds(folder.path(), "plain "), "after it was closed");

        let unopened = SqliteKeyStore::open(&path).unwrap();
        assert!(unopened.load("talk/400").is_err() && unopened.names("").is_err(), "without the key");
        assert!(unopened.save(vec![("talk/400".to_owned(), None)]).is_err());
        assert!(unopened.seal_with(again).unwrap_err().0.contains("another key"));
    }

    #[test]
    fn interrupted_sealing_is_completed_at_the_next_open_with_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.db");
        let by = WrappingKey::random();
        let key = StorageKey::random();
        let wrapped = WrappedStorageKey::new(&key, &by, WrappingKeySource::File { path: "/a".into() });
        {
            let plain = SqliteKeyStore::open(&path).unwrap();
            save(&plain, "talk/1", "plain words");
            seal_values(&mut plain.connection().unwrap(), &key).unwrap();
        }
        let cabinet = SqliteKeyStore::open(&path).unwrap();
        assert_eq!(cabinet.version, SEALED_UNCLEANED);
        let cabinet = cabinet.seal_with(wrapped.unwrap_with(&by).unwrap()).unwrap();
        assert_eq!(version(&cabinet.connection().unwrap()).unwrap(), SEALED_VALUES);
        assert_eq!(cabinet.load("talk/1").unwrap().unwrap(), b"plain words");
        assert!(!holds(folder.path(), "plain words"));
        let newer = SEALED_VALUES + 1;
        cabinet.connection().unwrap().pragma_update(None, "user_version", newer).unwrap();
        drop(cabinet);
        let newer = SqliteKeyStore::open(&path).unwrap().seal_with(wrapped.unwrap_with(&by).unwrap()).unwrap_err();
        assert!(newer.0.contains("newer version"), "{newer}");
    }

    #[test]
    fn open_store_is_sealed_with_another_key_and_then_opens_only_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.db");
        let key = |byte| StorageKey::derived(&[byte; 32], "test");
        let change = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
        let store = SqliteKeyStore::open(&path).unwrap().seal_with(key(1)).unwrap();
        store.save(vec![change("a", "one"), change("b", "two")]).unwrap();
        store.reseal(key(2)).unwrap();
        store.save(vec![change("c", "three")]).unwrap();
        assert_eq!(store.load("a").unwrap().as_deref(), Some(b"one".as_slice()));
        drop(store);
        assert!(SqliteKeyStore::open(&path).unwrap().seal_with(key(1)).is_err());
        let store = SqliteKeyStore::open(&path).unwrap().seal_with(key(2)).unwrap();
        assert_eq!(store.all("").unwrap().len(), 3);
    }
}
