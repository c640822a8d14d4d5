//! Agent Application Protocol v3: server routes on the engine, and a client for other servers.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(feature = "client")]
pub mod client;
mod event_id;
#[cfg(feature = "server")]
mod lift;
#[cfg(feature = "server")]
mod project;
#[cfg(feature = "server")]
pub mod server;
pub mod wire;

pub use event_id::EventId;
