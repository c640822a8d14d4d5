//! Skill Sharing 1.0: server, client and validation.
//!
//! `wire` has the message types, `validate` checks documents, `project` creates documents from declared agents, `lift`
//! parses requests, `server` answers them and `client` sends them. `registry` searches the skills of many hosts, and
//! `crawl` collects them from followed domains.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod crawl;
#[cfg(feature = "server")]
mod error;
#[cfg(feature = "server")]
mod lift;
#[cfg(feature = "server")]
mod openapi;
#[cfg(feature = "server")]
pub mod project;
#[cfg(any(feature = "client", feature = "server"))]
pub mod registry;
pub mod schema;
#[cfg(feature = "server")]
pub mod server;
pub mod validate;
pub mod wire;
