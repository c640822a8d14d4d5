//! Size of a store, and its unfinished work.

use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Kind of database, such as `sqlite`.
    pub kind: String,
    /// File or address of the store, without a password.
    pub place: String,
    /// Number of the last schema migration.
    pub schema: u32,
    /// Ordered by name.
    pub tables: Vec<TableSize>,
    /// Kinds of unfinished work of which there is some, the one with the oldest first.
    pub unfinished: Vec<UnfinishedWork>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSize {
    pub name: String,
    pub rows: u64,
    /// Bytes of the table and its indexes.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedWork {
    /// What is unfinished: `turn`, `call`, `execution`, `approval`, `task`, `callback`, `delivery` or `reply`.
    pub kind: String,
    pub count: u64,
    /// Time since which the oldest waits. Work that is sent to others waits since it was due.
    pub oldest: Timestamp,
}
