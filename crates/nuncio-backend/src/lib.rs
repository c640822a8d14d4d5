//! What an agent stands on: the brains it thinks with, the tools it runs, the way out to the
//! network.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod brains;
pub mod fetch;
pub mod runners;
