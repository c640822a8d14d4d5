//! Checks of the keys after a template's variable against the JSON Schema of its value.

use serde_json::{Map, Value};

use nuncio_core::template::VariablePathStep;

/// What a schema says about a variable's keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SchemaPathLookupResult<'s> {
    /// The schema has the keys, or allows values of any form.
    Known,
    /// The schema has the keys, but the value may be left out; the name of the first optional key.
    Optional(&'s str),
    Unknown(UnknownSchemaKey<'s>),
}

/// A key that a schema does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownSchemaKey<'s> {
    pub(super) key: &'s str,
    /// Keys that the schema has at this level.
    pub(super) properties: Vec<&'s str>,
    /// Whether the schema refuses values with this key.
    pub(super) is_refused: bool,
}

/// Follows the keys through a schema. Schemas that combine others are not followed.
pub(super) fn follow<'s>(schema: &'s Value, steps: &'s [VariablePathStep]) -> SchemaPathLookupResult<'s> {
    const COMBINING_KEYWORDS: [&str; 8] =
        ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"];
    let (mut schema, mut optional) = (schema, None);
    for (depth, step) in steps.iter().enumerate() {
        let Some(keywords) = schema.as_object() else { return SchemaPathLookupResult::Known };
        if COMBINING_KEYWORDS.iter().any(|keyword| keywords.contains_key(*keyword)) {
            return SchemaPathLookupResult::Known;
        }
        let has_keys = keywords.get("type").is_none_or(|kind| allows(kind, &["object"]));
        let has_items = keywords.get("type").is_none_or(|kind| allows(kind, &["array", "string"]));
        schema = match step {
            VariablePathStep::Index if has_items => match keywords.get("items") {
                Some(items) if !keywords.contains_key("prefixItems") => items,
                _ => return SchemaPathLookupResult::Known,
            },
            VariablePathStep::Index => return SchemaPathLookupResult::Known,
            VariablePathStep::Key(key) if !has_keys => {
                return SchemaPathLookupResult::Unknown(UnknownSchemaKey {
                    key,
                    properties: Vec::new(),
                    is_refused: true,
                });
            }
            VariablePathStep::Key(key) => {
                let properties = keywords.get("properties").and_then(Value::as_object);
                let is_refused = keywords.get("additionalProperties") == Some(&Value::Bool(false));
                match properties.and_then(|properties| properties.get(key)) {
                    Some(property) => {
                        let required = keywords.get("required").and_then(Value::as_array);
                        if !required.is_some_and(|names| names.iter().any(|name| name == key)) {
                            optional = optional.or(Some(key.as_str()));
                        }
                        property
                    }
                    None if keywords.get("additionalProperties").is_some_and(Value::is_object) => {
                        return SchemaPathLookupResult::Known;
                    }
                    // A schema without `properties` allows values of any form. For the whole value that is more
                    // likely an omission, unless the schema says it.
                    None if properties.is_none() && !is_refused && (depth > 0 || is_open(keywords)) => {
                        return SchemaPathLookupResult::Known;
                    }
                    None => {
                        let properties = properties.into_iter().flat_map(|properties| properties.keys());
                        let properties = properties.map(String::as_str).collect();
                        return SchemaPathLookupResult::Unknown(UnknownSchemaKey { key, properties, is_refused });
                    }
                }
            }
        };
    }
    optional.map_or(SchemaPathLookupResult::Known, SchemaPathLookupResult::Optional)
}

/// Whether a schema without `properties` says that values may have other ones.
fn is_open(keywords: &Map<String, Value>) -> bool {
    ["additionalProperties", "unevaluatedProperties", "propertyNames", "minProperties"]
        .iter()
        .any(|keyword| keywords.contains_key(*keyword))
}

/// Whether the `type` of a schema allows one of these types.
fn allows(kind: &Value, types: &[&str]) -> bool {
    let is_one = |kind: &Value| kind.as_str().is_none_or(|kind| types.contains(&kind));
    match kind {
        Value::Array(kinds) => kinds.iter().any(is_one),
        one => is_one(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn keys(path: &str) -> Vec<VariablePathStep> {
        let step = |part: &str| match part {
            "0" => VariablePathStep::Index,
            key => VariablePathStep::Key(key.to_owned()),
        };
        path.split('.').map(step).collect()
    }

    #[test]
    fn keys_are_followed_through_objects_and_lists_of_a_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "rooms": {"type": "array", "items": {
                    "type": "object", "properties": {"id": {}}, "required": ["id"], "additionalProperties": false,
                }},
                "any": {},
                "one": {"oneOf": [{"type": "string"}]},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["name", "rooms", "any", "one", "map"],
        });
        let follow = |path: &str| match super::follow(&schema, &keys(path)) {
            SchemaPathLookupResult::Known => "known".to_owned(),
            SchemaPathLookupResult::Optional(key) => format!("optional {key}"),
            SchemaPathLookupResult::Unknown(UnknownSchemaKey { key, properties, is_refused }) => {
                format!("no {key} in {properties:?}, refused: {is_refused}")
            }
        };
        for known in ["name", "rooms.0.id", "any.a.b", "one.a", "map.a"] {
            assert_eq!(follow(known), "known", "{known}");
        }
        assert_eq!(follow("rooms.0.nr"), r#"no nr in ["id"], refused: true"#);
        assert_eq!(follow("name.first"), "no first in [], refused: true");
        let open = follow("nmae");
        assert!(open.starts_with("no nmae in [") && open.ends_with("], refused: false"), "{open}");
        let closed = json!({"type": "object", "additionalProperties": false});
        let unknown = UnknownSchemaKey { key: "q", properties: Vec::new(), is_refused: true };
        assert_eq!(super::follow(&closed, &keys("q")), SchemaPathLookupResult::Unknown(unknown));
        let unlisted = json!({"type": "object"});
        let unknown = UnknownSchemaKey { key: "q", properties: Vec::new(), is_refused: false };
        assert_eq!(super::follow(&unlisted, &keys("q")), SchemaPathLookupResult::Unknown(unknown));
        let open = json!({"type": "object", "additionalProperties": true});
        assert_eq!(super::follow(&open, &keys("q")), SchemaPathLookupResult::Known);
        let optional = json!({"properties": {"q": {}}});
        assert_eq!(super::follow(&optional, &keys("q")), SchemaPathLookupResult::Optional("q"));
    }
}
