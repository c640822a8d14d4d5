//! Whole copies of a SQLite store. They use connections of their own and block the calling thread, so they are for
//! commands and not for the server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nuncio_engine::ports::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

use super::problem::SqlError;
use super::rows::all;
use super::{connection, migrations};
use crate::dump::{Row, StoreSnapshot, StoreTarget, TableShape, Value};

/// Size at which a batch of rows ends, in bytes.
const BATCH_BYTES: usize = 4 << 20;

/// A read transaction, which sees the store as it was when the snapshot was taken.
pub struct SqliteSnapshot {
    connection: Connection,
    version: u32,
    tables: Vec<TableShape>,
}

impl SqliteSnapshot {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self::read(connection::checking(path)?)?)
    }

    fn read(connection: Connection) -> Result<Self, SqlError> {
        connection.execute_batch("BEGIN")?;
        // The first read takes the snapshot.
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables = shapes(&connection)?;
        Ok(Self { connection, version, tables })
    }
}

#[async_trait]
impl StoreSnapshot for SqliteSnapshot {
    fn schema_version(&self) -> u32 {
        self.version
    }

    fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    async fn rows(&mut self, table: &TableShape, after: Option<&[Value]>) -> Result<Vec<Row>, StoreError> {
        Ok(batch(&self.connection, table, after)?)
    }
}

/// A store that is filled from another. Triggers do not run, because what they compute is copied too.
pub struct SqliteTarget {
    path: PathBuf,
    connection: Connection,
    version: u32,
    tables: Vec<TableShape>,
}

impl SqliteTarget {
    /// Creates a store with an earlier schema, or opens one.
    pub fn create(path: &Path, schema: u32) -> Result<Self, StoreError> {
        let connection = connection::writing(path)?;
        migrations::run_to(&connection, schema)?;
        Ok(Self::prepare(path, connection)?)
    }

    /// Opens a store, or creates one with the current schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = connection::writing(path)?;
        migrations::run(&connection)?;
        Ok(Self::prepare(path, connection)?)
    }

    fn prepare(path: &Path, connection: Connection) -> Result<Self, SqlError> {
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables = shapes(&connection)?;
        Ok(Self { path: path.to_owned(), connection, version, tables })
    }

    /// Moves everything from the write-ahead log to the database file, and closes it.
    pub fn close(self) -> Result<(), StoreError> {
        let close = || -> Result<(), SqlError> {
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            Ok(())
        };
        close()?;
        self.connection.close().map_err(|(_, error)| SqlError::from(error))?;
        Ok(())
    }

    fn begin(&self) -> Result<(), SqlError> {
        if self.connection.is_autocommit() {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
        }
        Ok(())
    }

    fn insert_rows(&self, table: &TableShape, rows: &[Row]) -> Result<(), SqlError> {
        self.begin()?;
        let places: Vec<_> = (1..=table.columns.len()).map(|place| format!("?{place}")).collect();
        let sql =
            format!("INSERT INTO {} ({}) VALUES ({})", quoted(&table.name), list(&table.columns), places.join(", "));
        let mut statement = self.connection.prepare_cached(&sql)?;
        for row in rows {
            if row.len() != table.columns.len() {
                return Err(SqlError::Damaged(format!("a row of {} has another number of columns", table.name)));
            }
            statement.execute(params_from_iter(row))?;
        }
        Ok(())
    }

    fn commit_rows(&self) -> Result<(), SqlError> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(())
    }
}

#[async_trait]
impl StoreTarget for SqliteTarget {
    fn schema_version(&self) -> u32 {
        self.version
    }

    fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    async fn clear(&mut self, table: &TableShape) -> Result<(), StoreError> {
        self.begin()?;
        let delete = format!("DELETE FROM {}", quoted(&table.name));
        Ok(self.connection.execute_batch(&delete).map_err(SqlError::from)?)
    }

    async fn insert(&mut self, table: &TableShape, rows: Vec<Row>) -> Result<(), StoreError> {
        Ok(self.insert_rows(table, &rows)?)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        Ok(self.commit_rows()?)
    }

    async fn snapshot(&mut self) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        Ok(Box::new(SqliteSnapshot::open(&self.path)?))
    }

    async fn check_references(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1";
        let dangling: Vec<String> = all(&self.connection, sql, [], |row| Ok(row.get(0)?))?;
        match dangling.first() {
            None => Ok(()),
            Some(table) => Err(StoreError::Damaged(format!("rows of {table} refer to rows that do not exist"))),
        }
    }
}

/// The tables of a schema version, each after those that it refers to. Every kind of store has them.
pub(crate) fn tables_of_version(version: u32) -> Result<Vec<TableShape>, StoreError> {
    let connection = Connection::open_in_memory().map_err(SqlError::from)?;
    migrations::run_to(&connection, version)?;
    Ok(shapes(&connection)?)
}

/// The tables, each after those that it refers to.
fn shapes(connection: &Connection) -> Result<Vec<TableShape>, SqlError> {
    let sql =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let names: Vec<String> = all(connection, sql, [], |row| Ok(row.get(0)?))?;
    let mut waiting = BTreeMap::new();
    for name in names {
        let sql = "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list(?1) WHERE \"table\" <> ?1";
        let parents: BTreeSet<String> =
            all(connection, sql, [&name], |row| Ok(row.get::<_, String>(0)?))?.into_iter().collect();
        waiting.insert(name.clone(), (shape(connection, name)?, parents));
    }
    let mut ordered: Vec<TableShape> = Vec::new();
    while !waiting.is_empty() {
        let is_placed = |parent: &String| ordered.iter().any(|table| table.name == *parent);
        let next = waiting.iter().find(|(_, (_, parents))| parents.iter().all(is_placed));
        let Some(name) = next.map(|(name, _)| name.clone()) else {
            return Err(SqlError::Damaged("its tables refer to each other in a circle".to_owned()));
        };
        ordered.extend(waiting.remove(&name).map(|(shape, _)| shape));
    }
    Ok(ordered)
}

fn shape(connection: &Connection, name: String) -> Result<TableShape, SqlError> {
    let texts = |sql: &str| all(connection, sql, [&name], |row| Ok(row.get::<_, String>(0)?));
    let columns = texts("SELECT name FROM pragma_table_info(?1) ORDER BY name")?;
    let key = texts("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?;
    Ok(TableShape { name, columns, key })
}

fn batch(connection: &Connection, table: &TableShape, after: Option<&[Value]>) -> Result<Vec<Row>, SqlError> {
    let key = list(&table.key);
    let above = match after {
        None => String::new(),
        Some(after) => {
            let places: Vec<_> = (1..=after.len()).map(|place| format!("?{place}")).collect();
            format!("WHERE ({key}) > ({})", places.join(", "))
        }
    };
    let sql = format!("SELECT {} FROM {} {above} ORDER BY {key}", list(&table.columns), quoted(&table.name));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(after.unwrap_or_default()))?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES
        && let Some(row) = found.next()?
    {
        let row = (0..table.columns.len()).map(|column| value(row.get_ref(column)?)).collect::<Result<Row, _>>()?;
        bytes += row.iter().map(Value::size).sum::<usize>();
        rows.push(row);
    }
    Ok(rows)
}

fn value(found: ValueRef<'_>) -> Result<Value, SqlError> {
    Ok(match found {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => return Err(SqlError::Damaged("a text is not UTF-8".to_owned())),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Real(_) => return Err(SqlError::Damaged("a number is not whole".to_owned())),
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn list(columns: &[String]) -> String {
    columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
