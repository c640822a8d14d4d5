//! An empty database on the server that all tests of a run share.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, iter};

/// Variable with the URL of the maintenance database of the shared server.
const SHARED_SERVER: &str = "NUNCIO_TEST_POSTGRES";

/// SQL that ends what an earlier test left, and empties the database. Creating and dropping databases takes PostgreSQL
/// much longer.
const EMPTY: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    SET client_min_messages = warning;
    DROP SCHEMA public CASCADE;
    CREATE SCHEMA public;";

/// An empty database, which no other test uses until this value is dropped.
#[derive(Debug)]
pub struct PostgresDatabase {
    url: String,
    _lock: File,
}

impl PostgresDatabase {
    /// Takes a database that no other test uses, and empties it.
    #[must_use]
    pub fn create() -> Self {
        let server = env::var(SHARED_SERVER).unwrap_or_else(|_| {
            panic!("{SHARED_SERVER} is not set: `cargo xtask test` starts a server and sets it to its URL")
        });
        let (address, _) = server.rsplit_once('/').expect("the URL names a database");
        let folder = locks(address);
        fs::create_dir_all(&folder).unwrap();
        let free = |number: usize| {
            let lock = File::options().create(true).truncate(false).write(true).open(folder.join(number.to_string()));
            let lock = lock.unwrap();
            lock.try_lock().is_ok().then_some((number, lock))
        };
        let (number, lock) = (0..).find_map(free).expect("there are more numbers than tests");
        let database = Self { url: format!("{address}/nuncio_{number}"), _lock: lock };
        if !succeeds(&database.url, EMPTY) {
            let create = format!("CREATE DATABASE nuncio_{number} ENCODING 'UTF8' TEMPLATE template0");
            assert!(succeeds(&server, &create), "the database nuncio_{number} cannot be created");
        }
        database
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs SQL in this database and returns its output, one line per row.
    #[must_use]
    pub fn query(&self, sql: &str) -> String {
        query(&self.url, sql)
    }
}

/// Runs SQL and returns its output, one line per row.
pub(crate) fn query(url: &str, sql: &str) -> String {
    let output = psql(url, sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Folder of the lock files of a server's databases.
fn locks(address: &str) -> PathBuf {
    let name: String =
        address.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    env::temp_dir().join(format!("nuncio-test-{name}"))
}

fn psql(url: &str, sql: &str) -> Command {
    let mut psql = Command::new("psql");
    let options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url];
    psql.args(options.into_iter().chain(iter::once("-c")).chain(iter::once(sql))).stdin(Stdio::null());
    psql
}

fn succeeds(url: &str, sql: &str) -> bool {
    psql(url, sql).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
