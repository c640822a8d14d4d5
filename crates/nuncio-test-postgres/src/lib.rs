//! PostgreSQL servers and databases for tests.
//!
//! PostgreSQL refuses to run as root, so as root its programs run as the user `postgres`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod database;
mod round_trips;
mod server;
mod small_disk;

pub use database::PostgresDatabase;
pub use round_trips::RoundTripCounter;
pub use server::{PostgresServer, installed_programs};
pub use small_disk::SmallDisk;
