//! Types shared by both API dialects: request parameters, answer parsers and stream errors.

use nuncio_core::agent::ModelProvider;
use nuncio_core::turn::{StopReason, TokenUsage};
use nuncio_engine::ports::brain::OfferedTool;
use serde_json::Value;

use super::calls::CompleteToolCall;
use super::names::ToolNameMapping;
use crate::runners::process::printable;

/// Length limit of a model server's error message, in characters.
const MAX_ERROR_TEXT: usize = 500;

/// Parameters of a model request beside the conversation.
#[derive(Debug)]
pub(super) struct ModelRequestParameters<'a> {
    pub(super) provider: ModelProvider,
    /// Whether the request goes to the provider's default address.
    pub(super) at_home: bool,
    pub(super) model: &'a str,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u64>,
    pub(super) tools: &'a [OfferedTool],
    pub(super) names: &'a ToolNameMapping,
}

/// Streamed part of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelAnswerDelta {
    Text(String),
    Thinking(String),
    /// Signature of the preceding thinking block.
    Signature(String),
}

#[derive(Debug, PartialEq)]
pub(super) struct ModelAnswerEnd {
    pub(super) calls: Vec<CompleteToolCall>,
    pub(super) stop: StopReason,
    pub(super) usage: Option<TokenUsage>,
}

/// Incremental parser of a model's streamed answer.
pub(super) trait StreamedAnswerParser: Send {
    /// Parses the data of the next stream event and appends its content to `deltas`.
    fn event(&mut self, data: &str, deltas: &mut Vec<ModelAnswerDelta>) -> Result<(), ModelAnswerStreamError>;

    /// Whether the server announced the end of the answer.
    fn is_done(&self) -> bool;

    /// End of the model's answer; `None` if the answer is incomplete.
    fn finish(self: Box<Self>) -> Option<ModelAnswerEnd>;
}

/// Error in a model's streamed answer.
#[derive(Debug, PartialEq)]
pub(super) enum ModelAnswerStreamError {
    /// The server sent an error event.
    Said(String),
    /// The server sent data that is not an event of its API.
    Unreadable(String),
    /// The model's answer exceeds a limit.
    TooMuch(String),
}

impl ModelAnswerStreamError {
    pub(super) fn unreadable(data: &str) -> Self {
        Self::Unreadable(short(data))
    }
}

/// Finds the error message in a JSON error body of any known provider.
pub(super) fn error_message(body: &Value) -> String {
    match body {
        Value::String(text) => short(text),
        Value::Array(list) => list.first().map(error_message).unwrap_or_default(),
        Value::Object(object) => {
            let inner =
                ["error", "message", "detail"].iter().find_map(|key| object.get(*key).filter(|it| !it.is_null()));
            match (inner, object.get("type").and_then(Value::as_str)) {
                (Some(Value::String(text)), Some(kind)) if kind != "error" => short(&format!("{kind}: {text}")),
                (Some(inner), _) => error_message(inner),
                (None, _) => short(&body.to_string()),
            }
        }
        other => short(&other.to_string()),
    }
}

/// Removes control characters and shortens the text to [`MAX_ERROR_TEXT`] characters.
pub(super) fn short(text: &str) -> String {
    let text = printable(text.trim());
    match text.char_indices().nth(MAX_ERROR_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn error_message_is_found_in_every_known_body_form() {
        for (body, said) in [
            (json!({"error": {"message": "slow down", "type": "rate_limit"}}), "rate_limit: slow down"),
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
                "overloaded_error: busy",
            ),
            (json!([{"error": {"code": 400, "message": "bad key", "status": "INVALID"}}]), "bad key"),
            (json!({"error": "model not found"}), "model not found"),
            (json!({"detail": [{"msg": "field"}]}), r#"{"msg":"field"}"#),
            (json!({"x": 1}), r#"{"x":1}"#),
            (json!("no\u{1b}[31m"), "no[31m"),
        ] {
            assert_eq!(error_message(&body), said);
        }
        assert_eq!(short(&"x".repeat(1000)).chars().count(), 501);
    }
}
