//! Builders of scripts for the script brain and of AAP messages.

use serde_json::{Value, json};

/// Items of one step of a script for the script brain.
pub(super) type BrainScriptStep = Vec<Value>;

/// Script item that outputs a text word by word.
pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "text": text.into() })
}

/// Script item that outputs thinking word by word.
pub(super) fn thinking(text: &str) -> Value {
    json!({ "thinking": text })
}

/// Script item that outputs `delta` `count` times.
pub(super) fn deltas(count: usize, delta: &str) -> Value {
    json!({ "deltas": count, "delta": delta })
}

/// Script item that calls a tool under this call id.
#[expect(clippy::needless_pass_by_value, reason = "callers write the input in place")]
pub(super) fn call(name: &str, input: Value, id: &str) -> Value {
    json!({ "tool": { "name": name, "input": input, "id": id } })
}

/// Script item that outputs `results`, `tools` or `roles` as a JSON array.
pub(super) fn echo(what: &str) -> Value {
    json!({ "echo": what })
}

/// Script item that waits so many milliseconds.
pub(super) fn sleep(milliseconds: u32) -> Value {
    json!({ "sleep": milliseconds })
}

/// Script item that ends the step with this reason.
pub(super) fn stop(reason: &str) -> Value {
    json!({ "stop": reason })
}

/// Script item that fails the step.
pub(super) fn throw(message: &str) -> Value {
    json!({ "throw": message })
}

/// Script item that calls `add` with two numbers whose sum appears nowhere else.
pub(super) fn add(id: &str) -> Value {
    call("add", json!({ "a": 1200, "b": 34 }), id)
}

/// Result of the script item [`add`].
pub(super) const SUM: &str = "1234";

/// Script item that calls `lookup`.
pub(super) fn lookup(key: &str, id: &str) -> Value {
    call("lookup", json!({ "key": key }), id)
}

/// Message text that makes the script brain play these steps.
pub(super) fn script(steps: &[BrainScriptStep]) -> String {
    json!({ "script": steps }).to_string()
}

/// User message that makes the script brain play these steps.
pub(super) fn play(steps: &[BrainScriptStep]) -> Value {
    user(&script(steps))
}

pub(super) fn user(content: &str) -> Value {
    json!({ "role": "user", "content": content })
}

/// Message with the result of a client tool.
pub(super) fn result(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "toolCallId": id, "content": content })
}

/// Message that permits a server tool.
pub(super) fn grant(id: &str) -> Value {
    json!({ "role": "tool_permission", "toolCallId": id, "granted": true })
}

/// Message that denies a server tool.
pub(super) fn deny(id: &str, reason: Option<&str>) -> Value {
    let mut message = json!({ "role": "tool_permission", "toolCallId": id, "granted": false });
    if let Some(reason) = reason {
        message["reason"] = reason.into();
    }
    message
}

pub(super) fn client_tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Picks something",
        "parameters": { "type": "object", "properties": { "from": { "type": "string" } } },
    })
}

/// Script item that calls the client tool `pick`.
pub(super) fn pick(id: &str) -> Value {
    call("pick", json!({ "from": "a hat" }), id)
}

/// Text of a message's content, which is a string or a list of blocks.
pub(super) fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}
