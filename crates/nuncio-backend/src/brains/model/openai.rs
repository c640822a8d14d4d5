//! The OpenAI chat completions interface, as OpenAI and those who copy it speak it.
//!
//! <https://platform.openai.com/docs/api-reference/chat>; Gemini's, Ollama's, DeepSeek's and Mistral's
//! own pages say where they differ.

use nuncio_core::agent::Provider;
use nuncio_core::message::Extra;
use nuncio_core::turn::{StopReason, Usage};
use nuncio_engine::ports::brain::OfferedTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::{Calls, Fragment};
use super::conversation::{Answer, Conversation, Part, ToolResult, Turn};
use super::names::{ToolNames, parameters};
use super::reading::{Ask, Finish, Heard, Reading, Stumble, say_error};

/// What Gemini wants back with a call: the signature of the thought that led to it.
const EXTRA_CONTENT: &str = "extra_content";

/// The body of the request.
pub(super) fn request(ask: &Ask<'_>, conversation: &Conversation, tools: &[OfferedTool], names: &ToolNames) -> Value {
    let mut body = json!({
        "model": ask.model,
        "messages": messages(ask.provider, conversation),
        "stream": true,
    });
    if ask.provider != Provider::Mistral {
        // Mistral counts anyway, and takes no key it does not know.
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(temperature) = ask.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(max_tokens) = ask.max_tokens {
        // OpenAI's newer models refuse the old name, the servers of others do not know the new one.
        let key = if ask.provider == Provider::OpenAi && ask.at_home { "max_completion_tokens" } else { "max_tokens" };
        body[key] = json!(max_tokens);
    }
    if !tools.is_empty() {
        let tool = |tool: &OfferedTool| {
            json!({"type": "function", "function": {
                "name": names.theirs(&tool.name),
                "description": tool.description,
                "parameters": parameters(tool),
            }})
        };
        body["tools"] = tools.iter().map(tool).collect();
    }
    body
}

fn messages(provider: Provider, conversation: &Conversation) -> Vec<Value> {
    let mut messages = Vec::new();
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": conversation.system}));
    }
    for turn in &conversation.turns {
        match turn {
            Turn::User(parts) => messages.push(json!({"role": "user", "content": content(parts)})),
            Turn::Answer(answer) => messages.push(self::answer(provider, answer)),
            Turn::Results(results) => messages.extend(self::results(results)),
        }
    }
    messages
}

fn answer(provider: Provider, answer: &Answer) -> Value {
    let text = if answer.text.trim().is_empty() { Value::Null } else { Value::from(answer.text.as_str()) };
    let mut message = json!({"role": "assistant", "content": text});
    if answer.calls.is_empty() {
        return message;
    }
    if provider == Provider::DeepSeek {
        // It wants the thinking that led to a call back, even if there was none.
        message["reasoning_content"] =
            answer.thoughts.iter().map(|thought| thought.text.as_str()).collect::<String>().into();
    }
    let calls = answer.calls.iter().map(|call| {
        let arguments = Value::Object(call.input.clone()).to_string();
        let mut wire =
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}});
        if provider == Provider::Gemini
            && let Some(extra) = call.extra.get(EXTRA_CONTENT)
        {
            wire[EXTRA_CONTENT] = extra.clone();
        }
        wire
    });
    message["tool_calls"] = calls.collect();
    message
}

/// A tool's message is text alone: pictures follow from the user, when all results are in.
fn results(results: &[ToolResult]) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut pictures = Vec::new();
    for result in results {
        let mut text = String::new();
        for part in &result.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Image(url) => pictures.push(image(url)),
            }
        }
        messages.push(json!({"role": "tool", "tool_call_id": result.id, "content": text}));
    }
    if !pictures.is_empty() {
        pictures.insert(0, json!({"type": "text", "text": "The pictures among these results:"}));
        messages.push(json!({"role": "user", "content": pictures}));
    }
    messages
}

