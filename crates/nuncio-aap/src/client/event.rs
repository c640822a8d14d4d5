//! Turn events by their AAP names. Unknown events and unknown fields are tolerated.

use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, ToolCall};
use nuncio_core::turn::{StopReason, TokenUsage};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    TurnStart,
    /// `text_delta`: part of a text block.
    TextDelta(String),
    /// `thinking_delta`: part of a thinking block.
    ThinkingDelta(String),
    /// `text`: a complete text block.
    Text(String),
    /// `thinking`: a complete thinking block.
    Thinking(String),
    /// `tool_call`: the agent calls a tool.
    ToolCall(ToolCall),
    /// `tool_result`: a tool of the agent returned.
    ToolResult {
        call: CallId,
        content: Content,
    },
    TurnStop(TurnStop),
    /// Unknown event, or one with malformed data.
    Unknown {
        event: String,
        /// Data of the unknown event, unparsed.
        data: String,
    },
}

/// Data of a `turn_stop` event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStop {
    /// Stop reason; an unknown one counts as `end_turn`.
    pub reason: StopReason,
    pub usage: Option<TokenUsage>,
    pub error: Option<TurnStopError>,
    pub cancelled: bool,
}

/// Error that ended a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStopError {
    pub code: Option<String>,
    pub message: String,
}

impl TurnStop {
    #[must_use]
    pub fn because(reason: StopReason) -> Self {
        Self { reason, usage: None, error: None, cancelled: false }
    }

    /// Parses the data of `turn_stop`, or the response of a turn without streaming.
    pub(super) fn read(data: &Value) -> Option<Self> {
        let reason_text = data["stopReason"].as_str()?;
        let error = match &data["error"] {
            Value::String(message) => Some(TurnStopError { code: None, message: message.clone() }),
            Value::Object(fields) => Some(TurnStopError {
                code: fields.get("code").and_then(Value::as_str).map(str::to_owned),
                message: fields.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            }),
            _ => None,
        };
        Some(Self {
            reason: StopReason::parse(reason_text).unwrap_or(StopReason::EndTurn),
            usage: TokenUsage::deserialize(&data["usage"]).ok(),
            error,
            cancelled: data["cancelled"] == true || matches!(reason_text, "cancelled" | "canceled"),
        })
    }
}

impl TurnEvent {
    /// Parses an event from its name and data; unknown or malformed events become [`TurnEvent::Unknown`].
    #[must_use]
    pub fn read(event: &str, data: &str) -> Self {
        Self::known(event, data).unwrap_or_else(|| Self::Unknown { event: event.to_owned(), data: data.to_owned() })
    }

    fn known(event: &str, data: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct ToolResultEventData {
            #[serde(rename = "toolCallId")]
            call: CallId,
            content: Content,
        }
        fn json<T: DeserializeOwned>(data: &str) -> Option<T> {
            serde_json::from_str(data).ok()
        }
        let text = |key: &str| json::<Value>(data)?.get(key)?.as_str().map(str::to_owned);
        Some(match event {
            "turn_start" => Self::TurnStart,
            "text_delta" => Self::TextDelta(text("delta")?),
            "thinking_delta" => Self::ThinkingDelta(text("delta")?),
            "text" => Self::Text(text("text")?),
            "thinking" => Self::Thinking(text("thinking")?),
            "tool_call" => Self::ToolCall(json(data)?),
            "tool_result" => {
                let ToolResultEventData { call, content } = json(data)?;
                Self::ToolResult { call, content }
            }
            "turn_stop" => Self::TurnStop(TurnStop::read(&json(data)?)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_stop_reason_usage_and_error_code_are_parsed() {
        let data = r#"{"stopReason":"error","turnId":"s.1","usage":{"inputTokens":3,"outputTokens":4},"error":{"code":"brain_failed","message":"no"},"future":1}"#;
        let TurnEvent::TurnStop(stop) = TurnEvent::read("turn_stop", data) else { panic!() };
        assert_eq!(stop.reason, StopReason::Error);
        assert_eq!(stop.usage, Some(TokenUsage { input_tokens: 3, output_tokens: 4 }));
        assert_eq!(stop.error.unwrap().code.as_deref(), Some("brain_failed"));
    }

    #[test]
    fn stop_reason_cancelled_is_parsed_as_cancelled_end_turn() {
        let TurnEvent::TurnStop(stop) = TurnEvent::read("turn_stop", r#"{"stopReason":"cancelled"}"#) else { panic!() };
        assert_eq!((stop.reason, stop.cancelled), (StopReason::EndTurn, true));
    }

    #[test]
    fn unknown_stop_reason_is_parsed_as_end_turn_that_was_not_cancelled() {
        let TurnEvent::TurnStop(stop) = TurnEvent::read("turn_stop", r#"{"stopReason":"pause_turn"}"#) else {
            panic!()
        };
        assert_eq!(stop, TurnStop::because(StopReason::EndTurn));
    }

    #[test]
    fn unknown_event_or_malformed_data_yields_unknown_event_with_raw_data() {
        for (event, data) in [
            ("weather", "{}"),
            ("text_delta", "plain"),
            ("text_delta", ""),
            ("tool_call", r#"{"name":"x"}"#),
            ("turn_stop", "[]"),
        ] {
            assert_eq!(
                TurnEvent::read(event, data),
                TurnEvent::Unknown { event: event.to_owned(), data: data.to_owned() }
            );
        }
    }
}
