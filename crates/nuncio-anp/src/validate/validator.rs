//! Shared by all validators: JSON values with their location, and the collection of faults.

use std::collections::HashSet;

use jiff::Timestamp;
use nuncio_core::json::pointer;
use nuncio_core::report::{DocumentFault, MAX_FAULTS};
use serde_json::{Map, Value};
use url::Url;

/// Collects the faults of a document. For an absent member, `need_…` reports an error, `should_…` a warning, and
/// `may_…` nothing. A present text must not be empty.
#[derive(Default)]
pub(super) struct AnpDocumentValidator {
    pub(super) errors: Vec<DocumentFault>,
    pub(super) warnings: Vec<DocumentFault>,
}

/// A JSON value and the JSON pointer to it.
#[derive(Clone)]
pub(super) struct LocatedJsonValue<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> LocatedJsonValue<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    pub(super) fn get(&self, name: &str) -> Option<Self> {
        Some(Self { value: self.value.get(name)?, path: self.at(name) })
    }

    /// The JSON pointer of a member, whether it exists or not.
    pub(super) fn at(&self, name: &str) -> String {
        pointer(&self.path, name)
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub(super) fn text_of(&self, name: &str) -> Option<&'a str> {
        self.value.get(name)?.as_str()
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let members = self.value.as_object().into_iter().flatten();
        let path = self.path.clone();
        members.map(move |(name, value)| (name.as_str(), Self { value, path: pointer(&path, name) }))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        let path = self.path.clone();
        items.map(move |(number, value)| Self { value, path: format!("{path}/{number}") })
    }
}

