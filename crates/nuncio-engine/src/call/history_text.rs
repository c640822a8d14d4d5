//! Texts in the history of a conversation about calls without a result. Brains read them whatever the protocol; apps
//! read them over AAP, which prescribes the text of a denial.

/// Text for a call that was running when the server process ended.
pub(crate) const INTERRUPTED_RESULT: &str =
    "Tool execution failed: the server stopped while it ran; it may or may not have had an effect";
/// Text for a call that was announced but not started before the server process ended.
pub(crate) const NOT_RUN: &str = "Tool call not run: the server stopped before it began";

#[must_use]
pub fn denial(reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.is_empty() => format!("Tool call denied: {reason}"),
        _ => "Tool call denied".to_owned(),
    }
}

pub(super) fn failure(message: &str) -> String {
    format!("Tool execution failed: {message}")
}
