//! Items of a script step.
//!
//! | item | effect |
//! |---|---|
//! | `{"text":s}`, `{"thinking":s}` | outputs `s` word by word |
//! | `{"deltas":n,"delta":s}` | outputs `s` `n` times as text |
//! | `{"tool":{"name":…,"input":{…},"id":…}}` | calls a tool; `id` is optional |
//! | `{"echo":"results"}` | outputs the contents of the tool messages since the script, as JSON |
//! | `{"echo":"tools"}`, `{"echo":"roles"}` | outputs the offered tools, the roles of the history |
//! | `{"sleep":ms}` | waits |
//! | `{"stop":reason}` | ends the step with that reason |
//! | `{"throw":message}` | fails |

use std::time::Duration;

use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::turn::StopReason;
use serde_json::{Map, Value};

/// Maximum number of deltas of one script item.
const MAX_DELTAS: u64 = 10_000_000;
/// Longest sleep of one script item, in milliseconds.
const MAX_SLEEP_MS: f64 = 600_000.0;
/// Length limit of a quoted invalid item, in characters.
const MAX_QUOTED_CHARACTERS: usize = 120;

/// Action of a script step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScriptItem {
    Text(String),
    Thinking(String),
    Deltas { count: u64, delta: String },
    Tool { id: Option<CallId>, name: ToolName, input: Map<String, Value> },
    Echo(EchoContent),
    Sleep(Duration),
    Stop(StopReason),
    Throw(String),
}

/// Data that an `echo` item outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EchoContent {
    Results,
    Tools,
    Roles,
}

/// Parses the items of one step; the error names the invalid one.
pub(super) fn items(step: &str) -> Result<Vec<ScriptItem>, String> {
    let items: Value = serde_json::from_str(step).map_err(|fault| fault.to_string())?;
    let Value::Array(items) = items else {
        return Err(format!("a step must be a list of items, not {}", shown(&items)));
    };
    items
        .into_iter()
        .enumerate()
        .map(|(at, value)| item(value).map_err(|fault| format!("item {}: {fault}", at + 1)))
        .collect()
}

fn item(value: Value) -> Result<ScriptItem, String> {
    let Value::Object(mut fields) = value else {
        return Err(format!("an item must be an object, not {}", shown(&value)));
    };
    const ITEM_KINDS: [&str; 8] = ["text", "thinking", "deltas", "tool", "echo", "sleep", "stop", "throw"];
    let Some((kind, value)) = ITEM_KINDS.iter().find_map(|kind| Some((*kind, fields.shift_remove(*kind)?))) else {
        return Err(format!("{} is not one of {}", shown(&Value::Object(fields)), ITEM_KINDS.join(", ")));
    };
    match kind {
        "text" => text("text", value).map(ScriptItem::Text),
        "thinking" => text("thinking", value).map(ScriptItem::Thinking),
        "deltas" => deltas(&value, fields.shift_remove("delta")),
        "tool" => tool(value),
        "echo" => echo(&value).map(ScriptItem::Echo),
        "sleep" => sleep(&value).map(ScriptItem::Sleep),
        "stop" => stop(&value).map(ScriptItem::Stop),
        _ => text("throw", value).map(ScriptItem::Throw),
    }
}

fn text(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(format!("`{key}` must be a text, not {}", shown(&other))),
    }
}

fn deltas(count: &Value, delta: Option<Value>) -> Result<ScriptItem, String> {
    let known = count.as_u64().filter(|count| *count <= MAX_DELTAS);
    let count =
        known.ok_or_else(|| format!("`deltas` must be a whole number from 0 to {MAX_DELTAS}, not {}", shown(count)))?;
    let delta = delta.ok_or("`deltas` needs `delta`, the text of each piece")?;
    Ok(ScriptItem::Deltas { count, delta: text("delta", delta)? })
}

fn tool(value: Value) -> Result<ScriptItem, String> {
    let Value::Object(mut fields) = value else {
        return Err(format!("`tool` must be an object with name and input, not {}", shown(&value)));
    };
    let name = fields.shift_remove("name").ok_or("`tool` needs a name")?;
    let name = ToolName::parse(&text("name", name)?).map_err(|fault| fault.to_string())?;
    let id = match fields.shift_remove("id") {
        None | Some(Value::Null) => None,
        Some(id) => Some(CallId::parse(&text("id", id)?).map_err(|fault| fault.to_string())?),
    };
    let input = match fields.shift_remove("input") {
        None => Map::new(),
        Some(Value::Object(input)) => input,
        Some(other) => return Err(format!("`input` must be an object, not {}", shown(&other))),
    };
    Ok(ScriptItem::Tool { id, name, input })
}

fn echo(value: &Value) -> Result<EchoContent, String> {
    match value.as_str() {
        Some("results") => Ok(EchoContent::Results),
        Some("tools") => Ok(EchoContent::Tools),
        Some("roles") => Ok(EchoContent::Roles),
        _ => Err(format!("`echo` must be results, tools or roles, not {}", shown(value))),
    }
}

fn sleep(value: &Value) -> Result<Duration, String> {
    let millis = value.as_f64().filter(|millis| (0.0..=MAX_SLEEP_MS).contains(millis));
    millis
        .map(|millis| Duration::from_secs_f64(millis / 1000.0))
        .ok_or_else(|| format!("`sleep` must be milliseconds from 0 to {MAX_SLEEP_MS}, not {}", shown(value)))
}

fn stop(value: &Value) -> Result<StopReason, String> {
    let known = value.as_str().and_then(StopReason::parse);
    known
        .ok_or_else(|| format!("`stop` must be end_turn, tool_use, max_tokens, refusal or error, not {}", shown(value)))
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_QUOTED_CHARACTERS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
