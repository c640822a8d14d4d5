//! Copies of whole stores: a backup file, or another store. A copy is a list of tables with typed rows in the order of
//! their keys, read from one snapshot, so that the same data has the same digest in every kind of store.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_engine::ports::store::StoreError;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub mod backup_file;
mod copy;
mod keyring;
mod rewind;
mod value;

pub(crate) use copy::INFO_TABLE;
pub use copy::{CopiedTable, CopyError, copy_store, finish_copy, read_info, replace_info};
pub use keyring::{keyring_entry, read_stored_keyring};
pub use rewind::RewoundRows;
pub use value::{Row, Value};

/// A table, as every store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableShape {
    pub name: String,
    /// The columns of a row, in alphabetical order.
    pub columns: Vec<String>,
    /// The columns of the primary key, in its order.
    pub key: Vec<String>,
}

impl TableShape {
    /// Place of a column in a row.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    #[must_use]
    pub fn key_of(&self, row: &Row) -> Vec<Value> {
        self.key.iter().filter_map(|column| row.get(self.column(column)?).cloned()).collect()
    }
}

/// A store at one moment. Other processes may continue to change the store.
#[async_trait]
pub trait StoreSnapshot: Send {
    /// Number of the last schema migration, by the numbers of SQLite's.
    fn schema_version(&self) -> u32;

    /// All tables; a table comes after those that it refers to.
    fn tables(&self) -> &[TableShape];

    /// The next rows of a table in the order of their keys, after the row with the given key. Empty at the end.
    async fn rows(&mut self, table: &TableShape, after: Option<&[Value]>) -> Result<Vec<Row>, StoreError>;
}

/// A store that is filled with the rows of another.
#[async_trait]
pub trait StoreTarget: Send {
    fn schema_version(&self) -> u32;

    fn tables(&self) -> &[TableShape];

    /// Deletes all rows of a table. Tables that refer to it may become empty too.
    async fn clear(&mut self, table: &TableShape) -> Result<(), StoreError>;

    async fn insert(&mut self, table: &TableShape, rows: Vec<Row>) -> Result<(), StoreError>;

    /// Makes everything since the last commit durable. Dropping the target instead undoes it.
    async fn commit(&mut self) -> Result<(), StoreError>;

    /// Reads what was committed.
    async fn snapshot(&mut self) -> Result<Box<dyn StoreSnapshot>, StoreError>;

    /// Fails if a row refers to one that does not exist. A store that checks this at each insert has nothing to do.
    async fn check_references(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Digest and number of rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDigest {
    pub rows: u64,
    pub digest: Digest,
}

/// Computes a [`TableDigest`] from the rows in the order of their keys.
#[derive(Default)]
pub struct TableHasher {
    rows: u64,
    hash: Sha256,
    buffer: Vec<u8>,
}

impl TableHasher {
    pub fn add(&mut self, row: &Row) {
        self.buffer.clear();
        value::encode(row, &mut self.buffer);
        self.hash.update(&self.buffer);
        self.rows += 1;
    }

    #[must_use]
    pub fn finish(self) -> TableDigest {
        TableDigest { rows: self.rows, digest: Digest::from_bytes(self.hash.finalize().into()) }
    }
}

/// Reads all rows of a small table.
async fn all_rows(store: &mut dyn StoreSnapshot, table: &TableShape) -> Result<Vec<Row>, StoreError> {
    let (mut all, mut after) = (Vec::new(), None::<Vec<Value>>);
    loop {
        let rows = store.rows(table, after.as_deref()).await?;
        let Some(last) = rows.last() else { return Ok(all) };
        after = Some(table.key_of(last));
        all.extend(rows);
    }
}

/// Computes the digest of a table.
pub async fn table_digest(store: &mut dyn StoreSnapshot, table: &TableShape) -> Result<TableDigest, StoreError> {
    let (mut hasher, mut after) = (TableHasher::default(), None::<Vec<Value>>);
    loop {
        let rows = store.rows(table, after.as_deref()).await?;
        let Some(last) = rows.last() else { return Ok(hasher.finish()) };
        after = Some(table.key_of(last));
        rows.iter().for_each(|row| hasher.add(row));
    }
}
