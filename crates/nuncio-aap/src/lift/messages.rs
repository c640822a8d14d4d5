//! Parses `HistoryMessage`, `ApplicationMessage` and `ContentBlock`.

use nuncio_core::message::{Block, Content, Message, ToolCall};
use nuncio_core::turn::{CallAnswer, TurnInput};
use nuncio_engine::EngineError;
use serde_json::Value;

use super::shape::{JsonLocation, JsonObjectReader, list};

/// Parses a message of the initial history.
pub(super) fn history(at: &JsonLocation, value: Value) -> Result<Message, EngineError> {
    let mut fields = JsonObjectReader::of(at.clone(), value)?;
    let role = fields.required_text("role")?;
    match role.as_str() {
        "system" => Ok(Message::System { content: fields.required_text("content")?, extra: fields.rest() }),
        "user" => Ok(Message::User { content: content(&mut fields)?, extra: fields.rest() }),
        "assistant" => Ok(Message::Assistant { content: content(&mut fields)?, extra: fields.rest() }),
        "tool" => Ok(Message::Tool {
            tool_call_id: fields.required_name("toolCallId")?,
            content: content(&mut fields)?,
            extra: fields.rest(),
        }),
        other => Err(fields
            .at("role")
            .wrong(&format!("expected \"system\", \"user\", \"assistant\" or \"tool\", found {other:?}"))),
    }
}

/// Parses the input of a turn: one user message, or answers to tool calls.
pub(super) fn turn_input(at: &JsonLocation, items: Vec<(JsonLocation, Value)>) -> Result<TurnInput, EngineError> {
    let mut users = Vec::new();
    let mut answers = Vec::new();
    for (at, value) in items {
        let mut fields = JsonObjectReader::of(at, value)?;
        let role = fields.required_text("role")?;
        match role.as_str() {
            "user" => users.push(Message::User { content: content(&mut fields)?, extra: fields.rest() }),
            "tool" => answers.push(CallAnswer::Result {
                call: fields.required_name("toolCallId")?,
                content: content(&mut fields)?,
                extra: fields.rest(),
            }),
            "tool_permission" => answers.push(CallAnswer::Permission {
                call: fields.required_name("toolCallId")?,
                granted: fields.required_bool("granted")?,
                reason: fields.optional_text("reason")?,
            }),
            other => {
                let what = format!("expected \"user\", \"tool\" or \"tool_permission\", found {other:?}");
                return Err(fields.at("role").wrong(&what));
            }
        }
    }
    match (users.pop(), users.is_empty(), answers.is_empty()) {
        (Some(user), true, true) => Ok(TurnInput::User(user)),
        (None, _, false) => Ok(TurnInput::Answers(answers)),
        (None, _, true) => Err(at.wrong("it is empty; send one user message, or answers to the waiting tool calls")),
        (Some(_), false, true) => Err(at.wrong("it contains several user messages; send one per turn")),
        (Some(_), _, false) => Err(at.wrong("a turn cannot contain both a user message and answers to tool calls")),
    }
}

fn content(fields: &mut JsonObjectReader) -> Result<Content, EngineError> {
    let at = fields.at("content");
    match fields.required_value("content")? {
        Value::String(text) => Ok(Content::Text(text)),
        value @ Value::Array(_) => {
            let blocks = list(&at, value)?.into_iter().map(|(at, value)| block(at, value));
            Ok(Content::Blocks(blocks.collect::<Result<_, _>>()?))
        }
        _ => Err(at.wrong("expected a text or a list of blocks")),
    }
}

fn block(at: JsonLocation, value: Value) -> Result<Block, EngineError> {
    let mut fields = JsonObjectReader::of(at, value)?;
    let kind = fields.required_text("type")?;
    match kind.as_str() {
        "text" => Ok(Block::Text { text: fields.required_text("text")?, extra: fields.rest() }),
        "thinking" => Ok(Block::Thinking { thinking: fields.required_text("thinking")?, extra: fields.rest() }),
        "image" => Ok(Block::Image { url: fields.required_text("url")?, extra: fields.rest() }),
        "tool_use" => {
            let call = ToolCall {
                id: fields.required_name("toolCallId")?,
                name: fields.required_name("name")?,
                input: fields.required_object("input")?.rest(),
            };
            Ok(Block::ToolUse { call, extra: fields.rest() })
        }
        other => Err(fields
            .at("type")
            .wrong(&format!("expected \"text\", \"thinking\", \"tool_use\" or \"image\", found {other:?}"))),
    }
}
