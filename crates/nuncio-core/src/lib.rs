//! The domain model of Nuncio: agents, permissions, conversations, executions and records.
//!
//! The crate is pure: no input or output, no clock, no global state.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod account;
pub mod address;
pub mod agent;
pub mod approval;
pub mod audit;
pub mod backoff;
pub mod bounded_cache;
pub mod bundle;
pub mod call_source;
pub mod caller;
pub mod code;
pub mod conversation;
pub mod device_time;
pub mod digest;
pub mod edition_cache;
pub mod event;
pub mod execution;
pub mod grant;
pub mod http_request;
pub mod ids;
pub mod invite_link;
pub mod json;
pub mod ledger;
pub mod manifest;
pub mod message;
pub mod notification;
mod opaque_debug;
pub mod person;
pub mod policy;
pub mod principal;
pub mod rate;
pub mod rate_window;
pub mod relation;
pub mod report;
pub mod schema;
pub mod session;
pub mod signature;
mod string_enum;
mod string_form;
pub mod task;
pub mod template;
pub mod text;
pub mod time;
pub mod turn;

pub use code::ErrorCode;
