//! Failures of calls: refusals, cancellations, and their texts in the history of a conversation. Brains read these texts
//! whatever the protocol; apps read them over AAP, which prescribes the text of a denial.

use nuncio_core::ErrorCode;
use nuncio_core::audit::references::ApprovalReference;
use nuncio_core::execution::ExecutionFailure;

/// Text for a call that was running when the server process ended.
pub(crate) const INTERRUPTED_RESULT: &str =
    "Tool execution failed: the server stopped while it ran; it may or may not have had an effect";
/// Text for a call that was announced but not started before the server process ended.
pub(crate) const NOT_RUN: &str = "Tool call not run: the server stopped before it began";

#[derive(Debug)]
pub(crate) struct CallRefusal {
    /// Principal that refused the call, or `policy`, for the audit record.
    pub(crate) by: String,
    pub(crate) failure: ExecutionFailure,
    /// Reference to the approval that was denied or expired, for the audit record.
    pub(crate) approval: Option<ApprovalReference>,
}

impl CallRefusal {
    pub(crate) fn new(by: impl Into<String>, failure: ExecutionFailure) -> Self {
        Self { by: by.into(), failure, approval: None }
    }
}

pub(crate) fn denial(reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.is_empty() => format!("Tool call denied: {reason}"),
        _ => "Tool call denied".to_owned(),
    }
}

pub(crate) fn failure_text(message: &str) -> String {
    format!("Tool execution failed: {message}")
}

pub(crate) fn cancelled() -> ExecutionFailure {
    let message = "it was cancelled and may or may not have had an effect".to_owned();
    ExecutionFailure { code: ErrorCode::Cancelled, message }
}

pub(crate) fn cancelled_unbegun() -> ExecutionFailure {
    ExecutionFailure { code: ErrorCode::Cancelled, message: "it was cancelled before it began".to_owned() }
}
