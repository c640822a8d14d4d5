//! What is kept, on disk: the engine's `Store` port on SQLite, and the contract that every store
//! must pass.

#[cfg(feature = "contract")]
pub mod contract;
mod sqlite;

pub use sqlite::SqliteStore;
