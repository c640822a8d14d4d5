//! Error responses.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use nuncio_engine::EngineError;
use serde_json::json;

/// Error response of an AAP handler.
#[derive(Debug)]
pub(super) struct AapError(EngineError);

impl<E: Into<EngineError>> From<E> for AapError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for AapError {
    fn into_response(self) -> Response {
        refuse(&self.0)
    }
}

/// Error response for a request that was refused before its handler.
#[must_use]
pub fn refuse(error: &EngineError) -> Response {
    let status = nuncio_http::status(error.code);
    let body = json!({"error": error.message, "code": error.code});
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"nuncio\""));
    }
    response
}
