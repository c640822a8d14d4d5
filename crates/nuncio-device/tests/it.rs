//! A real relay, a real agent, and devices on this library.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/consent.rs"]
mod consent;
#[path = "it/once.rs"]
mod once;
#[path = "it/rows.rs"]
mod rows;
#[path = "it/scene.rs"]
mod scene;
