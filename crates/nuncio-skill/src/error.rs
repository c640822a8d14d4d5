//! Errors in the protocol's one format: which of the seven a stable code is, and with which status.

use nuncio_core::Code;
use nuncio_core::execution::{Execution, Failure, State};
use nuncio_engine::EngineError;
use serde_json::{Map, Value, json};

use crate::wire::{ErrorCode, ErrorResponse, ExecutionError, RetryAdvice};

/// How long to wait before asking again, where nobody says otherwise.
pub(crate) const RETRY_MS: u64 = 1000;
/// How often to try, where nobody says otherwise.
pub(crate) const RETRY_ATTEMPTS: u64 = 3;

/// Inside a failed execution, the code of a skill that ran and failed.
pub(crate) const EXECUTION_FAILED: &str = "EXECUTION_FAILED";

/// An error of the engine as the protocol says it, with its status.
pub(crate) fn of_engine(error: &EngineError) -> (u16, ErrorResponse) {
    let (status, code) = classify(error.code);
    let response = ErrorResponse::new(code, error.message.clone()).with_details(json!({"reason": error.code}));
    let response = match code {
        ErrorCode::EndpointUnreachable => response.with_retry(RETRY_MS, RETRY_ATTEMPTS),
        _ => response,
    };
    (status, response)
}

fn classify(code: Code) -> (u16, ErrorCode) {
    use ErrorCode::{
        AuthRequired, EndpointUnreachable, InvocationTimeout, PermissionDenied, SkillNotFound, ValidationError,
    };
    match code {
        Code::Unauthorized | Code::SkillAuthRequired => (401, AuthRequired),
        Code::CrossOriginRefused | Code::HostRefused | Code::ScopeNotGranted | Code::Denied => (403, PermissionDenied),
        Code::NotFound | Code::SkillNotFound | Code::ExecutionNotFound | Code::UnknownAgent => (404, SkillNotFound),
        Code::MethodNotAllowed => (405, ValidationError),
        Code::RequestTimeout => (408, InvocationTimeout),
        Code::BodyTooLarge => (413, ValidationError),
        Code::UnsupportedMediaType => (415, ValidationError),
        Code::IdempotencyMismatch => (422, ValidationError),
        Code::RateLimited | Code::QueueFull => (429, EndpointUnreachable),
        Code::ShuttingDown | Code::StoreUnavailable | Code::IssuerUnavailable => (503, EndpointUnreachable),
        Code::Internal => (500, EndpointUnreachable),
        _ => (400, ValidationError),
    }
}

/// Why an execution failed, as the protocol says it; none while it has not.
pub(crate) fn of_execution(execution: &Execution) -> Option<ExecutionError> {
    let (State::Failed { failure } | State::TimedOut { failure }) = &execution.state else { return None };
    let Failure { code, message } = failure;
    let timed_out = matches!(execution.state, State::TimedOut { .. });
    let word = match code {
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
    let message = message.strip_prefix("Tool execution failed: ").unwrap_or(message);
    let message = if timed_out {
        format!("Skill execution timed out after {}ms: {message}", execution.order.timeout_ms)
    } else {
        message.to_owned()
    };
    let again = timed_out || word == ErrorCode::EndpointUnreachable.as_str();
    Some(ExecutionError {
        code: word.to_owned(),
        message,
        details: Some(Value::Object(details)),
        retry: again.then(|| RetryAdvice::new(RETRY_MS, RETRY_ATTEMPTS)),
        extra: Map::new(),
    })
}
