//! Maps error codes of the engine to the protocol's seven codes and HTTP statuses.

use nuncio_core::Code;
use nuncio_core::execution::{Execution, ExecutionFailure, ExecutionState};
use nuncio_engine::EngineError;
use serde_json::{Map, Value, json};

use crate::wire::{ErrorCode, ErrorResponse, ExecutionError, RetryAdvice};

/// Default retry delay in error responses, in milliseconds.
pub(crate) const RETRY_MS: u64 = 1000;
/// Default number of attempts advised in error responses.
pub(crate) const RETRY_ATTEMPTS: u64 = 3;

/// Error code of an execution whose skill ran and failed.
pub(crate) const EXECUTION_FAILED: &str = "EXECUTION_FAILED";

/// Error body and status for an error of the engine.
pub(crate) fn of_engine(error: &EngineError) -> (u16, ErrorResponse) {
    let status = match error.code {
        // The protocol does not define status 507.
        Code::QuotaExceeded => 503,
        code => nuncio_http::status(code).as_u16(),
    };
    let code = of_status(status);
    let response = ErrorResponse::new(code, error.message.clone()).with_details(json!({"reason": error.code}));
    let response = match code {
        ErrorCode::EndpointUnreachable => response.with_retry(RETRY_MS, RETRY_ATTEMPTS),
        _ => response,
    };
    (status, response)
}

/// Error code of the protocol for an HTTP status (§8.1; other statuses by Nuncio's own choice).
fn of_status(status: u16) -> ErrorCode {
    match status {
        401 => ErrorCode::AuthRequired,
        403 => ErrorCode::PermissionDenied,
        404 => ErrorCode::SkillNotFound,
        408 => ErrorCode::InvocationTimeout,
        429 | 500.. => ErrorCode::EndpointUnreachable,
        _ => ErrorCode::ValidationError,
    }
}

/// Error object of a failed execution; `None` for any other state.
pub(crate) fn of_execution(execution: &Execution) -> Option<ExecutionError> {
    let (ExecutionState::Failed { failure } | ExecutionState::TimedOut { failure }) = &execution.state else {
        return None;
    };
    let ExecutionFailure { code, message } = failure;
    let timed_out = matches!(execution.state, ExecutionState::TimedOut { .. });
    let code_text = match code {
        _ if timed_out => ErrorCode::InvocationTimeout.as_str(),
        Code::ScopeNotGranted | Code::Denied | Code::ApprovalExpired | Code::ApprovalClosed => {
            ErrorCode::PermissionDenied.as_str()
        }
        Code::ToolUnavailable | Code::ToolBusy => ErrorCode::EndpointUnreachable.as_str(),
        Code::SkillNotFound | Code::ToolNotFound => ErrorCode::SkillNotFound.as_str(),
        Code::InvalidArguments => ErrorCode::ValidationError.as_str(),
        _ => EXECUTION_FAILED,
    };
    let mut details = Map::new();
    details.insert("reason".to_owned(), json!(code));
    if timed_out {
        details.insert("timeout_ms".to_owned(), json!(execution.order.timeout_ms));
        details.insert("execution_id".to_owned(), json!(execution.id));
    }
    let message = if timed_out {
        format!("Skill execution timed out after {}ms: {message}", execution.order.timeout_ms)
    } else {
        message.to_owned()
    };
    let retryable = timed_out || code_text == ErrorCode::EndpointUnreachable.as_str();
    Some(ExecutionError {
        code: code_text.to_owned(),
        message,
        details: Some(Value::Object(details)),
        retry: retryable.then(|| RetryAdvice::new(RETRY_MS, RETRY_ATTEMPTS)),
        extra: Map::new(),
    })
}
