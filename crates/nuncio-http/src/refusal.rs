//! Error responses on paths that belong to no protocol (probes, metrics, documents of the server, its pages), and the
//! errors of HTTP itself, which all protocols share.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use serde::Serialize;

/// Body of an error response on a path that belongs to the server itself.
#[derive(Debug, Serialize)]
pub struct ServerErrorBody<'a> {
    pub error: &'a str,
    pub code: ErrorCode,
}

/// Builds the error response of a path that belongs to the server itself.
#[must_use]
pub fn refuse(error: &EngineError) -> Response {
    let status = crate::status(error.code);
    let mut response = (status, Json(ServerErrorBody { error: &error.message, code: error.code })).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"nuncio\""));
    }
    response
}

/// Error for a method that no route of the path supports.
#[must_use]
pub fn method_not_allowed() -> EngineError {
    EngineError::new(ErrorCode::MethodNotAllowed, "this address does not support that method; see the Allow header")
}
