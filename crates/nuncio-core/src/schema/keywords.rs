//! The keywords of JSON Schema (Draft 2020-12) that contain other schemas, and a walk over them.

use serde_json::Value;

use crate::json::pointer;

/// Keywords whose value is a schema.
pub const ONE: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
pub const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas by name.
pub const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Calls `visit` with a schema and every schema inside it, each with its JSON pointer. Values of `const` or `default`
/// are data and are skipped.
pub fn each<'a>(schema: &'a Value, location: &str, visit: &mut impl FnMut(&'a Value, &str)) {
    visit(schema, location);
    let Some(map) = schema.as_object() else { return };
    for (keyword, value) in map {
        let keyword = keyword.as_str();
        let location = || pointer(location, keyword);
        match value {
            Value::Object(_) | Value::Bool(_) if ONE.contains(&keyword) => each(value, &location(), visit),
            Value::Array(items) if LIST.contains(&keyword) => {
                let location = location();
                for (index, item) in items.iter().enumerate() {
                    each(item, &format!("{location}/{index}"), visit);
                }
            }
            Value::Object(named) if NAMED.contains(&keyword) => {
                let location = location();
                named.iter().for_each(|(name, item)| each(item, &pointer(&location, name), visit));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn subschemas_are_visited_but_const_and_default_values_are_not() {
        let schema = json!({
            "properties": {"a/b": {"items": true}, "pattern": {"type": "string"}},
            "const": {"properties": {"x": {"not": {}}}},
            "default": {"items": {}},
            "anyOf": [{"if": {}}, false],
            "items": [{}],
        });
        let mut found = Vec::new();
        each(&schema, "/s", &mut |_, location| found.push(location.to_owned()));
        found.sort();
        let wanted = [
            "/s",
            "/s/anyOf/0",
            "/s/anyOf/0/if",
            "/s/anyOf/1",
            "/s/properties/a~1b",
            "/s/properties/a~1b/items",
            "/s/properties/pattern",
        ];
        assert_eq!(found, wanted);
    }
}
