//! What the servers of all protocols share: bodies of bounded size in bounded time, the headers that
//! mean the same everywhere, and documents that caches may keep.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod body;
mod budget;
mod caller;
mod document;
mod headers;
mod paging;
mod status;

pub use body::{BodyLimits, CredentialPlace};
pub use budget::BodyBudget;
pub use caller::{CallerObserver, CallerReport, ClientAddress, KnownCaller, known_caller, report_caller};
pub use document::{Caching, Document};
pub use headers::{Preference, idempotency_key, is_json, preference};
pub use paging::{Asked, next_link};
pub use status::status;
