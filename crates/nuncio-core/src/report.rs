//! Validation reports for protocol documents: all faults together, each with its JSON pointer.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{JsonDocumentError, MAX_VALUES};
use crate::schema::MAX_DEPTH;

/// Limit of reported errors, and of warnings, per document.
pub const MAX_FAULTS: usize = 200;

/// A validation report; `K` is the document kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DocumentValidationReport<K> {
    pub valid: bool,
    /// Broken rules of the document, sorted by path.
    pub errors: Vec<DocumentFault>,
    /// Findings that are allowed but probably unintended, or refused by some implementations; sorted by path.
    pub warnings: Vec<DocumentFault>,
    /// The kind of document that the text was validated as.
    #[serde(skip)]
    pub kind: K,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentFault {
    /// JSON pointer of the fault; empty for the whole document.
    pub path: String,
    pub message: String,
    /// What the document should have contained: a value, several values, or a description.
    pub expected: Value,
    /// What the document contained; null if there is nothing to show.
    pub actual: Value,
}

impl<K> DocumentValidationReport<K> {
    /// Makes a report with sorted faults, without duplicates.
    #[must_use]
    pub fn new(kind: K, mut errors: Vec<DocumentFault>, mut warnings: Vec<DocumentFault>) -> Self {
        for faults in [&mut errors, &mut warnings] {
            faults.sort_by(|one, other| (&one.path, &one.message).cmp(&(&other.path, &other.message)));
            faults.dedup();
            faults.truncate(MAX_FAULTS);
        }
        Self { valid: errors.is_empty(), errors, warnings, kind }
    }

    /// A report on a document that could not be parsed.
    #[must_use]
    pub fn unreadable(kind: K, why: &JsonDocumentError) -> Self {
        Self::new(kind, DocumentFault::unreadable(why), Vec::new())
    }
}

impl<K: fmt::Display> fmt::Display for DocumentValidationReport<K> {
    /// Writes the report with one line per fault, errors first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, if self.valid { "valid" } else { "invalid" })?;
        for (word, faults) in [("error", &self.errors), ("warning", &self.warnings)] {
            for fault in faults {
                write!(f, "\n{word}: {fault}")?;
            }
        }
        Ok(())
    }
}

impl<K: fmt::Debug + fmt::Display> std::error::Error for DocumentValidationReport<K> {}

impl DocumentFault {
    #[must_use]
    pub fn new(
        path: impl Into<String>,
        message: impl Into<String>,
        expected: impl Into<Value>,
        actual: impl Into<Value>,
    ) -> Self {
        Self { path: path.into(), message: message.into(), expected: expected.into(), actual: actual.into() }
    }

    /// The faults of a document that could not be parsed.
    #[must_use]
    pub fn unreadable(why: &JsonDocumentError) -> Vec<Self> {
        let message = why.to_string();
        match why {
            JsonDocumentError::TooLarge { most, found } => vec![Self::new("", message, *most, *found)],
            JsonDocumentError::TooDeep => vec![Self::new("", message, MAX_DEPTH, format!("more than {MAX_DEPTH}"))],
            JsonDocumentError::TooManyValues => {
                vec![Self::new("", message, MAX_VALUES, format!("more than {MAX_VALUES}"))]
            }
            JsonDocumentError::NotJson(_) => vec![Self::new("", message, "JSON", Value::Null)],
            JsonDocumentError::Repeated(paths) => {
                paths.iter().map(|path| Self::new(path, "must not be repeated", 1, "more than one")).collect()
            }
        }
    }

    /// The part "expected …, found …" of a fault, without values that the message already contains; `None` if there is
    /// no actual value to show.
    #[must_use]
    pub fn found(&self) -> Option<String> {
        let expected = describe_value(&self.expected);
        match &self.actual {
            Value::Null => None,
            actual if self.expected.is_null() || self.message.contains(&expected) => {
                Some(format!("found {}", describe_value(actual)))
            }
            actual => Some(format!("expected {expected}, found {}", describe_value(actual))),
        }
    }

    /// The same fault with `path` prepended to its own path.
    #[must_use]
    pub fn below(mut self, path: &str) -> Self {
        self.path.insert_str(0, path);
        self
    }
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = if self.path.is_empty() { "the document" } else { &self.path };
        write!(f, "{location} {}", self.message)?;
        self.found().map_or(Ok(()), |found| write!(f, " ({found})"))
    }
}

/// A JSON value as text for people: plain text unquoted unless empty, lists with commas.
fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) if text.trim().is_empty() => format!("{text:?}"),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(describe_value).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::read;

    #[test]
    fn unparsable_json_document_gives_a_report_with_path_and_reason() {
        let told = |document: &str| -> Vec<_> {
            let report = DocumentValidationReport::unreadable("it", &read(document.as_bytes(), 1000).unwrap_err());
            assert!(!report.valid);
            report.errors.into_iter().map(|fault| (fault.path, fault.message)).collect()
        };
        let paths: Vec<_> =
            told(r#"{"a":1,"a":2,"b":[{"x/y":1,"x/y":2}]}"#).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["/a", "/b/0/x~1y"]);
        assert!(told(&"x".repeat(1001))[0].1.contains("1000 bytes"));
        assert!(told(&"[".repeat(200))[0].1.contains("deeper than 64"));
        assert!(told("nul")[0].1.starts_with("must be JSON: "));
    }

    #[test]
    fn report_fault_text_does_not_repeat_expected_or_found_values() {
        for (message, expected, actual, line) in [
            ("must be string", json!("string"), json!("array"), "/a must be string (found array)"),
            ("must be one of x, y", json!(["x", "y"]), json!("z"), "/a must be one of x, y (found z)"),
            ("is too new", json!("1.0"), json!("2.0"), "/a is too new (expected 1.0, found 2.0)"),
            ("must not be here", json!(null), json!(7), "/a must not be here (found 7)"),
            ("is missing: a name", json!("a name"), json!(null), "/a is missing: a name"),
        ] {
            assert_eq!(DocumentFault::new("/a", message, expected, actual).to_string(), line);
        }
    }

    #[test]
    fn report_faults_are_sorted_deduplicated_and_limited() {
        let fault = |path: usize| DocumentFault::new(format!("/{path:03}"), "is wrong", json!(null), json!(null));
        let report = DocumentValidationReport::new(
            "it",
            (0..300).rev().flat_map(|path| [fault(path), fault(path)]).collect(),
            vec![],
        );
        assert_eq!(report.errors.len(), MAX_FAULTS);
        assert_eq!(report.errors[1], fault(1));
        let few = DocumentValidationReport::new("it", vec![fault(1)], vec![fault(2)]);
        assert_eq!(few.to_string(), "it: invalid\nerror: /001 is wrong\nwarning: /002 is wrong");
    }
}
