//! Skill Sharing 1.0: discover, validate, invoke.
//!
//! `wire` is what travels, `validate` says what is wrong with it, `project` makes our own documents
//! from declared agents, `lift` reads requests, `server` answers them and `client` makes them. `registry` is
//! what can be found of many hosts, and `crawl` reads it from those that are followed.

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
pub mod openapi;
#[cfg(feature = "server")]
pub mod project;
pub mod registry;
pub mod schema;
#[cfg(feature = "server")]
pub mod server;
pub mod validate;
pub mod wire;
