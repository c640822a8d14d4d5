//! The Agent Network Protocol (ANP): descriptions, OpenRPC interfaces, messages and negotiation.
//!
//! `wire` has the message types, `validate` checks documents, and `project` builds documents from declared agents.
//! Documents are built without a proof; the holder of the key adds it.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod directory;
pub mod negotiate;
pub mod negotiation;
pub mod project;
#[cfg(feature = "server")]
pub mod server;
pub mod validate;
pub mod wire;