fn content(parts: &[Part]) -> Value {
    if let [Part::Text(text)] = parts {
        return Value::from(text.as_str());
    }
    let part = |part: &Part| match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image(url) => image(url),
    };
    parts.iter().map(part).collect()
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// An answer as it arrives.
#[derive(Debug, Default)]
pub(super) struct OpenAiReading {
    calls: Calls,
    stop: Option<StopReason>,
    refused: bool,
    usage: Option<Usage>,
    done: bool,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Count>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    /// A text; from Mistral also a list of pieces.
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
    /// A piece of text; from some servers the object itself.
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Count {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl Reading for OpenAiReading {
    fn event(&mut self, data: &str, heard: &mut Vec<Heard>) -> Result<(), Stumble> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| Stumble::unreadable(data))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Stumble::Said(say_error(&error)));
        }
        if let Some(count) = chunk.usage {
            let of = |count: Option<u64>| count.unwrap_or_default();
            self.usage =
                Some(Usage { input_tokens: of(count.prompt_tokens), output_tokens: of(count.completion_tokens) });
        }
        // One answer is asked for.
        let choices = chunk.choices.unwrap_or_default();
        for choice in choices.into_iter().filter(|choice| choice.index.unwrap_or_default() == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, heard)?;
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

    fn finish(self: Box<Self>) -> Option<Finish> {
        let wants_tools = !self.calls.is_empty();
        let stop = match self.stop {
            _ if self.refused => StopReason::Refusal,
            Some(StopReason::EndTurn) if wants_tools => StopReason::ToolUse,
            Some(stop) => stop,
            // Some say that it is over, and not why.
            None if self.done && wants_tools => StopReason::ToolUse,
            None => return None,
        };
        Some(Finish { calls: self.calls.finish(), stop, usage: self.usage })
    }
}

impl OpenAiReading {
    fn delta(&mut self, delta: Delta, heard: &mut Vec<Heard>) -> Result<(), Stumble> {
        // Servers that give both names give the same under both.
        let thinking = [delta.reasoning_content, delta.reasoning].into_iter().flatten();
        if let Some(Value::String(thinking)) = thinking.into_iter().find(|thinking| !thinking.is_null()) {
            heard.push(Heard::Thinking(thinking));
        }
        match delta.content {
            Some(Value::String(text)) => heard.push(Heard::Text(text)),
            Some(Value::Array(pieces)) => pieces.into_iter().for_each(|piece| hear_piece(piece, heard)),
            _ => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            heard.push(Heard::Text(refusal));
        }
        for call in delta.tool_calls.into_iter().flatten() {
            let function = call.function.unwrap_or(FunctionDelta { name: None, arguments: None });
            let (arguments, whole) = match function.arguments {
                Some(Value::String(text)) => (Some(text), None),
                Some(Value::Object(whole)) => (None, Some(whole)),
                _ => (None, None),
            };
            let extra = call.extra_content.map(|extra| Map::from_iter([(EXTRA_CONTENT.to_owned(), extra)]));
            let extra: Extra = extra.unwrap_or_default();
            let fragment = Fragment { index: call.index, id: call.id, name: function.name, arguments, whole, extra };
            self.calls.add(fragment).map_err(Stumble::TooMuch)?;
        }
        Ok(())
    }
}

/// Mistral's pieces: `{"type":"text","text":…}` and `{"type":"thinking","thinking":[{"text":…}]}`.
fn hear_piece(mut piece: Value, heard: &mut Vec<Heard>) {
    let mut take = |key: &str| piece.get_mut(key).map(Value::take);
    if let Some(Value::String(text)) = take("text") {
        heard.push(Heard::Text(text));
    }
    match take("thinking") {
        Some(Value::String(text)) => heard.push(Heard::Thinking(text)),
        Some(Value::Array(thoughts)) => {
            let texts = thoughts.into_iter().filter_map(|mut thought| match thought.get_mut("text").map(Value::take) {
                Some(Value::String(text)) => Some(Heard::Thinking(text)),
                _ => None,
            });
            heard.extend(texts);
        }
        _ => {}
    }
}

fn stop(reason: &str) -> Result<StopReason, Stumble> {
    match reason {
        "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
        "length" | "model_length" | "max_tokens" => Ok(StopReason::MaxTokens),
        "content_filter" | "refusal" => Ok(StopReason::Refusal),
        "error" => Err(Stumble::Said("it stopped because of an error of its own".to_owned())),
        // `stop`, and what this version has not heard of.
        _ => Ok(StopReason::EndTurn),
    }
}
