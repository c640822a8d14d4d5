//! Finds one valid value of a simple schema.

use serde_json::{Map, Value};

use super::reduce::is_annotation_keyword;

/// Length of the longest generated sample text, in characters.
const MAX_TEXT: u64 = 64;

/// A value that is certainly valid under the schema; `None` if the schema is not simple.
pub(super) fn sample(schema: &Value) -> Option<Value> {
    let map = match schema {
        Value::Bool(true) => return Some(Value::Null),
        other => other.as_object()?,
    };
    let only = |known: &[&str]| map.keys().all(|name| is_annotation_keyword(name) || known.contains(&name.as_str()));
    if let Some(value) = map.get("const").filter(|_| only(&["const"])) {
        return Some(value.clone());
    }
    if let Some(Value::Array(values)) = map.get("enum").filter(|_| only(&["enum"])) {
        return values.first().cloned();
    }
    match map.get("type")?.as_str()? {
        "boolean" if only(&["type"]) => Some(Value::Bool(false)),
        "null" if only(&["type"]) => Some(Value::Null),
        "string" if only(&["type", "minLength", "maxLength"]) => text(map),
        "integer" | "number" if only(&["type", "minimum", "maximum"]) => number(map),
        "array" if only(&["type", "items", "maxItems"]) => {
            bound(map, "maxItems").is_some().then(|| Value::Array(Vec::new()))
        }
        "object" if only(&["type", "properties", "additionalProperties"]) => Some(Value::Object(Map::new())),
        _ => None,
    }
}

fn text(map: &Map<String, Value>) -> Option<Value> {
    let shortest = bound(map, "minLength")?.unwrap_or(0);
    let longest = bound(map, "maxLength")?.unwrap_or(u64::MAX);
    if shortest > longest || shortest > MAX_TEXT {
        return None;
    }
    Some("a".repeat(usize::try_from(shortest).ok()?).into())
}

/// Reads a bound of a schema: `Some(None)` if it is absent; `None` if it is not a whole number.
#[expect(clippy::option_option, reason = "an absent bound and an invalid bound are different results")]
fn bound(map: &Map<String, Value>, name: &str) -> Option<Option<u64>> {
    match map.get(name) {
        None => Some(None),
        Some(value) => value.as_u64().map(Some),
    }
}

fn number(map: &Map<String, Value>) -> Option<Value> {
    let whole = |name: &str, without: i64| map.get(name).map_or(Some(without), Value::as_i64);
    let (least, most) = (whole("minimum", i64::MIN)?, whole("maximum", i64::MAX)?);
    (least <= most).then(|| 0.clamp(least, most).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::sample;
    use nuncio_core::schema::Schema;

    #[test]
    fn sample_value_generated_for_a_simple_schema_is_valid() {
        let plain = [
            json!(true),
            json!({"const": {"a": 1}, "title": "t"}),
            json!({"enum": ["x", "y"]}),
            json!({"type": "boolean"}),
            json!({"type": "null", "description": "d"}),
            json!({"type": "string", "format": "uri"}),
            json!({"type": "string", "minLength": 3, "maxLength": 3}),
            json!({"type": "integer", "minimum": 5}),
            json!({"type": "number", "maximum": -5}),
            json!({"type": "integer", "minimum": -5, "maximum": 5}),
            json!({"type": "array", "items": false, "maxItems": 0}),
            json!({"type": "object", "properties": {"a": false}, "additionalProperties": false}),
        ];
        for schema in plain {
            let value = sample(&schema).unwrap_or_else(|| panic!("{schema}"));
            assert_eq!(Schema::compile(schema).unwrap().check(&value), Ok(()));
        }
    }

    #[test]
    fn no_sample_value_is_generated_for_a_complex_or_unsatisfiable_schema() {
        let hard = [
            json!(false),
            json!({}),
            json!({"enum": []}),
            json!({"enum": [1], "type": "string"}),
            json!({"const": 1, "not": {"const": 1}}),
            json!({"type": ["string"]}),
            json!({"type": "string", "pattern": "^a"}),
            json!({"type": "string", "minLength": 4, "maxLength": 3}),
            json!({"type": "string", "minLength": 100}),
            json!({"type": "string", "minLength": 1.5}),
            json!({"type": "integer", "minimum": 0.5}),
            json!({"type": "integer", "minimum": 2, "maximum": 1}),
            json!({"type": "integer", "multipleOf": 2}),
            json!({"type": "array", "minItems": 1}),
            json!({"type": "object", "required": ["a"]}),
        ];
        for schema in hard {
            assert_eq!(sample(&schema), None, "{schema}");
        }
    }
}
