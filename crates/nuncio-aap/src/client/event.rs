//! The events of a turn, by AAP's names. Unknown events, and unknown fields of known ones, do no harm.

use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, ToolCall};
use nuncio_core::turn::{StopReason, Usage};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Something that happened in a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    /// `turn_start`
    TurnStart,
    /// `text_delta`: a piece of text.
    TextDelta(String),
    /// `thinking_delta`: a piece of thinking.
    ThinkingDelta(String),
    /// `text`: a whole block of text.
    Text(String),
    /// `thinking`: a whole block of thinking.
    Thinking(String),
    /// `tool_call`: the agent wants a tool run.
    ToolCall(ToolCall),
    /// `tool_result`: a tool of the agent's has answered.
    ToolResult {
        /// The call.
        call: CallId,
        /// The answer.
        content: Content,
    },
    /// `turn_stop`
    TurnStop(TurnStop),
    /// Another event, or one whose data is not what it should be.
    Unknown {
        /// Its name.
        event: String,
        /// Its data as it came.
        data: String,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStop {
    /// Why. A reason we do not know counts as `end_turn`.
    pub reason: StopReason,
    /// What was counted.
    pub usage: Option<Usage>,
    /// What failed.
    pub error: Option<StopError>,
    /// Whether someone stopped it.
    pub cancelled: bool,
}

/// What failed in a turn, as far as the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopError {
    /// Its code.
    pub code: Option<String>,
    /// What was wrong.
    pub message: String,
}

impl TurnStop {
    /// A stop of which nothing but the reason is known.
    #[must_use]
    pub fn because(reason: StopReason) -> Self {
        Self { reason, usage: None, error: None, cancelled: false }
    }

    /// From `turn_stop`'s data, or from the answer of a turn that is not streamed.
    pub(super) fn read(data: &Value) -> Option<Self> {
        let word = data["stopReason"].as_str()?;
        let error = match &data["error"] {
            Value::String(message) => Some(StopError { code: None, message: message.clone() }),
            Value::Object(fields) => Some(StopError {
                code: fields.get("code").and_then(Value::as_str).map(str::to_owned),
                message: fields.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            }),
            _ => None,
        };
        Some(Self {
            reason: StopReason::parse(word).unwrap_or(StopReason::EndTurn),
            usage: Usage::deserialize(&data["usage"]).ok(),
            error,
            cancelled: data["cancelled"] == true || matches!(word, "cancelled" | "canceled"),
        })
    }
}

impl TurnEvent {
    /// Reads an event by its name and data.
    #[must_use]
    pub fn read(event: &str, data: &str) -> Self {
        Self::known(event, data).unwrap_or_else(|| Self::Unknown { event: event.to_owned(), data: data.to_owned() })
    }

    fn known(event: &str, data: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Delta {
            delta: String,
        }
        #[derive(Deserialize)]
        struct Text {
            text: String,
        }
        #[derive(Deserialize)]
        struct Thinking {
            thinking: String,
        }
        #[derive(Deserialize)]
        struct Result {
            #[serde(rename = "toolCallId")]
            call: CallId,
            content: Content,
        }
        fn json<T: DeserializeOwned>(data: &str) -> Option<T> {
            serde_json::from_str(data).ok()
        }
        Some(match event {
            "turn_start" => Self::TurnStart,
            "text_delta" => Self::TextDelta(json::<Delta>(data)?.delta),
            "thinking_delta" => Self::ThinkingDelta(json::<Delta>(data)?.delta),
            "text" => Self::Text(json::<Text>(data)?.text),
            "thinking" => Self::Thinking(json::<Thinking>(data)?.thinking),
            "tool_call" => Self::ToolCall(json(data)?),
            "tool_result" => {
                let Result { call, content } = json(data)?;
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
    fn our_own_stop_says_more_than_the_reason() {
        let data = r#"{"stopReason":"error","turnId":"s.1","usage":{"inputTokens":3,"outputTokens":4},"error":{"code":"brain_failed","message":"no"},"future":1}"#;
        let TurnEvent::TurnStop(stop) = TurnEvent::read("turn_stop", data) else { panic!() };
        assert_eq!(stop.reason, StopReason::Error);
        assert_eq!(stop.usage, Some(Usage { input_tokens: 3, output_tokens: 4 }));
        assert_eq!(stop.error.unwrap().code.as_deref(), Some("brain_failed"));
    }

    #[test]
    fn a_reason_nobody_knows_is_an_end() {
        let TurnEvent::TurnStop(stop) = TurnEvent::read("turn_stop", r#"{"stopReason":"cancelled"}"#) else { panic!() };
        assert_eq!((stop.reason, stop.cancelled), (StopReason::EndTurn, true));
    }

    #[test]
    fn what_cannot_be_read_is_passed_on_as_it_came() {
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
