//! Error responses of MCP.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use serde_json::{Value, json};

use super::respond;
use crate::wire::{McpError, error_message};

/// A request that gets an error instead of a result.
#[derive(Debug, Clone)]
pub(super) struct McpFailure {
    pub(super) status: StatusCode,
    pub(super) error: Box<McpError>,
    /// Value of `WWW-Authenticate`.
    pub(super) challenge: Option<Box<HeaderValue>>,
}

impl McpFailure {
    pub(super) fn new(status: StatusCode, error: McpError) -> Self {
        Self { status, error: Box::new(error), challenge: None }
    }

    pub(super) fn bad_request(code: i64, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, McpError::new(code, message))
    }

    /// An error of the method, which is not one of HTTP.
    pub(super) fn in_band(code: i64, message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, McpError::new(code, message))
    }

    pub(super) fn response(self, id: Option<&Value>) -> Response {
        let mut response = respond::json_response(self.status, &error_message(id, &self.error));
        let challenge = match self.challenge {
            Some(challenge) => Some(*challenge),
            None if self.status == StatusCode::UNAUTHORIZED => {
                Some(HeaderValue::from_static("Bearer realm=\"nuncio\""))
            }
            None => None,
        };
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Errors of the engine have their HTTP status as JSON-RPC code, which is outside the ranges that the specification
/// reserves; `data.code` is the stable code.
impl From<EngineError> for McpFailure {
    fn from(error: EngineError) -> Self {
        let status = nuncio_http::status(error.code);
        let error = McpError::new(status.as_u16().into(), error.message).with_data(json!({"code": error.code}));
        Self::new(status, error)
    }
}

/// An invalid session id gets 404, upon which clients begin a new session.
pub(super) fn unknown_session() -> McpFailure {
    EngineError::new(
        ErrorCode::SessionNotFound,
        "the session is unknown, ended or another caller's; send `initialize` again",
    )
    .into()
}
