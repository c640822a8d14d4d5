//! The engine's `Bus` port within one process, and the contract tests for every bus.

#[cfg(feature = "contract")]
pub mod contract;
mod local;

pub use local::LocalBus;
