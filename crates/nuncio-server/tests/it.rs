//! The whole server in one process: real sockets, real databases, real programs, a clock to move.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop here")]

#[path = "it/access.rs"]
mod access;
#[path = "it/agents.rs"]
mod agents;
#[path = "it/approvals.rs"]
mod approvals;
#[path = "it/chain.rs"]
mod chain;
#[path = "it/door.rs"]
mod door;
#[path = "it/golden.rs"]
mod golden;
#[path = "it/history.rs"]
mod history;
#[path = "it/limits.rs"]
mod limits;
#[path = "it/openapi.rs"]
mod openapi;
#[path = "it/operators.rs"]
mod operators;
#[path = "it/resume.rs"]
mod resume;
#[path = "it/summary.rs"]
mod summary;
#[path = "it/turns.rs"]
mod turns;
