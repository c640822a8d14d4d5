//! How what is at a place in a document is told.

use serde_json::Value;

/// The JSON type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The value itself where it is short and plain, else its type.
pub(crate) fn shown(value: &Value) -> Value {
    const LONG: usize = 200;
    match value {
        Value::String(text) if text.chars().count() > LONG => {
            Value::String(text.chars().take(LONG).chain(['…']).collect())
        }
        Value::Array(_) | Value::Object(_) => type_name(value).into(),
        plain => plain.clone(),
    }
}
