//! ANP: descriptions others can crawl, interfaces others can call, a negotiation others can check.
//!
//! `wire` is what travels, `validate` says what is wrong with it, and `project` makes our own documents from
//! declared agents. Who signs, and how signatures are checked, is none of this crate's business: documents
//! are made without a proof, and whoever holds the key attaches one.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod directory;
pub mod negotiate;
pub mod openapi;
pub mod project;
#[cfg(feature = "server")]
pub mod server;
pub mod validate;
pub mod wire;
