//! OpenAI chat completions API and its dialects.
//!
//! <https://platform.openai.com/docs/api-reference/chat>; the documentation of Gemini, Ollama, DeepSeek and Mistral
//! describes their differences.

use nuncio_core::agent::ModelProvider;
use nuncio_core::message::UnknownMessageFields;
use nuncio_core::turn::{StopReason, TokenUsage};
use nuncio_engine::ports::brain::OfferedTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::{ToolCallAssembler, ToolCallFragment};
use super::conversation::{AssistantMessage, MessagePart, ModelConversation, ModelTurn, ToolResult};
use super::names::parameters;
use super::parser::{
    ModelAnswerDelta, ModelAnswerEnd, ModelAnswerStreamError, ModelRequestParameters, StreamedAnswerParser,
    error_message,
};

/// Gemini's field with the thought signature, to be sent back with the call.
const EXTRA_CONTENT: &str = "extra_content";

/// Builds the body of a chat completions request.
pub(super) fn request(ask: &ModelRequestParameters<'_>, conversation: &ModelConversation) -> Value {
    let mut body = json!({
        "model": ask.model,
        "messages": messages(ask.provider, conversation),
        "stream": true,
    });
    if ask.provider != ModelProvider::Mistral {
        // Mistral always reports usage and refuses unknown keys.
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(temperature) = ask.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(max_tokens) = ask.max_tokens {
        // Newer OpenAI models refuse `max_tokens`; other servers do not know `max_completion_tokens`.
        let key =
            if ask.provider == ModelProvider::OpenAi && ask.at_home { "max_completion_tokens" } else { "max_tokens" };
        body[key] = json!(max_tokens);
    }
    if !ask.tools.is_empty() {
        let tool = |tool: &OfferedTool| {
            json!({"type": "function", "function": {
                "name": ask.names.wire_name(&tool.name),
                "description": tool.description,
                "parameters": parameters(tool),
            }})
        };
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    body
}

fn messages(provider: ModelProvider, conversation: &ModelConversation) -> Vec<Value> {
    let mut messages = Vec::new();
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": conversation.system}));
    }
    for turn in &conversation.turns {
        match turn {
            ModelTurn::User(parts) => messages.push(json!({"role": "user", "content": content(parts)})),
            ModelTurn::AssistantMessage(answer) => messages.push(self::answer(provider, answer)),
            ModelTurn::Results(results) => messages.extend(self::results(results)),
        }
    }
    messages
}

fn answer(provider: ModelProvider, answer: &AssistantMessage) -> Value {
    let text = if answer.text.trim().is_empty() { Value::Null } else { Value::from(answer.text.as_str()) };
    let mut message = json!({"role": "assistant", "content": text});
    if answer.calls.is_empty() {
        return message;
    }
    if provider == ModelProvider::DeepSeek {
        // DeepSeek requires the reasoning of a message with calls, even if it is empty.
        message["reasoning_content"] =
            answer.thoughts.iter().map(|thought| thought.text.as_str()).collect::<String>().into();
    }
    let calls = answer.calls.iter().map(|call| {
        let arguments = Value::Object(call.input.clone()).to_string();
        let mut wire =
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}});
        if provider == ModelProvider::Gemini
            && let Some(extra) = call.extra.get(EXTRA_CONTENT)
        {
            wire[EXTRA_CONTENT] = extra.clone();
        }
        wire
    });
    message["tool_calls"] = calls.collect();
    message
}

/// Messages with tool results. Tool messages contain only text; images follow in one user message after all results.
fn results(results: &[ToolResult]) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut pictures = Vec::new();
    for result in results {
        let mut text = String::new();
        for part in &result.parts {
            match part {
                MessagePart::Text(part) => text.push_str(part),
                MessagePart::Image(url) => pictures.push(image(url)),
            }
        }
        messages.push(json!({"role": "tool", "tool_call_id": result.id, "content": text}));
    }
    if !pictures.is_empty() {
        pictures.insert(0, json!({"type": "text", "text": "The images in these results:"}));
        messages.push(json!({"role": "user", "content": pictures}));
    }
    messages
}

fn content(parts: &[MessagePart]) -> Value {
    if let [MessagePart::Text(text)] = parts {
        return Value::from(text.as_str());
    }
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => json!({"type": "text", "text": text}),
        MessagePart::Image(url) => image(url),
    };
    parts.iter().map(part).collect()
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// Parser of a streamed chat completion.
#[derive(Debug, Default)]
pub(super) struct OpenAiParser {
    calls: ToolCallAssembler,
    stop: Option<StopReason>,
    refused: bool,
    usage: Option<TokenUsage>,
    done: bool,
}

