//! The 401 response to invalid DID credentials (ANP-02 §3), which tells the caller how to sign correctly.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use nuncio_identity::DidAuthError;
use nuncio_identity::challenge::{ACCEPT_SIGNATURE, DidAuthChallenge, superseded_body};
use serde_json::Value;

use super::DidAuthenticator;

const ACCEPT_SIGNATURE_HEADER: HeaderName = HeaderName::from_static("accept-signature");

impl DidAuthenticator {
    /// The response to a refused request: 401 with a challenge, 403, 409 with the DID to use, or 503.
    #[must_use]
    pub fn challenge(&self, fault: &DidAuthError) -> Response {
        let status = StatusCode::from_u16(fault.status()).unwrap_or(StatusCode::UNAUTHORIZED);
        let challenge = DidAuthChallenge::new(&self.realm, fault, None);
        let body: Value = match fault {
            DidAuthError::Superseded { requested, current } => superseded_body(requested, current),
            _ => challenge.to_json(status.as_u16()),
        };
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match status {
            StatusCode::UNAUTHORIZED => {
                // The message may contain characters of the caller's DID that no header may have.
                let value = HeaderValue::try_from(challenge.www_authenticate());
                let fallback = HeaderValue::from_static("DIDWba error=\"invalid_request\"");
                headers.insert(header::WWW_AUTHENTICATE, value.unwrap_or(fallback));
                headers.insert(ACCEPT_SIGNATURE_HEADER, HeaderValue::from_static(ACCEPT_SIGNATURE));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
            }
            _ => {}
        }
        response
    }
}
