//! Implementations of the engine's ports for agents: brains, tool runners and the HTTP client.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod brains;
pub mod fetch;
pub mod runners;
