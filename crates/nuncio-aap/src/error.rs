//! Errors in AAP's shape: `{"error": what was wrong and what to do, "code": a stable code}`.

use http::StatusCode;
use nuncio_core::Code;
use nuncio_engine::EngineError;
use serde_json::{Value, json};

/// The body of an error.
pub(crate) fn body(error: &EngineError) -> Value {
    json!({"error": error.message, "code": error.code})
}

/// The status that goes with a code.
pub(crate) fn status(code: Code) -> StatusCode {
    match code {
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::CrossOriginRefused | Code::HostRefused | Code::ScopeNotGranted | Code::Denied => StatusCode::FORBIDDEN,
        Code::NotFound
        | Code::SessionNotFound
        | Code::HistoryNotOffered
        | Code::TurnNotFound
        | Code::ApprovalNotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::TurnRunning | Code::ApprovalClosed => StatusCode::CONFLICT,
        Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::IdempotencyMismatch => StatusCode::UNPROCESSABLE_ENTITY,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::ShuttingDown | Code::StoreUnavailable | Code::IssuerUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
