//! JSON Schema 2020-12, compiled once and with limits: no remote references, linear-time patterns, bounded depth and
//! size.

use std::fmt;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

pub mod keywords;

/// Nesting limit of a schema and of a checked value.
pub const MAX_DEPTH: usize = 64;
/// Size limit of a schema as compact JSON, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 128 * 1024;
/// Limit of reported faults per checked value.
const MAX_FAULTS: usize = 16;

/// A compiled schema, which is cheap to clone.
#[derive(Clone)]
pub struct Schema {
    source: Arc<Value>,
    validator: Arc<Validator>,
    /// Whether only objects are valid, also if the schema has no `type`.
    objects_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema is nested beyond [`MAX_DEPTH`].
    #[error("the schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The schema is larger than [`MAX_SCHEMA_BYTES`].
    #[error("the schema is larger than {MAX_SCHEMA_BYTES} bytes")]
    TooLarge,
    /// A schema of tool arguments must require an object.
    #[error("the schema of a tool's arguments must contain `type = \"object\"`")]
    NotAnObject,
    #[error("{0}")]
    Invalid(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// JSON pointer into the checked value; empty for the whole value.
    pub pointer: String,
    pub message: String,
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "at {}: {}", self.pointer, self.message)
    }
}

impl Schema {
    /// Compiles a schema. Fails if the schema is too large or deep, refers outside itself, or is invalid.
    pub fn compile(source: Value) -> Result<Self, SchemaError> {
        if depth(&source) > MAX_DEPTH {
            return Err(SchemaError::TooDeep);
        }
        if source.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge);
        }
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(PatternOptions::regex())
            .build(&source)
            .map_err(|error| {
                let location = error.instance_path().to_string();
                SchemaError::Invalid(if location.is_empty() {
                    error.to_string()
                } else {
                    format!("at {location}: {error}")
                })
            })?;
        Ok(Self { source: Arc::new(source), validator: Arc::new(validator), objects_only: false })
    }

    /// Compiles the schema of a tool's arguments, whose `type` must be exactly `object`.
    pub fn compile_arguments(source: Value) -> Result<Self, SchemaError> {
        if source.get("type") != Some(&Value::from("object")) {
            return Err(SchemaError::NotAnObject);
        }
        Self::compile(source)
    }

    /// Compiles the schema of a tool's arguments, which may leave `type` out. Only objects are valid all the same.
    pub fn compile_untyped_arguments(source: Value) -> Result<Self, SchemaError> {
        if source.get("type").is_some() || !source.is_object() {
            return Self::compile_arguments(source);
        }
        Ok(Self { objects_only: true, ..Self::compile(source)? })
    }

    #[must_use]
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Validates a value under the schema. The error has at most 16 faults.
    pub fn check(&self, value: &Value) -> Result<(), Vec<SchemaViolation>> {
        if depth(value) > MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(vec![SchemaViolation { pointer: String::new(), message }]);
        }
        if self.objects_only && !value.is_object() {
            let message = "must be an object".to_owned();
            return Err(vec![SchemaViolation { pointer: String::new(), message }]);
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        Err(self
            .validator
            .iter_errors(value)
            .take(MAX_FAULTS)
            .map(|error| SchemaViolation { pointer: error.instance_path().to_string(), message: error.to_string() })
            .collect())
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.source)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Nesting depth of a JSON value; a scalar has depth 1. Counting stops past the limit.
#[must_use]
pub fn depth(value: &Value) -> usize {
    fn walk(value: &Value, left: usize) -> usize {
        if left == 0 {
            return 1;
        }
        let inner = match value {
            Value::Array(items) => items.iter().map(|item| walk(item, left - 1)).max(),
            Value::Object(map) => map.values().map(|item| walk(item, left - 1)).max(),
            _ => None,
        };
        1 + inner.unwrap_or(0)
    }
    walk(value, MAX_DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nest(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn value_invalid_under_a_schema_is_reported_with_pointer_and_reason() {
        let schema = Schema::compile_arguments(json!({
            "type": "object",
            "properties": {"nights": {"type": "integer", "minimum": 1}, "room": {}},
            "required": ["room"],
            "additionalProperties": false,
        }))
        .unwrap();
        let faults = schema.check(&json!({"nights": 0})).unwrap_err();
        assert_eq!(faults.len(), 2);
        assert!(
            faults.iter().any(|fault| fault.to_string() == "at /nights: 0 is less than the minimum of 1"),
            "{faults:?}"
        );
        assert!(schema.check(&json!({"room": "12", "nights": 2})).is_ok());
    }

    #[test]
    fn schema_with_remote_reference_does_not_compile() {
        let error = Schema::compile(json!({"$ref": "https://example.com/schema.json"})).unwrap_err();
        assert!(matches!(error, SchemaError::Invalid(_)), "{error}");
        let error = Schema::compile(json!({"$ref": "file:///etc/passwd"})).unwrap_err();
        assert!(matches!(error, SchemaError::Invalid(_)), "{error}");
    }

    #[test]
    fn schema_pattern_that_needs_backtracking_does_not_compile() {
        assert!(Schema::compile(json!({"type": "string", "pattern": "(a)\\1"})).is_err());
        let schema = Schema::compile(json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
        assert!(schema.check(&json!(format!("{}b", "a".repeat(50_000)))).is_err());
    }

    #[test]
    fn schema_size_and_depth_of_schema_and_value_are_limited() {
        assert_eq!(Schema::compile(json!({"const": nest(100)})), Err(SchemaError::TooDeep));
        let any = Schema::compile(json!({})).unwrap();
        assert!(any.check(&nest(MAX_DEPTH - 1)).is_ok());
        assert!(any.check(&nest(MAX_DEPTH)).is_err());
        assert_eq!(Schema::compile(json!({"const": "x".repeat(MAX_SCHEMA_BYTES)})), Err(SchemaError::TooLarge));
    }
}
