//! What is wrong with a document of a protocol: every fault at once, each with its place and plain words.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{MAX_VALUES, Unreadable};
use crate::schema::MAX_DEPTH;

/// How many errors, and how many warnings, of one document are told.
pub const MAX_FAULTS: usize = 200;

/// What a validation found; `K` is the kinds of document there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report<K> {
    /// Whether there are no errors.
    pub valid: bool,
    /// What breaks a rule, by path.
    pub errors: Vec<Fault>,
    /// What is allowed, but cannot be meant, or will be misread or refused by some; by path.
    pub warnings: Vec<Fault>,
    /// Which document it should have been.
    #[serde(skip)]
    pub kind: K,
}

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Where, as a JSON pointer; empty for the whole document.
    pub path: String,
    /// What is wrong there.
    pub message: String,
    /// What it should be: a value, several, or words for it.
    pub expected: Value,
    /// What it is; null where there is nothing to show.
    pub actual: Value,
}

impl<K> Report<K> {
    /// A report of these faults, in order and each once.
    #[must_use]
    pub fn new(kind: K, mut errors: Vec<Fault>, mut warnings: Vec<Fault>) -> Self {
        for faults in [&mut errors, &mut warnings] {
            faults.sort_by(|one, other| (&one.path, &one.message).cmp(&(&other.path, &other.message)));
            faults.dedup();
            faults.truncate(MAX_FAULTS);
        }
        Self { valid: errors.is_empty(), errors, warnings, kind }
    }

    /// Of what could not even be read.
    #[must_use]
    pub fn unreadable(kind: K, why: &Unreadable) -> Self {
        Self::new(kind, Fault::unreadable(why), Vec::new())
    }
}

impl<K: fmt::Display> fmt::Display for Report<K> {
    /// A line a fault, errors first.
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

impl<K: fmt::Debug + fmt::Display> std::error::Error for Report<K> {}

impl Fault {
    /// A fault.
    #[must_use]
    pub fn new(
        path: impl Into<String>,
        message: impl Into<String>,
        expected: impl Into<Value>,
        actual: impl Into<Value>,
    ) -> Self {
        Self { path: path.into(), message: message.into(), expected: expected.into(), actual: actual.into() }
    }

    /// What could not even be read, as faults.
    #[must_use]
    pub fn unreadable(why: &Unreadable) -> Vec<Self> {
        let message = why.to_string();
        match why {
            Unreadable::TooLarge { most, found } => vec![Self::new("", message, *most, *found)],
            Unreadable::TooDeep => vec![Self::new("", message, MAX_DEPTH, format!("more than {MAX_DEPTH}"))],
            Unreadable::TooManyValues => vec![Self::new("", message, MAX_VALUES, format!("more than {MAX_VALUES}"))],
            Unreadable::NotJson(_) => vec![Self::new("", message, "JSON", Value::Null)],
            Unreadable::Repeated(paths) => {
                paths.iter().map(|path| Self::new(path, "must not be repeated", 1, "more than one")).collect()
            }
        }
    }

    /// What was expected and what was found, in words, as far as the message does not say it.
    #[must_use]
    pub fn found(&self) -> Option<String> {
        let expected = words(&self.expected);
        match &self.actual {
            Value::Null => None,
            actual if self.expected.is_null() || self.message.contains(&expected) => {
                Some(format!("found {}", words(actual)))
            }
            actual => Some(format!("expected {expected}, found {}", words(actual))),
        }
    }

    /// The same fault of something further out, at `path` there.
    #[must_use]
    pub fn below(mut self, path: &str) -> Self {
        self.path.insert_str(0, path);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "the document" } else { &self.path };
        write!(f, "{place} {}", self.message)?;
        self.found().map_or(Ok(()), |found| write!(f, " ({found})"))
    }
}

/// A value for people: texts as they are, unless nobody would see them, and lists with commas.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) if text.trim().is_empty() => format!("{text:?}"),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::read;

    #[test]
    fn every_fault_of_reading_is_told() {
        let told = |document: &str| -> Vec<_> {
            let report = Report::unreadable("it", &read(document.as_bytes(), 1000).unwrap_err());
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
    fn a_fault_says_no_more_than_its_reader_needs() {
        for (message, expected, actual, line) in [
            ("must be string", json!("string"), json!("array"), "/a must be string (found array)"),
            ("must be one of x, y", json!(["x", "y"]), json!("z"), "/a must be one of x, y (found z)"),
            ("is too new", json!("1.0"), json!("2.0"), "/a is too new (expected 1.0, found 2.0)"),
            ("must not be here", json!(null), json!(7), "/a must not be here (found 7)"),
            ("is missing: a name", json!("a name"), json!(null), "/a is missing: a name"),
        ] {
            assert_eq!(Fault::new("/a", message, expected, actual).to_string(), line);
        }
    }

    #[test]
    fn faults_come_in_order_and_once_and_not_without_end() {
        let fault = |path: usize| Fault::new(format!("/{path:03}"), "is wrong", json!(null), json!(null));
        let report = Report::new("it", (0..300).rev().flat_map(|path| [fault(path), fault(path)]).collect(), vec![]);
        assert_eq!(report.errors.len(), MAX_FAULTS);
        assert_eq!(report.errors[1], fault(1));
        let few = Report::new("it", vec![fault(1)], vec![fault(2)]);
        assert_eq!(few.to_string(), "it: invalid\nerror: /001 is wrong\nwarning: /002 is wrong");
    }
}
