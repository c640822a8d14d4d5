//! HTTP code shared by the servers of all protocols and by all [`pages`]: the trait of a protocol's server side,
//! limited bodies, common headers, cacheable documents and paging.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod body;
mod budget;
mod caller;
pub mod device_tokens;
mod document;
mod etag;
pub mod front;
mod headers;
pub mod network;
pub mod pages;
mod paging;
mod refusal;
pub mod sse;
mod status;
mod translation;

pub use body::{BodyLimits, CredentialLocation};
pub use budget::BodyBudget;
pub use caller::{
    CallerObserver, CallerReporter, ClientAddress, RateLimitCaller, RequestId, known_caller, report_caller,
};
pub use document::{CachePolicy, CacheableDocument};
pub use etag::{etag, unless_known};
pub use headers::{WaitPreference, idempotency_key, is_json, preference};
pub use paging::{QueryParameters, next_link};
pub use refusal::{ServerErrorBody, method_not_allowed, refuse};
pub use status::status;
pub use translation::{LocalizedResponseBody, translate};
