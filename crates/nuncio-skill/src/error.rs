//! Maps error codes of the engine to the protocol's seven codes and HTTP statuses.

use nuncio_core::ErrorCode;
use nuncio_core::execution::{Execution, ExecutionFailure, ExecutionState};
use nuncio_engine::EngineError;
use serde_json::{Map, Value, json};

use crate::wire::{ErrorResponse, ExecutionError, RetryAdvice, SkillErrorCode};

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
        ErrorCode::QuotaExceeded => 503,
        code => nuncio_http::status(code).as_u16(),
    };
    let code = of_status(status);
    let response = ErrorResponse::new(code, error.message.clone()).with_details(json!({"reason": error.code}));
    let response = match code {
        SkillErrorCode::EndpointUnreachable => response.with_retry(RETRY_MS, RETRY_ATTEMPTS),
        _ => response,
    };
    (status, response)
}

/// Error code of the protocol for an HTTP status (§8.1; other statuses by Nuncio's own choice).
fn of_status(status: u16) -> SkillErrorCode {
    match status {
        401 => SkillErrorCode::AuthRequired,
        403 => SkillErrorCode::PermissionDenied,
        404 => SkillErrorCode::SkillNotFound,
        408 => SkillErrorCode::InvocationTimeout,
        429 | 500.. => SkillErrorCode::EndpointUnreachable,
        _ => SkillErrorCode::ValidationError,
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
        _ if timed_out => SkillErrorCode::InvocationTimeout.as_str(),
        ErrorCode::ScopeNotGranted | ErrorCode::Denied | ErrorCode::ApprovalExpired | ErrorCode::ApprovalClosed => {
            SkillErrorCode::PermissionDenied.as_str()
        }
        ErrorCode::ToolUnavailable | ErrorCode::ToolBusy => SkillErrorCode::EndpointUnreachable.as_str(),
        ErrorCode::SkillNotFound | ErrorCode::ToolNotFound => SkillErrorCode::SkillNotFound.as_str(),
        ErrorCode::InvalidArguments => SkillErrorCode::ValidationError.as_str(),
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
    let retryable = timed_out || code_text == SkillErrorCode::EndpointUnreachable.as_str();
    Some(ExecutionError {
        code: code_text.to_owned(),
        message,
        details: Some(Value::Object(details)),
        retry: retryable.then(|| RetryAdvice::new(RETRY_MS, RETRY_ATTEMPTS)),
        extra: Map::new(),
    })
}
