//! A2H Capability Manifest v1: how an agent declares what it may do with a person's devices, and the person's consent.
//! Other specifications called A2H are unrelated.
//!
//! `wire` has the messages, `project` makes the manifest of a declared agent, `lift` parses requests, `server` answers
//! them and manages the sockets. The engine decides what is allowed.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod error;
#[cfg(feature = "server")]
mod lift;
#[cfg(feature = "client")]
pub mod peer;
pub mod project;
#[cfg(feature = "server")]
pub mod server;
#[cfg(any(feature = "client", feature = "server"))]
mod stream_frames;
pub mod wire;
