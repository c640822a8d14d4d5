//! Checks inputs against a descriptor (§3.5.2).

use nuncio_core::json::pointer;
use nuncio_core::schema::{MAX_DEPTH, Schema, depth};
use serde_json::{Map, Value};

use super::error::plain;
use crate::validate::{DocumentFault, SCHEMA_TYPES, is_of_type, type_name};
use crate::wire::{ParameterDefinition, SkillDescriptor};

/// Checks inputs for missing and unknown names, types and schemas, and fills in defaults.
///
/// # Errors
/// Returns all faults; their paths begin with `/inputs`.
pub fn check(
    descriptor: &SkillDescriptor,
    inputs: &Map<String, Value>,
) -> Result<Map<String, Value>, Vec<DocumentFault>> {
    let mut faults = Vec::new();
    let mut filled = inputs.clone();
    for parameter in &descriptor.inputs {
        match (inputs.get(&parameter.name), &parameter.default) {
            (Some(value), _) => faults.extend(input_faults(parameter, value)),
            (None, Some(default)) => drop(filled.insert(parameter.name.clone(), default.clone())),
            (None, None) if parameter.required => {
                faults.push(fault(&parameter.name, "is required", parameter.r#type.as_str().into(), "missing".into()));
            }
            (None, None) => {}
        }
    }
    let names: Vec<&str> = descriptor.inputs.iter().map(|parameter| parameter.name.as_str()).collect();
    for name in inputs.keys().filter(|name| !names.contains(&name.as_str())) {
        faults.push(fault(name, "is not an input of this skill", names.clone().into(), plain(name).into()));
    }
    if faults.is_empty() { Ok(filled) } else { Err(faults) }
}

/// Parses an input given as text: unchanged for a string parameter, as JSON for any other type. `None` if the skill has
/// no such input, or the text is not of its type.
pub fn typed(descriptor: &SkillDescriptor, name: &str, text: &str) -> Option<Value> {
    let parameter = descriptor.inputs.iter().find(|parameter| parameter.name == name)?;
    match parameter.r#type.as_str() {
        "string" => Some(text.into()),
        kind => {
            let is_known_type = SCHEMA_TYPES.contains(&kind);
            let parsed = serde_json::from_str(text).ok().filter(|value| is_of_type(value, kind));
            parsed.or_else(|| (!is_known_type).then(|| text.into()))
        }
    }
}

fn input_faults(parameter: &ParameterDefinition, value: &Value) -> Vec<DocumentFault> {
    let (name, kind) = (&parameter.name, parameter.r#type.as_str());
    if depth(value) >= MAX_DEPTH {
        return vec![fault(name, "nests too deep", MAX_DEPTH.into(), Value::Null)];
    }
    if !is_of_type(value, kind) {
        return vec![fault(name, &format!("must be {kind}"), kind.into(), type_name(value).into())];
    }
    // A schema that cannot be compiled was reported as a warning; the provider checks the value.
    let schema = parameter.schema.clone().and_then(|schema| Schema::compile(Value::Object(schema)).ok());
    let Some(Err(faults)) = schema.map(|schema| schema.check(value)) else { return Vec::new() };
    let below = |one: nuncio_core::schema::SchemaViolation| {
        let mut fault = fault(name, &one.message, Value::Null, Value::Null);
        fault.path.push_str(&one.pointer);
        fault
    };
    faults.into_iter().map(below).collect()
}

fn fault(name: &str, message: &str, expected: Value, actual: Value) -> DocumentFault {
    let path = pointer("/inputs", &plain(name));
    DocumentFault { path, message: plain(message), expected, actual }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn descriptor() -> SkillDescriptor {
        let inputs = json!([
            {"name": "city", "type": "string", "description": "d", "required": true},
            {"name": "days", "type": "integer", "description": "d", "required": false, "default": 7,
             "schema": {"minimum": 1}},
            {"name": "odd", "type": "temperature", "description": "d", "required": false},
            {"name": "place", "type": "object", "description": "d", "required": false,
             "schema": {"properties": {"lat": {"type": "number"}}, "required": ["lat"]}},
        ]);
        let document = json!({
            "protocol": {"version": "1.0.0"}, "id": "a/b", "name": "n", "version": "1.0.0", "capability_type": "api",
            "description": "d", "provider": {"name": "p"}, "endpoint": {"url": "https://a.example/", "method": "POST"},
            "inputs": inputs, "output": {"content_type": "application/json"}, "auth": {"type": "none"},
            "access": "public",
        });
        serde_json::from_value(document).unwrap()
    }

    fn fault_messages(inputs: Value) -> Vec<String> {
        let Value::Object(inputs) = inputs else { panic!("an object") };
        check(&descriptor(), &inputs).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn input_check_reports_all_faults_at_once() {
        let faults = fault_messages(json!({"days": 0, "place": {"lat": "x"}, "more/": 1}));
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(faults[0].starts_with("/inputs/city is required"), "{faults:?}");
        assert!(faults[1].starts_with("/inputs/days "), "{faults:?}");
        assert!(faults[2].starts_with("/inputs/place/lat "), "{faults:?}");
        assert!(faults[3].starts_with("/inputs/more~1 is not an input"), "{faults:?}");
        assert!(fault_messages(json!({"city": 1}))[0].contains("must be string"));
        assert!(fault_messages(json!({"city": "x", "days": 1.5}))[0].contains("must be integer"));
    }

    #[test]
    fn missing_optional_inputs_get_their_defaults() {
        let Value::Object(inputs) = json!({"city": "Rome", "odd": [1]}) else { panic!("an object") };
        let filled = check(&descriptor(), &inputs).unwrap();
        assert_eq!(Value::Object(filled), json!({"city": "Rome", "days": 7, "odd": [1]}));
    }

    #[test]
    fn text_input_is_converted_to_the_type_of_its_parameter_or_refused() {
        let descriptor = descriptor();
        let read = |name: &str, text: &str| typed(&descriptor, name, text);
        assert_eq!(read("city", "7"), Some(json!("7")));
        assert_eq!(read("days", "7"), Some(json!(7)));
        assert_eq!(read("days", "seven"), None);
        assert_eq!(read("days", "7.5"), None);
        assert_eq!(read("place", r#"{"lat":1}"#), Some(json!({"lat": 1})));
        assert_eq!(read("place", "[]"), None);
        assert_eq!(read("odd", "warm"), Some(json!("warm")));
        assert_eq!(read("none", "x"), None);
    }
}
