//! OpenAPI paths and components of Skill Sharing. The components are the published schemas.

use serde_json::{Value, json};

use crate::schema;

/// OpenAPI `paths`, relative to the server's root.
pub(crate) const PATHS: &str = include_str!("openapi/paths.json");

pub(crate) fn components() -> String {
    let mut schemas = schema::json_definitions();
    schemas["SkillError"] = schema::error_schema();
    schemas["RegistryPage"] = registry_page();
    json!({"schemas": rewrite_references(schemas)}).to_string()
}

fn registry_page() -> Value {
    let found = json!({
        "type": "object",
        "required": ["provider", "origin", "tags", "last_seen"],
        "properties": {
            "provider": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "url": {"type": "string"}},
            },
            "origin": {"type": "string", "description": "Origin of the host whose index lists the skill."},
            "tags": {"type": "array", "items": {"type": "string"}},
            "last_seen": {"type": "string", "format": "date-time"},
        },
    });
    json!({
        "type": "object",
        "required": ["skills"],
        "properties": {
            "skills": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/SkillIndexEntry"}, found]}},
            "next_cursor": {"type": "string", "description": "The `cursor` of the next page; absent on the last page."},
        },
    })
}

/// Rewrites `$defs` references to `#/components/schemas`.
fn rewrite_references(schema: Value) -> Value {
    match schema {
        Value::Object(object) => {
            let entry = |(key, value): (String, Value)| match (key.as_str(), &value) {
                ("$ref", Value::String(target)) => {
                    (key, Value::String(target.replace("#/$defs/", "#/components/schemas/")))
                }
                _ => (key, rewrite_references(value)),
            };
            object.into_iter().map(entry).collect()
        }
        Value::Array(values) => values.into_iter().map(rewrite_references).collect(),
        other => other,
    }
}
