//! What both interfaces have in common: what is asked, and what is heard.

use nuncio_core::agent::Provider;
use nuncio_core::turn::{StopReason, Usage};
use serde_json::Value;

use super::calls::Called;
use crate::runners::process::printable;

/// How much of what a server says about an error is repeated.
const MAX_SAID: usize = 500;

/// What is asked of a model in one step, beside the conversation.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) provider: Provider,
    /// Whether it is at the provider's own address.
    pub(super) at_home: bool,
    pub(super) model: &'a str,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u64>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Heard {
    Text(String),
    Thinking(String),
    /// Of the thought before, to go back with it.
    Signature(String),
}

/// How an answer ended.
#[derive(Debug, PartialEq)]
pub(super) struct Finish {
    pub(super) calls: Vec<Called>,
    pub(super) stop: StopReason,
    pub(super) usage: Option<Usage>,
}

/// An answer as it arrives, event by event.
pub(super) trait Reading: Send {
    /// Takes in the next event.
    fn event(&mut self, data: &str, heard: &mut Vec<Heard>) -> Result<(), Stumble>;

    /// Whether the server has said that nothing more comes.
    fn is_done(&self) -> bool;

    /// How it ended; none if it broke off.
    fn finish(self: Box<Self>) -> Option<Finish>;
}

/// Why an answer cannot be read on.
#[derive(Debug, PartialEq)]
pub(super) enum Stumble {
    /// The server said that something went wrong.
    Said(String),
    /// It sent what is no event of the interface.
    Unreadable(String),
    /// It wants more than it may.
    TooMuch(String),
}

impl Stumble {
    pub(super) fn unreadable(data: &str) -> Self {
        Self::Unreadable(short(data))
    }
}

/// What the body of an error says, in whichever form it says it.
pub(super) fn say_error(body: &Value) -> String {
    match body {
        Value::String(text) => short(text),
        Value::Array(list) => list.first().map(say_error).unwrap_or_default(),
        Value::Object(object) => {
            let inner =
                ["error", "message", "detail"].iter().find_map(|key| object.get(*key).filter(|it| !it.is_null()));
            match (inner, object.get("type").and_then(Value::as_str)) {
                (Some(Value::String(text)), Some(kind)) if kind != "error" => short(&format!("{kind}: {text}")),
                (Some(inner), _) => say_error(inner),
                (None, _) => short(&body.to_string()),
            }
        }
        other => short(&other.to_string()),
    }
}

/// As much of a text as is repeated.
pub(super) fn short(text: &str) -> String {
    let text = printable(text.trim());
    match text.char_indices().nth(MAX_SAID) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_are_understood_in_every_form() {
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
            assert_eq!(say_error(&body), said);
        }
        assert_eq!(short(&"x".repeat(1000)).chars().count(), 501);
    }
}
