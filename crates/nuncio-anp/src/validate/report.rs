//! What a validation found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Kind;

/// How many errors, and how many warnings, of one document are told.
pub const MAX_FAULTS: usize = 200;

/// What a validation found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Whether there are no errors.
    pub valid: bool,
    /// What breaks a rule, by path.
    pub errors: Vec<Fault>,
    /// What will be misread or refused by some, by path.
    pub warnings: Vec<Fault>,
    /// Which document it should have been.
    #[serde(skip)]
    pub kind: Kind,
}

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Where, as a JSON pointer; empty for the whole document.
    pub path: String,
    /// What is wrong there.
    pub message: String,
    /// What it should be.
    pub expected: Value,
    /// What it is.
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
}

impl std::fmt::Display for Report {
    /// A line a fault, errors first.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.name(), if self.valid { "valid" } else { "invalid" })?;
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
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.path.is_empty() { "the document" } else { &self.path };
        write!(f, "{place} {}", self.message)?;
        match (&self.expected, &self.actual) {
            (_, Value::Null) => Ok(()),
            (_, actual) => write!(f, " (found {})", words(actual)),
        }
    }
}

/// A value for people: texts as they are.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
