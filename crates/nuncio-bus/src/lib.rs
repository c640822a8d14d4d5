//! Waking up whoever waits: the engine's `Bus` port inside one process, and the contract that
//! every bus must pass.

#[cfg(feature = "contract")]
pub mod contract;
mod local;

pub use local::LocalBus;