#[derive(Deserialize)]
struct OpenAiChunk {
    choices: Option<Vec<ChunkChoice>>,
    usage: Option<OpenAiUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChunkChoice {
    index: Option<u64>,
    delta: Option<ChoiceDelta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChoiceDelta {
    /// Text of the answer; Mistral sends a list of parts instead.
    content: Option<Value>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    extra_content: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    /// Part of the arguments' JSON text; some servers send the whole object instead.
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct OpenAiUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl StreamedAnswerParser for OpenAiParser {
    fn event(&mut self, data: &str, deltas: &mut Vec<ModelAnswerDelta>) -> Result<(), ModelAnswerStreamError> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: OpenAiChunk = serde_json::from_str(data).map_err(|_| ModelAnswerStreamError::unreadable(data))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(ModelAnswerStreamError::Said(error_message(&error)));
        }
        if let Some(count) = chunk.usage {
            let of = |count: Option<u64>| count.unwrap_or_default();
            self.usage =
                Some(TokenUsage { input_tokens: of(count.prompt_tokens), output_tokens: of(count.completion_tokens) });
        }
        // Only one choice was requested.
        let choices = chunk.choices.unwrap_or_default();
        for choice in choices.into_iter().filter(|choice| choice.index.unwrap_or_default() == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, deltas)?;
            }
            if let Some(reason) = choice.finish_reason {
                self.stop = Some(stop(&reason)?);
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(self: Box<Self>) -> Option<ModelAnswerEnd> {
        let wants_tools = !self.calls.is_empty();
        let stop = match self.stop {
            _ if self.refused => StopReason::Refusal,
            Some(StopReason::EndTurn) if wants_tools => StopReason::ToolUse,
            Some(stop) => stop,
            // Some servers end the stream without a finish reason.
            None if self.done && wants_tools => StopReason::ToolUse,
            None => return None,
        };
        Some(ModelAnswerEnd { calls: self.calls.finish(), stop, usage: self.usage })
    }
}

impl OpenAiParser {
    fn delta(&mut self, delta: ChoiceDelta, deltas: &mut Vec<ModelAnswerDelta>) -> Result<(), ModelAnswerStreamError> {
        // Servers that send both field names send the same text in both.
        let thinking = [delta.reasoning_content, delta.reasoning].into_iter().flatten();
        if let Some(Value::String(thinking)) = thinking.into_iter().find(|thinking| !thinking.is_null()) {
            deltas.push(ModelAnswerDelta::Thinking(thinking));
        }
        match delta.content {
            Some(Value::String(text)) => deltas.push(ModelAnswerDelta::Text(text)),
            Some(Value::Array(pieces)) => pieces.into_iter().for_each(|piece| parse_part(piece, deltas)),
            _ => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            deltas.push(ModelAnswerDelta::Text(refusal));
        }
        for call in delta.tool_calls.into_iter().flatten() {
            let function = call.function.unwrap_or(FunctionDelta { name: None, arguments: None });
            let (arguments, whole) = match function.arguments {
                Some(Value::String(text)) => (Some(text), None),
                Some(Value::Object(whole)) => (None, Some(whole)),
                _ => (None, None),
            };
            let extra = call.extra_content.map(|extra| Map::from_iter([(EXTRA_CONTENT.to_owned(), extra)]));
            let extra: UnknownMessageFields = extra.unwrap_or_default();
            let fragment =
                ToolCallFragment { index: call.index, id: call.id, name: function.name, arguments, whole, extra };
            self.calls.add(fragment).map_err(ModelAnswerStreamError::TooMuch)?;
        }
        Ok(())
    }
}

/// Parses a part of Mistral's content: `{"type":"text","text":…}` or `{"type":"thinking","thinking":[{"text":…}]}`.
fn parse_part(mut piece: Value, deltas: &mut Vec<ModelAnswerDelta>) {
    let mut take = |key: &str| piece.get_mut(key).map(Value::take);
    if let Some(Value::String(text)) = take("text") {
        deltas.push(ModelAnswerDelta::Text(text));
    }
    match take("thinking") {
        Some(Value::String(text)) => deltas.push(ModelAnswerDelta::Thinking(text)),
        Some(Value::Array(thoughts)) => {
            let texts = thoughts.into_iter().filter_map(|mut thought| match thought.get_mut("text").map(Value::take) {
                Some(Value::String(text)) => Some(ModelAnswerDelta::Thinking(text)),
                _ => None,
            });
            deltas.extend(texts);
        }
        _ => {}
    }
}

fn stop(reason: &str) -> Result<StopReason, ModelAnswerStreamError> {
    match reason {
        "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
        "length" | "model_length" | "max_tokens" => Ok(StopReason::MaxTokens),
        "content_filter" | "refusal" => Ok(StopReason::Refusal),
        "error" => Err(ModelAnswerStreamError::Said("it stopped because of an internal error".to_owned())),
        // `stop` and unknown reasons.
        _ => Ok(StopReason::EndTurn),
    }
}
