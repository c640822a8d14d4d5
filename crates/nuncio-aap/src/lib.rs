//! Agent Application Protocol v3: translates between its wire and the engine's use-cases.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod error;
mod lift;
mod project;
pub mod server;

pub use project::unsaid;
pub use server::refuse;
