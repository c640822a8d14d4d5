//! JSON readers that track the path of each value for error messages.

use std::collections::BTreeMap;
use std::fmt;

use nuncio_core::ErrorCode;
use nuncio_core::ids::InvalidName;
use nuncio_engine::EngineError;
use serde_json::{Map, Value};

/// Path of a value in a request body, for error messages.
#[derive(Debug, Clone)]
pub(super) struct JsonLocation(String);

impl JsonLocation {
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    fn key(&self, key: &str) -> Self {
        Self(if self.0.is_empty() { key.to_owned() } else { format!("{}.{key}", self.0) })
    }

    fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Error about the value at this path.
    pub(super) fn wrong(&self, what: &str) -> EngineError {
        EngineError::new(ErrorCode::BadRequest, format!("{self}: {what}"))
    }

    fn expected(&self, wanted: &str, found: &Value) -> EngineError {
        self.wrong(&format!("expected {wanted}, found {}", kind(found)))
    }
}

impl fmt::Display for JsonLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "the body" } else { &self.0 })
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reader that removes each field it reads from a JSON object; the rest are unknown fields. `null` counts as absent.
#[derive(Debug)]
pub(super) struct JsonObjectReader {
    at: JsonLocation,
    map: Map<String, Value>,
}

impl JsonObjectReader {
    pub(super) fn of(at: JsonLocation, value: Value) -> Result<Self, EngineError> {
        match value {
            Value::Object(map) => Ok(Self { at, map }),
            other => Err(at.expected("an object", &other)),
        }
    }

    /// Path of a field of the object, for error messages.
    pub(super) fn at(&self, key: &str) -> JsonLocation {
        self.at.key(key)
    }

    /// Fields of the object that were not read.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.map
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.map.shift_remove(key).filter(|value| !value.is_null())
    }

    fn required<T>(&self, key: &str, found: Option<T>) -> Result<T, EngineError> {
        found.ok_or_else(|| self.at(key).wrong("it is missing"))
    }

    pub(super) fn required_value(&mut self, key: &str) -> Result<Value, EngineError> {
        let found = self.take(key);
        self.required(key, found)
    }

    pub(super) fn optional_text(&mut self, key: &str) -> Result<Option<String>, EngineError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.at(key).expected("a text", &other)),
        }
    }

    pub(super) fn required_text(&mut self, key: &str) -> Result<String, EngineError> {
        let found = self.optional_text(key)?;
        self.required(key, found)
    }

    pub(super) fn required_name<T: TryFrom<String, Error = InvalidName>>(
        &mut self,
        key: &str,
    ) -> Result<T, EngineError> {
        let text = self.required_text(key)?;
        T::try_from(text).map_err(|error| self.at(key).wrong(&error.to_string()))
    }

    pub(super) fn optional_bool(&mut self, key: &str) -> Result<Option<bool>, EngineError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.at(key).expected("true or false", &other)),
        }
    }

    pub(super) fn required_bool(&mut self, key: &str) -> Result<bool, EngineError> {
        let found = self.optional_bool(key)?;
        self.required(key, found)
    }

    pub(super) fn optional_object(&mut self, key: &str) -> Result<Option<Self>, EngineError> {
        let at = self.at(key);
        self.take(key).map(|value| Self::of(at, value)).transpose()
    }

    pub(super) fn required_object(&mut self, key: &str) -> Result<Self, EngineError> {
        let found = self.optional_object(key)?;
        self.required(key, found)
    }

    pub(super) fn optional_list(&mut self, key: &str) -> Result<Option<Vec<(JsonLocation, Value)>>, EngineError> {
        let at = self.at(key);
        self.take(key).map(|value| list(&at, value)).transpose()
    }

    /// Returns all fields of the object; a value that is not a string is a `BadOption` error.
    pub(super) fn all_texts(self) -> Result<BTreeMap<String, String>, EngineError> {
        let at = self.at;
        let text = |(key, value): (String, Value)| match value {
            Value::String(text) => Ok((key, text)),
            other => Err(EngineError { code: ErrorCode::BadOption, ..at.key(&key).expected("a text", &other) }),
        };
        self.map.into_iter().map(text).collect()
    }
}

/// Items of a list, each with its path.
pub(super) fn list(at: &JsonLocation, value: Value) -> Result<Vec<(JsonLocation, Value)>, EngineError> {
    match value {
        Value::Array(items) => Ok(items.into_iter().enumerate().map(|(index, item)| (at.index(index), item)).collect()),
        other => Err(at.expected("a list", &other)),
    }
}
