//! Limits of connections, applied to each request: the limits for unidentified callers end once a caller is identified,
//! and a connection beyond the total limit serves only probes and operators.

use std::sync::Arc;

use ::http::{HeaderValue, header};
use axum::extract::Request;
use axum::response::Response;
use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use nuncio_http::known_caller;

use super::MiddlewareState;
use crate::listen::OpenConnection;

/// Concurrent requests on a connection without an identified caller. Only HTTP/2 can have more than one.
const MAX_UNIDENTIFIED_REQUESTS: usize = 64;
/// Value of `Retry-After` in a refusal, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Whether the request is a liveness or readiness probe, which is never limited.
pub(super) fn is_probe(request: &Request) -> bool {
    matches!(request.uri().path(), "/healthz" | "/readyz")
}

/// Marks the connection of an identified caller. Returns the refusal if the connection may not carry the request.
pub(super) fn refusal(shared: &MiddlewareState, request: &Request) -> Option<Response> {
    let open = request.extensions().get::<Arc<OpenConnection>>()?;
    let is_known = known_caller(request.extensions()).is_some();
    let message = if open.is_reserved {
        let path = request.uri().path();
        let for_operators = path == "/metrics" || path == "/console" || path.starts_with("/console/");
        if is_probe(request) || for_operators && is_known {
            return None;
        }
        "the maximum number of connections is open; try again later"
    } else {
        if is_known {
            open.mark_identified();
        }
        if open.is_proxy || open.is_identified() || open.requests_in_progress() <= MAX_UNIDENTIFIED_REQUESTS {
            return None;
        }
        "too many requests at once on a connection without a known caller; send a credential, or fewer at once"
    };
    let mut response = shared.refuse(request.uri().path(), &EngineError::new(ErrorCode::ServerBusy, message));
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    Some(response)
}
