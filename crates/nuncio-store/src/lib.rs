//! The engine's `Store` port on SQLite and on PostgreSQL, the contract tests for every store, and the file store for the
//! keys of agents and devices.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod common;
#[cfg(feature = "contract")]
pub mod contract;
pub mod dump;
mod key_store;
mod postgres;
mod sqlite;

pub use key_store::SqliteKeyStore;
pub use postgres::{PostgresAddress, PostgresSnapshot, PostgresStore, PostgresTarget};
#[cfg(feature = "contract")]
pub use sqlite::{RecordedStatement, executed_statements, record_statements};
pub use sqlite::{SCHEMA_VERSION, SqliteSnapshot, SqliteStore, SqliteTarget, full_check, quick_check, read_keyring};
