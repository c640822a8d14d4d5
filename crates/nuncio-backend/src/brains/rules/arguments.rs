//! Converts slot values to tool arguments.

use serde_json::{Map, Value};

use super::compiled::{CompiledIntent, CompiledSlot, SlotMatcher};
use super::fill::SlotValues;

/// Tool arguments from slot values, converted to the types in the schema. A schema that allows no additional
/// properties omits unknown slots. A value that does not fit stays a string, so that the schema check reports it.
pub(super) fn arguments(intent: &CompiledIntent, known: &SlotValues, schema: &Value) -> Map<String, Value> {
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let mut arguments = Map::new();
    for slot in &intent.slots {
        let Some(value) = known.get(slot.name()) else { continue };
        let parameter = schema.get("properties").and_then(|properties| properties.get(slot.name()));
        if parameter.is_none() && is_closed {
            continue;
        }
        arguments.insert(slot.name().to_owned(), typed(slot, value, parameter));
    }
    arguments
}

fn typed(slot: &CompiledSlot, text: &str, parameter: Option<&Value>) -> Value {
    let types: Vec<&str> = match parameter.and_then(|parameter| parameter.get("type")) {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if matches!(slot.matcher, SlotMatcher::Integer) => vec!["integer"],
        _ => vec!["string"],
    };
    let converted = types.iter().find_map(|name| match *name {
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => number(text),
        "boolean" => boolean(text).map(Value::Bool),
        "string" => Some(Value::from(text)),
        _ => None,
    });
    converted.unwrap_or_else(|| Value::from(text))
}

fn number(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Value::from(whole));
    }
    let number = text.parse::<f64>().ok()?;
    serde_json::Number::from_f64(number).map(Value::Number)
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" | "yes" | "y" | "1" | "是" | "好" | "对" | "要" => Some(true),
        "false" | "no" | "n" | "0" | "否" | "不" | "不是" | "不要" => Some(false),
        _ => None,
    }
}
