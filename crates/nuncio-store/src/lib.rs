//! What is kept, on disk: the engine's `Store` port on SQLite, the contract that every store must pass,
//! and a drawer for the keys of agents and devices.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod cabinet;
#[cfg(feature = "contract")]
pub mod contract;
mod sqlite;

pub use cabinet::Cabinet;
pub use sqlite::{SqliteStore, full_check, quick_check};
