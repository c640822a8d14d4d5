//! Authentication: finds out who sends a request.
//!
//! A caller is identified by an API key, an access token of a trusted issuer ([`oauth`]), a signature or token of a DID
//! ([`did`]), a signature with a shared secret ([`request_signatures`]), or the token of a person's device or an agent's
//! account ([`person_tokens`]). [`Authenticator`] decides which of them counts for a request. A credential that is not
//! valid is refused; the request is never treated as one without credentials.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod did;
mod exposure;
mod identify;
pub mod oauth;
pub mod person_tokens;
pub mod request_signatures;
pub mod settings;

pub use did::{DidAuth, DidCheckResult};
pub use exposure::NetworkExposure;
pub use identify::{Authenticator, PathOwner, is_forwarded, shows_signature};
pub use oauth::{Issuers, OAuthEndpoints, TokenCheckResult};
pub use person_tokens::PersonTokens;
pub use request_signatures::{SignatureCheckResult, SignatureVerifier};

use http::{HeaderMap, Method, Uri};

/// The part of a request that precedes its body; signatures cover it.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: &'a Method,
    /// The request target as the client sent it.
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
}
