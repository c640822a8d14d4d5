//! Authentication: finds out who sends a request.
//!
//! A caller is identified by an API key, an access token of a trusted issuer ([`oauth`]), a signature or token of a DID
//! ([`did`]), a signature with a shared secret ([`request_signatures`]), or the token of a person's device or an
//! agent's account ([`person_tokens`]). [`Authenticator`] decides which of them counts for a request. A credential that
//! is not valid is refused; the request is never treated as one without credentials.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod did;
mod exposure;
mod identify;
pub mod oauth;
pub mod person_tokens;
pub mod request_signatures;
pub mod settings;

pub use did::{DidAuthenticationResult, DidAuthenticator};
pub use exposure::NetworkExposure;
pub use identify::{Authenticator, PathOwner, is_forwarded, shows_signature};
pub use oauth::{OAuthEndpoints, TokenCheckResult, TrustedIssuers};
pub use person_tokens::PersonTokenIssuer;
pub use request_signatures::{RequestSignatureVerifier, SignatureCheckResult};

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method, Uri};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use serde::de::DeserializeOwned;
use url::Url;

/// Time limit for fetching a document of another host. Short, because a caller waits for the result.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The part of a request that precedes its body; signatures cover it.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: &'a Method,
    /// The request target as the client sent it.
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
}

/// The request for a JSON document of another host.
fn document_request(url: Url, trust: AddressTrust, max_bytes: usize) -> FetchRequest {
    FetchRequest {
        method: "GET",
        url,
        headers: vec![("accept".to_owned(), "application/json".to_owned())],
        body: None,
        trust,
        timeout: DOCUMENT_TIMEOUT,
        max_bytes,
    }
}

/// Decodes a part of a JWT; `None` if it is not base64url of such JSON.
fn decode_jwt_part<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn unix_seconds(time: Timestamp) -> i64 {
    time.as_millis().div_euclid(1000)
}
