//! What a validation found.

pub(crate) use nuncio_core::json::pointer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Kind;
use crate::wire::{ErrorCode, ErrorResponse};

/// How many errors, and how many warnings, of one document are told.
pub const MAX_FAULTS: usize = 200;

/// What a validation found (§9.3).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Whether there are no errors.
    pub valid: bool,
    /// What breaks a rule, by path.
    pub errors: Vec<Fault>,
    /// What is allowed but cannot be meant, by path.
    pub warnings: Vec<Fault>,
    /// Which document it should have been.
    #[serde(skip)]
    pub kind: Kind,
}

/// One thing that is wrong with a document (§8.3.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Where, as a JSON pointer; empty for the whole document.
    pub path: String,
    /// What is wrong there.
    pub message: String,
    /// The values or the type it should have.
    pub expected: Value,
    /// The value or the type it has.
    pub actual: Value,
}

impl Report {
    pub(crate) fn new(kind: Kind, mut errors: Vec<Fault>, mut warnings: Vec<Fault>) -> Self {
        for faults in [&mut errors, &mut warnings] {
            faults.sort_by(|one, other| (&one.path, &one.message).cmp(&(&other.path, &other.message)));
            faults.dedup();
            faults.truncate(MAX_FAULTS);
        }
        Self { valid: errors.is_empty(), errors, warnings, kind }
    }

    /// The error to answer with: `VALIDATION_ERROR`, the faults as its details.
    #[must_use]
    pub fn to_error(&self) -> ErrorResponse {
        let message = format!("Invalid {} document", self.kind.name());
        ErrorResponse::new(ErrorCode::ValidationError, message).with_details(json!(self.errors))
    }
}

impl std::fmt::Display for Report {
    /// A line a fault, errors first.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, verdict) = (self.kind.name(), if self.valid { "valid" } else { "invalid" });
        write!(f, "{name}: {verdict}")?;
        for (word, faults) in [("error", &self.errors), ("warning", &self.warnings)] {
            for fault in faults {
                write!(f, "\n{word}: {fault}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

impl Fault {
    pub(crate) fn new(
        path: impl Into<String>,
        message: impl Into<String>,
        expected: impl Into<Value>,
        actual: impl Into<Value>,
    ) -> Self {
        Self { path: path.into(), message: message.into(), expected: expected.into(), actual: actual.into() }
    }

    /// The same fault of something further out, at `path` there.
    #[must_use]
    pub fn below(mut self, path: &str) -> Self {
        self.path.insert_str(0, path);
        self
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.path.is_empty() { "the document" } else { &self.path };
        write!(f, "{place} {}", self.message)?;
        let wants_types = self.message == format!("must be {}", self.expected.as_str().unwrap_or_default());
        match (&self.expected, &self.actual) {
            (Value::Null, Value::Null) => Ok(()),
            (_, actual) if wants_types => write!(f, " (it is {})", words(actual)),
            (expected, actual) => write!(f, " (expected {}, found {})", words(expected), words(actual)),
        }
    }
}

/// A value for people: texts as they are, lists with commas.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

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
