//! Maps engine errors to A2H errors: a stable code in capitals and an HTTP status.

use http::StatusCode;
use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use nuncio_engine::consent::ConsentError;

use crate::wire::error::{ErrorBody, WireError};

mod chinese;

#[derive(Debug)]
pub(crate) struct A2hError {
    pub(crate) status: StatusCode,
    /// Time after which a retry may succeed, in seconds, where known.
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Box<ErrorBody>,
}

impl A2hError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ConsentError::new(code, message).into()
    }

    /// Error for a request with `If-Match`: a stale manifest becomes 412.
    pub(crate) fn conditional(error: ConsentError) -> Self {
        let lost = error.code == ErrorCode::ManifestStale;
        let mut refused = Self::from(error);
        if lost {
            refused.status = StatusCode::PRECONDITION_FAILED;
        }
        refused
    }
}

impl A2hError {
    /// The body in Chinese, with the English message in `params.detail`; `None` if there is no Chinese text.
    pub(crate) fn in_chinese(&self) -> Option<ErrorBody> {
        let mut error = self.body.error.clone();
        let message = chinese::message(error.code()?)?;
        let detail = std::mem::replace(&mut error.message, message.to_owned());
        if let Some(params) = error.params.as_object_mut() {
            params.insert("detail".to_owned(), detail.into());
        }
        Some(ErrorBody { error })
    }
}

impl From<ConsentError> for A2hError {
    fn from(error: ConsentError) -> Self {
        let (params, retry_after) = (error.params(), error.details.retry_after());
        let error = WireError { params, ..WireError::new(error.code, error.message.clone()) };
        let status = error.code().map_or(StatusCode::INTERNAL_SERVER_ERROR, status);
        Self { status, retry_after, body: Box::new(ErrorBody { error }) }
    }
}

impl From<EngineError> for A2hError {
    fn from(error: EngineError) -> Self {
        ConsentError::from(error).into()
    }
}

/// HTTP status of an error code; an unknown agent is 404, because the path names the agent.
fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::UnknownAgent => StatusCode::NOT_FOUND,
        code => nuncio_http::status(code),
    }
}

#[cfg(test)]
mod tests {
    use nuncio_engine::consent::ConsentErrorDetails;

    use super::*;

    /// Covers every row of the error table in A2H §8.
    #[test]
    fn each_protocol_error_code_has_its_http_status_and_a_chinese_message() {
        for (code, status) in [
            ("MANIFEST_INVALID", 422),
            ("MANIFEST_TOO_LARGE", 413),
            ("MANIFEST_SCOPE_RESERVED", 422),
            ("MANIFEST_SCOPE_UNDECLARED", 422),
            ("MANIFEST_TOOL_DUPLICATE", 422),
            ("MANIFEST_SCHEMA_INVALID", 422),
            ("MANIFEST_FALLBACK_MISSING", 422),
            ("MANIFEST_SENSITIVITY_BELOW_FLOOR", 422),
            ("MANIFEST_STALE", 409),
            ("SCOPE_UNKNOWN", 422),
            ("SCOPE_REQUIRED", 422),
            ("NOT_OWNER", 403),
            ("RATE_LIMITED", 429),
            ("UNAUTHORIZED", 401),
            ("DEVICE_REFUSED", 401),
            ("INVITE_INVALID", 403),
            ("CONSENT_UNSIGNED", 428),
            ("CONSENT_FORGED", 422),
            ("RELATION_EXISTS", 409),
            ("LIMIT_REACHED", 409),
            ("RELATION_NOT_FOUND", 404),
            ("UNKNOWN_AGENT", 404),
            ("DEVICE_NOT_FOUND", 404),
            ("PERSON_NOT_FOUND", 404),
            ("BAD_JSON", 400),
            ("BODY_TOO_LARGE", 413),
            ("LEDGER_BROKEN", 500),
            ("CONVERSATION_NOT_FOUND", 404),
            ("MESSAGE_NOT_FOUND", 404),
            ("STREAM_NOT_FOUND", 404),
            ("KEYS_NOT_FOUND", 404),
            ("BACKUP_NOT_FOUND", 404),
            ("RELATION_REQUIRED", 403),
            ("PERMISSION_DENIED", 403),
            ("MESSAGE_CLASH", 409),
            ("MESSAGE_CLAIMED", 409),
            ("BUNDLE_REFUSED", 422),
        ] {
            let code = ErrorCode::parse(&code.to_lowercase()).unwrap();
            let error = A2hError::new(code, "why");
            assert_eq!(error.status.as_u16(), status, "{code}");
            let chinese = error.in_chinese().unwrap_or_else(|| panic!("{code} has no Chinese text")).error;
            assert_eq!((&chinese.code, &chinese.params["detail"]), (&error.body.error.code, &"why".into()), "{code}");
            assert!(!chinese.message.is_ascii(), "{code}");
        }
        let lost = ConsentError::new(ErrorCode::ManifestStale, "");
        assert_eq!(A2hError::conditional(lost).status.as_u16(), 412);
        let many = A2hError::from(ConsentError::with(ErrorCode::RateLimited, "", ConsentErrorDetails::RetryAfter(7)));
        assert_eq!((many.status.as_u16(), many.retry_after), (429, Some(7)));
    }
}
