//! Places in a document, and how what is there is told.

use nuncio_core::json::pointer;
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

/// A place in a document, written as a pointer only when it is told.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// The whole.
    Root,
    /// A field of what is there.
    Field(&'a Place<'a>, &'a str),
    /// An item of what is there.
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// As a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(above, name) => pointer(&above.pointer(), name),
            Self::Item(above, number) => format!("{}/{number}", above.pointer()),
        }
    }
}
