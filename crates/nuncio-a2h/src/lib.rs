//! A2H: the Capability Manifest v1, by which an agent says what it may do with a person's devices, and
//! the consent the person gives. Several unrelated specifications are called A2H; this is that one.
//!
//! `wire` is what travels, `project` makes the manifest of a declared agent, `lift` reads requests,
//! `server` answers them and keeps the sockets. What is allowed is decided in the engine.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod error;
#[cfg(feature = "server")]
mod lift;
pub mod openapi;
#[cfg(feature = "client")]
pub mod peer;
pub mod project;
#[cfg(feature = "server")]
pub mod server;
#[cfg(any(feature = "client", feature = "server"))]
mod streamed;
pub mod wire;
