//! Anthropic messages API.
//!
//! Requests: <https://docs.anthropic.com/en/api/messages>, events:
//! <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use nuncio_core::turn::{StopReason, TokenUsage};
use nuncio_engine::ports::brain::OfferedTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::{ToolCallAssembler, ToolCallFragment};
use super::conversation::{AssistantMessage, MessagePart, ModelConversation, ModelTurn};
use super::names::parameters;
use super::parser::{
    ModelAnswerDelta, ModelAnswerEnd, ModelAnswerStreamError, ModelRequestParameters, StreamedAnswerParser,
    error_message,
};

/// Value of the header `anthropic-version`.
pub(super) const VERSION: &str = "2023-06-01";
/// Default of the required field `max_tokens`.
const MAX_TOKENS: u64 = 8192;

/// Builds the body of a Messages API request.
pub(super) fn request(ask: &ModelRequestParameters<'_>, conversation: &ModelConversation) -> Value {
    let mut body = json!({
        "model": ask.model,
        "max_tokens": ask.max_tokens.unwrap_or(MAX_TOKENS),
        "messages": messages(conversation),
        "stream": true,
    });
    if !conversation.system.is_empty() {
        body["system"] = conversation.system.as_str().into();
    }
    if let Some(temperature) = ask.temperature {
        body["temperature"] = json!(temperature);
    }
    if !ask.tools.is_empty() {
        let tool = |tool: &OfferedTool| {
            json!({
                "name": ask.names.wire_name(&tool.name),
                "description": tool.description,
                "input_schema": parameters(tool),
            })
        };
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    body
}

/// Alternating user and assistant messages, starting with the user. Tool results are part of the user message and come
/// first.
fn messages(conversation: &ModelConversation) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for turn in &conversation.turns {
        let (role, blocks) = match turn {
            ModelTurn::User(parts) => ("user", parts.iter().map(block).collect()),
            ModelTurn::AssistantMessage(answer) => ("assistant", self::answer(answer)),
            ModelTurn::Results(results) => {
                let result = |result: &super::conversation::ToolResult| {
                    let content: Vec<Value> = result.parts.iter().map(block).collect();
                    json!({"type": "tool_result", "tool_use_id": result.id, "content": content})
                };
                ("user", results.iter().map(result).collect())
            }
        };
        match messages.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            None if role != "user" => {
                messages.push(("user", vec![json!({"type": "text", "text": "…"})]));
                messages.push((role, blocks));
            }
            _ => messages.push((role, blocks)),
        }
    }
    messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn answer(answer: &AssistantMessage) -> Vec<Value> {
    // Only signed thinking blocks are sent back; the API refuses others.
    let signed = answer.thoughts.iter().filter_map(|thought| {
        let signature = thought.signature.as_ref()?;
        Some(json!({"type": "thinking", "thinking": thought.text, "signature": signature}))
    });
    let text = answer.text.trim_end();
    let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    let calls = answer
        .calls
        .iter()
        .map(|call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}));
    signed.chain(text).chain(calls).collect()
}

fn block(part: &MessagePart) -> Value {
    match part {
        MessagePart::Text(text) => json!({"type": "text", "text": text}),
        MessagePart::Image(url) => match url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")) {
            None => json!({"type": "image", "source": {"type": "url", "url": url}}),
            Some(_) => {
                match url[5..].split_once(',').and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data))) {
                    Some((media_type, data)) => {
                        json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
                    }
                    None => json!({"type": "text", "text": "[an image that cannot be shown]"}),
                }
            }
        },
    }
}

/// Parser of a streamed answer of the Messages API.
#[derive(Debug, Default)]
pub(super) struct AnthropicParser {
    calls: ToolCallAssembler,
    stop: Option<StopReason>,
    usage: Option<TokenUsage>,
    done: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicEvent {
    MessageStart {
        message: MessageStart,
    },
    ContentBlockStart {
        index: u64,
        content_block: ContentBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: ContentDelta,
    },
    MessageDelta {
        delta: MessageEnd,
        usage: Option<AnthropicUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    /// Ignored events: `ping`, `content_block_stop` and unknown ones.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageStart {
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock {
    Text {
        text: Option<String>,
    },
    Thinking {
        thinking: Option<String>,
    },
    ToolUse {
        id: Option<String>,
        name: Option<String>,
        input: Option<Map<String, Value>>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum ContentDelta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageEnd {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl StreamedAnswerParser for AnthropicParser {
    fn event(&mut self, data: &str, deltas: &mut Vec<ModelAnswerDelta>) -> Result<(), ModelAnswerStreamError> {
        match serde_json::from_str(data).map_err(|_| ModelAnswerStreamError::unreadable(data))? {
            AnthropicEvent::MessageStart { message } => self.count(message.usage),
            AnthropicEvent::ContentBlockStart { index, content_block } => match content_block {
                ContentBlock::Text { text } => deltas.extend(text.map(ModelAnswerDelta::Text)),
                ContentBlock::Thinking { thinking } => deltas.extend(thinking.map(ModelAnswerDelta::Thinking)),
                ContentBlock::ToolUse { id, name, input } => {
                    self.call(ToolCallFragment {
                        index: Some(index),
                        id,
                        name,
                        whole: input,
                        ..ToolCallFragment::default()
                    })?;
                }
                ContentBlock::Other => {}
            },
            AnthropicEvent::ContentBlockDelta { index, delta } => match delta {
                ContentDelta::Text { text } => deltas.push(ModelAnswerDelta::Text(text)),
                ContentDelta::Thinking { thinking } => deltas.push(ModelAnswerDelta::Thinking(thinking)),
                ContentDelta::Signature { signature } => deltas.push(ModelAnswerDelta::Signature(signature)),
                ContentDelta::Input { partial_json } => {
                    self.call(ToolCallFragment {
                        index: Some(index),
                        arguments: Some(partial_json),
                        ..ToolCallFragment::default()
                    })?;
                }
                ContentDelta::Other => {}
            },
            AnthropicEvent::MessageDelta { delta, usage } => {
                self.count(usage);
                self.stop = delta.stop_reason.as_deref().map(stop).or(self.stop);
            }
            AnthropicEvent::MessageStop => self.done = true,
            AnthropicEvent::Error { error } => return Err(ModelAnswerStreamError::Said(error_message(&error))),
            AnthropicEvent::Other => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(self: Box<Self>) -> Option<ModelAnswerEnd> {
        Some(ModelAnswerEnd { stop: self.stop?, calls: self.calls.finish(), usage: self.usage })
    }
}

impl AnthropicParser {
    fn call(&mut self, fragment: ToolCallFragment) -> Result<(), ModelAnswerStreamError> {
        self.calls.add(fragment).map_err(ModelAnswerStreamError::TooMuch)
    }

    /// Records token usage. The API sends cumulative counts several times, so the largest value is kept.
    fn count(&mut self, count: Option<AnthropicUsage>) {
        let Some(count) = count else { return };
        let usage = self.usage.get_or_insert_default();
        let read = [count.input_tokens, count.cache_creation_input_tokens, count.cache_read_input_tokens];
        usage.input_tokens = usage.input_tokens.max(read.into_iter().flatten().sum());
        usage.output_tokens = usage.output_tokens.max(count.output_tokens.unwrap_or_default());
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        // `end_turn`, `stop_sequence` and unknown reasons.
        _ => StopReason::EndTurn,
    }
}
