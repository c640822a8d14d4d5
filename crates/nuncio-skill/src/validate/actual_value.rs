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

/// Type names of JSON Schema.
pub(crate) const SCHEMA_TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Whether a value has a JSON Schema type. Unknown types match, because they are reported elsewhere.
pub(crate) fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => !SCHEMA_TYPES.contains(&kind) || type_name(value) == kind,
    }
}

/// The value if it is short and scalar, else its type name.
pub(crate) fn actual_value(value: &Value) -> Value {
    const MAX_SHOWN_CHARACTERS: usize = 200;
    match value {
        Value::String(text) if text.chars().count() > MAX_SHOWN_CHARACTERS => {
            Value::String(text.chars().take(MAX_SHOWN_CHARACTERS).chain(['…']).collect())
        }
        Value::Array(_) | Value::Object(_) => type_name(value).into(),
        plain => plain.clone(),
    }
}
