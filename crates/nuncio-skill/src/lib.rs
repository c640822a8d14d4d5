//! Skill Sharing 1.0: discover, validate, invoke.
//!
//! `wire` is what travels, `validate` says what is wrong with it, `project` makes our own documents
//! from declared agents, `lift` reads requests, `server` answers them and `client` makes them.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod validate;
pub mod wire;
