//! Protocol-independent operations of Nuncio and the ports they need.
//!
//! Protocol crates translate their messages to and from these operations; this crate depends on no protocol.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod access;
pub mod accounts;
pub mod approve;
mod background;
pub mod call;
mod call_failure;
mod compute;
pub mod consent;
mod consent_error;
mod context;
pub mod converse;
pub mod crawl;
pub mod direct_messages;
pub mod directory;
mod directory_listing;
pub mod drafting;
mod ed25519;
mod engine;
mod error;
pub mod follow;
mod followed_domain;
pub mod invoke;
pub mod jobs;
mod limits;
mod live_turn;
pub mod nodes;
pub mod not_found;
pub mod operator_commands;
pub mod people;
pub mod ports;
mod protocol_draft;
pub mod publish;
pub mod record;
pub mod rekey;
pub mod relay;
pub mod secret_cipher;
pub mod skills;
pub mod sweeps;
pub mod sync_call;
pub mod tasks;

pub use access::{AuthenticationMethod, Caller, CallerCheckResult};
pub use ed25519::Ed25519Verifier;
pub use engine::{Engine, EngineLoad, EnginePorts};
pub use error::EngineError;
pub use limits::EngineLimits;
