//! The Anthropic messages interface.
//!
//! Requests: <https://docs.anthropic.com/en/api/messages>, events:
//! <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use nuncio_core::turn::{StopReason, Usage};
use nuncio_engine::ports::brain::OfferedTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::{Calls, Fragment};
use super::conversation::{Answer, Conversation, Part, Turn};
use super::names::{ToolNames, parameters};
use super::reading::{Ask, Finish, Heard, Reading, Stumble, say_error};

/// The revision of the interface that is spoken here.
pub(super) const VERSION: &str = "2023-06-01";
/// It must be told how much it may write.
const MAX_TOKENS: u64 = 8192;

/// The body of the request.
pub(super) fn request(ask: &Ask<'_>, conversation: &Conversation, tools: &[OfferedTool], names: &ToolNames) -> Value {
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
    if !tools.is_empty() {
        let tool = |tool: &OfferedTool| {
            json!({
                "name": names.theirs(&tool.name),
                "description": tool.description,
                "input_schema": parameters(tool),
            })
        };
        body["tools"] = tools.iter().map(tool).collect();
    }
    body
}

/// User and assistant by turns, the user first. Results are the user's, before anything else of
/// theirs.
fn messages(conversation: &Conversation) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for turn in &conversation.turns {
        let (role, blocks) = match turn {
            Turn::User(parts) => ("user", parts.iter().map(block).collect()),
            Turn::Answer(answer) => ("assistant", self::answer(answer)),
            Turn::Results(results) => {
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

fn answer(answer: &Answer) -> Vec<Value> {
    // Thoughts go back where they are signed; others it does not take.
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

fn block(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image(url) => match url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")) {
            None => json!({"type": "image", "source": {"type": "url", "url": url}}),
            Some(_) => {
                match url[5..].split_once(',').and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data))) {
                    Some((media_type, data)) => {
                        json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
                    }
                    None => json!({"type": "text", "text": "[a picture that cannot be shown]"}),
                }
            }
        },
    }
}

/// An answer as it arrives.
#[derive(Debug, Default)]
pub(super) struct AnthropicReading {
    calls: Calls,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    done: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Begun,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: Ending,
        usage: Option<Count>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    /// `ping`, `content_block_stop`, and what is new.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Begun {
    usage: Option<Count>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
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
enum Delta {
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
struct Ending {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Count {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Reading for AnthropicReading {
    fn event(&mut self, data: &str, heard: &mut Vec<Heard>) -> Result<(), Stumble> {
        match serde_json::from_str(data).map_err(|_| Stumble::unreadable(data))? {
            Event::MessageStart { message } => self.count(message.usage),
            Event::ContentBlockStart { index, content_block } => match content_block {
                Block::Text { text } => heard.extend(text.map(Heard::Text)),
                Block::Thinking { thinking } => heard.extend(thinking.map(Heard::Thinking)),
                Block::ToolUse { id, name, input } => {
                    self.call(Fragment { index: Some(index), id, name, whole: input, ..Fragment::default() })?;
                }
                Block::Other => {}
            },
            Event::ContentBlockDelta { index, delta } => match delta {
                Delta::Text { text } => heard.push(Heard::Text(text)),
                Delta::Thinking { thinking } => heard.push(Heard::Thinking(thinking)),
                Delta::Signature { signature } => heard.push(Heard::Signature(signature)),
                Delta::Input { partial_json } => {
                    self.call(Fragment { index: Some(index), arguments: Some(partial_json), ..Fragment::default() })?;
                }
                Delta::Other => {}
            },
            Event::MessageDelta { delta, usage } => {
                self.count(usage);
                self.stop = delta.stop_reason.as_deref().map(stop).or(self.stop);
            }
            Event::MessageStop => self.done = true,
            Event::Error { error } => return Err(Stumble::Said(say_error(&error))),
            Event::Other => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(self: Box<Self>) -> Option<Finish> {
        Some(Finish { stop: self.stop?, calls: self.calls.finish(), usage: self.usage })
    }
}

impl AnthropicReading {
    fn call(&mut self, fragment: Fragment) -> Result<(), Stumble> {
        self.calls.add(fragment).map_err(Stumble::TooMuch)
    }

    /// Counts are told more than once, each time what there is so far.
    fn count(&mut self, count: Option<Count>) {
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
        // `end_turn`, `stop_sequence`, and what this version has not heard of.
        _ => StopReason::EndTurn,
    }
}
