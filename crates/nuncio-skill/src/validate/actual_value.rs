//! Representation of actual values in fault reports.

use serde_json::Value;

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

/// The value if it is short and scalar, else its type name.
pub(crate) fn actual_value(value: &Value) -> Value {
    const LONG: usize = 200;
    match value {
        Value::String(text) if text.chars().count() > LONG => {
            Value::String(text.chars().take(LONG).chain(['…']).collect())
        }
        Value::Array(_) | Value::Object(_) => type_name(value).into(),
        plain => plain.clone(),
    }
}
