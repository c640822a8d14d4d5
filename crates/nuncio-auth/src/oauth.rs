//! Access tokens of OAuth issuers that the operator trusts.

mod fetch_cache;
mod introspect;
mod issuers;
mod jwks;
mod metadata;
mod token;

pub use issuers::{OAuthEndpoints, TokenCheckResult, TrustedIssuers};