impl AnpDocumentValidator {
    /// Whether the limit of reported errors is exceeded.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() > MAX_FAULTS
    }

    pub(super) fn error(
        &mut self,
        node: &LocatedJsonValue<'_>,
        message: impl Into<String>,
        expected: impl Into<Value>,
    ) {
        if self.errors.len() <= MAX_FAULTS {
            self.errors.push(DocumentFault::new(&node.path, message, expected, shorten_value(node.value)));
        }
    }

    pub(super) fn warning(
        &mut self,
        node: &LocatedJsonValue<'_>,
        message: impl Into<String>,
        expected: impl Into<Value>,
    ) {
        if self.warnings.len() <= MAX_FAULTS {
            self.warnings.push(DocumentFault::new(&node.path, message, expected, shorten_value(node.value)));
        }
    }

    pub(super) fn missing(&mut self, node: &LocatedJsonValue<'_>, name: &str, expected: &str) {
        if self.errors.len() <= MAX_FAULTS {
            let message = format!("is missing: {expected}");
            self.errors.push(DocumentFault::new(node.at(name), message, expected, Value::Null));
        }
    }

    pub(super) fn better(&mut self, node: &LocatedJsonValue<'_>, name: &str, why: &str) {
        if self.warnings.len() <= MAX_FAULTS {
            self.warnings.push(DocumentFault::new(node.at(name), format!("is missing: {why}"), why, Value::Null));
        }
    }

    pub(super) fn object(&mut self, node: &LocatedJsonValue<'_>) -> bool {
        self.is(node, Value::is_object, "an object")
    }

    /// Passes the objects of a list to `check`, until the limit of errors is exceeded. A value that is no list, or an
    /// item that is no object, is an error.
    pub(super) fn each_object<'a>(
        &mut self,
        list: &LocatedJsonValue<'a>,
        mut check: impl FnMut(&mut Self, &LocatedJsonValue<'a>),
    ) {
        if !self.list(list) {
            return;
        }
        for item in list.items() {
            if self.is_full() {
                return;
            }
            if self.object(&item) {
                check(self, &item);
            }
        }
    }

    pub(super) fn list(&mut self, node: &LocatedJsonValue<'_>) -> bool {
        self.is(node, Value::is_array, "a list")
    }

    fn is(&mut self, node: &LocatedJsonValue<'_>, test: fn(&Value) -> bool, what: &str) -> bool {
        let holds = test(node.value);
        if !holds {
            self.error(node, format!("must be {what}"), what);
        }
        holds
    }

    /// Checks an optional value of any type except null, which would be lost when written back.
    pub(super) fn may_say(&mut self, node: &LocatedJsonValue<'_>, name: &str) {
        if let Some(value_found) = node.get(name) {
            self.is(&value_found, |value| !value.is_null(), "a value other than null");
        }
    }

    pub(super) fn need_text<'a>(&mut self, node: &LocatedJsonValue<'a>, name: &str, what: &str) -> Option<&'a str> {
        match node.get(name) {
            Some(text) => self.filled(&text),
            None => {
                self.missing(node, name, what);
                None
            }
        }
    }

    pub(super) fn may_text<'a>(&mut self, node: &LocatedJsonValue<'a>, name: &str) -> Option<&'a str> {
        node.get(name).and_then(|text| self.filled(&text))
    }

    /// Checks a recommended string; `why` states the consequence of its absence.
    pub(super) fn should_text(&mut self, node: &LocatedJsonValue<'_>, name: &str, why: &str) {
        match node.get(name) {
            Some(text) => drop(self.filled(&text)),
            None => self.better(node, name, why),
        }
    }

    /// Reports `error` for a string that an earlier node already had.
    pub(super) fn unique<'a>(
        &mut self,
        node: &LocatedJsonValue<'a>,
        name: &str,
        seen: &mut HashSet<&'a str>,
        (error, expected): (&str, &str),
    ) {
        if let Some(found) = node.get(name)
            && found.text().is_some_and(|text| !seen.insert(text))
        {
            self.error(&found, error, expected);
        }
    }

    pub(super) fn filled<'a>(&mut self, node: &LocatedJsonValue<'a>) -> Option<&'a str> {
        match node.text() {
            None => self.error(node, "must be a text", "a text"),
            Some(text) if text.trim().is_empty() => self.error(node, "must not be empty", "some text"),
            Some(text) => return Some(text),
        }
        None
    }

    /// Checks a required string with exactly the value `required`.
    pub(super) fn need_word(&mut self, node: &LocatedJsonValue<'_>, name: &str, required: &str) {
        let Some(found) = node.get(name) else {
            self.missing(node, name, &format!("{required:?}"));
            return;
        };
        if found.text() != Some(required) {
            self.error(&found, format!("must be {required:?}"), required);
        }
    }

    pub(super) fn may_flag(&mut self, node: &LocatedJsonValue<'_>, name: &str) {
        if let Some(flag) = node.get(name) {
            self.is(&flag, Value::is_boolean, "true or false");
        }
    }

    pub(super) fn may_texts(&mut self, node: &LocatedJsonValue<'_>, name: &str) {
        if let Some(list) = node.get(name)
            && self.list(&list)
        {
            for item in list.items() {
                self.filled(&item);
            }
        }
    }

    pub(super) fn may_url(&mut self, node: &LocatedJsonValue<'_>, name: &str) {
        if let Some(url) = node.get(name)
            && let Some(text) = self.filled(&url)
            && !is_web_address(text)
        {
            self.error(&url, "must be an absolute http or https URL", "http or https URL");
        }
    }

    /// Checks an optional timestamp with an offset.
    pub(super) fn may_time(&mut self, node: &LocatedJsonValue<'_>, name: &str) {
        if let Some(time) = node.get(name)
            && let Some(text) = self.filled(&time)
            && text.parse::<Timestamp>().is_err()
        {
            self.error(&time, "must be an ISO 8601 time with its offset", "2024-12-31T12:00:00Z");
        }
    }
}

pub(super) fn is_web_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Form of a value in messages: a short scalar value unchanged, any other value as its type.
fn shorten_value(value: &Value) -> Value {
    const MAX_SHOWN_CHARACTERS: usize = 120;
    match value {
        Value::String(text) if text.chars().count() > MAX_SHOWN_CHARACTERS => {
            text.chars().take(MAX_SHOWN_CHARACTERS).chain(['…']).collect::<String>().into()
        }
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::Null => "null".into(),
        plain => plain.clone(),
    }
}

pub(super) fn object_of<'a>(node: &LocatedJsonValue<'a>, name: &str) -> Option<&'a Map<String, Value>> {
    node.value.get(name)?.as_object()
}
