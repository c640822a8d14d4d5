//! Error responses of AAP.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use nuncio_engine::EngineError;

use crate::wire::error::ErrorBody;

/// Error of an AAP handler, sent as an AAP error response.
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

pub(super) fn refuse(error: &EngineError) -> Response {
    let status = nuncio_http::status(error.code);
    let body = ErrorBody { error: &error.message, code: error.code };
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"nuncio\""));
    }
    response
}
