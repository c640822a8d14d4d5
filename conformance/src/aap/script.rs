//! Scripts for the script brain (digest §10), and the messages of the protocol.

use serde_json::{Value, json};

/// What the brain does in one step, item by item.
pub(super) type Step = Vec<Value>;

/// Says a text, word by word.
pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "text": text.into() })
}

/// Thinks a text, word by word.
pub(super) fn thinking(text: &str) -> Value {
    json!({ "thinking": text })
}

/// Says `delta` so many times.
pub(super) fn deltas(count: usize, delta: &str) -> Value {
    json!({ "deltas": count, "delta": delta })
}

/// Calls a tool under an id of our choice.
#[expect(clippy::needless_pass_by_value, reason = "callers write the input in place")]
pub(super) fn call(name: &str, input: Value, id: &str) -> Value {
    json!({ "tool": { "name": name, "input": input, "id": id } })
}

/// Says what it sees: `results`, `tools` or `roles`, as a JSON array.
pub(super) fn echo(what: &str) -> Value {
    json!({ "echo": what })
}

/// Does nothing for so many milliseconds.
pub(super) fn sleep(milliseconds: u32) -> Value {
    json!({ "sleep": milliseconds })
}

/// Stops for this reason.
pub(super) fn stop(reason: &str) -> Value {
    json!({ "stop": reason })
}

/// Fails.
pub(super) fn throw(message: &str) -> Value {
    json!({ "throw": message })
}

/// `add` on two numbers whose sum appears nowhere else.
pub(super) fn add(id: &str) -> Value {
    call("add", json!({ "a": 1200, "b": 34 }), id)
}

/// What [`add`] comes to.
pub(super) const SUM: &str = "1234";

/// `lookup` of a key of our choice.
pub(super) fn lookup(key: &str, id: &str) -> Value {
    call("lookup", json!({ "key": key }), id)
}

/// The text of a script.
pub(super) fn script(steps: &[Step]) -> String {
    json!({ "script": steps }).to_string()
}

/// The user message that plays a script.
pub(super) fn play(steps: &[Step]) -> Value {
    user(&script(steps))
}

/// A user message.
pub(super) fn user(content: &str) -> Value {
    json!({ "role": "user", "content": content })
}

/// The app's result of its own tool.
pub(super) fn result(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "toolCallId": id, "content": content })
}

/// The app lets the server run its tool.
pub(super) fn grant(id: &str) -> Value {
    json!({ "role": "tool_permission", "toolCallId": id, "granted": true })
}

/// The app does not.
pub(super) fn deny(id: &str, reason: Option<&str>) -> Value {
    let mut message = json!({ "role": "tool_permission", "toolCallId": id, "granted": false });
    if let Some(reason) = reason {
        message["reason"] = reason.into();
    }
    message
}

/// A tool the app brings.
pub(super) fn client_tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Picks something",
        "parameters": { "type": "object", "properties": { "from": { "type": "string" } } },
    })
}

/// A call of the app's tool `pick`.
pub(super) fn pick(id: &str) -> Value {
    call("pick", json!({ "from": "a hat" }), id)
}

/// The text of a message's content, be it a string or blocks.
pub(super) fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}
