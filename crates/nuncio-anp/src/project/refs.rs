//! Moves schemas into the components of a document and rewrites their references.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

const PREFIX: &str = "#/components/schemas/";
const DEFINITION_KEYWORDS: [&str; 2] = ["$defs", "definitions"];
const VALUE_KEYWORDS: [&str; 5] = ["const", "enum", "default", "examples", "example"];
const NAMED_SCHEMA_KEYWORDS: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

#[derive(Debug, Default)]
pub(super) struct SchemaComponents {
    schemas: BTreeMap<String, Value>,
}

impl SchemaComponents {
    /// Adds a schema and its definitions to the components, and returns the rewritten schema.
    pub(super) fn take(&mut self, name: &str, schema: &Value) -> Value {
        let root = self.free(name);
        self.schemas.insert(root.clone(), Value::Null);
        let mut moved = Vec::new();
        for section in DEFINITION_KEYWORDS {
            for (own, definition) in schema.get(section).and_then(Value::as_object).into_iter().flatten() {
                let key = self.free(&format!("{name}.{}", plain(own)));
                self.schemas.insert(key.clone(), Value::Null);
                moved.push((format!("#/{section}/{}", own.replace('~', "~0").replace('/', "~1")), key, definition));
            }
        }
        let rewriter = SchemaReferenceRewriter {
            root: &root,
            moved: moved.iter().map(|(pointer, key, _)| (pointer.as_str(), key.as_str())).collect(),
        };
        for (_, key, definition) in &moved {
            self.schemas.insert(key.clone(), rewriter.schema(definition));
        }
        let mut schema = schema.clone();
        if let Some(object) = schema.as_object_mut() {
            DEFINITION_KEYWORDS.iter().for_each(|section| drop(object.shift_remove(*section)));
            // `$schema` is removed, because the dialect is declared once per document.
            object.shift_remove("$schema");
        }
        let schema = rewriter.schema(&schema);
        self.schemas.insert(root, schema.clone());
        schema
    }

    fn free(&self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let names = std::iter::once(name.to_owned()).chain(numbered);
        names.into_iter().find(|name| !self.schemas.contains_key(name)).unwrap_or_default()
    }

    pub(super) fn into_json(self, security_schemes: Value) -> Map<String, Value> {
        let schemas: Map<String, Value> = self.schemas.into_iter().collect();
        Map::from_iter([("schemas".to_owned(), schemas.into()), ("securitySchemes".to_owned(), security_schemes)])
    }
}

/// Replaces characters that OpenRPC component names may not have.
fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

struct SchemaReferenceRewriter<'a> {
    root: &'a str,
    /// Pairs of a definition's JSON pointer and its component name.
    moved: Vec<(&'a str, &'a str)>,
}

impl SchemaReferenceRewriter<'_> {
    fn schema(&self, schema: &Value) -> Value {
        match schema {
            // References inside a schema with its own `$id` are relative to that `$id` and stay unchanged.
            Value::Object(object) if !object.contains_key("$id") => {
                let rewrite = |(key, value): (&String, &Value)| {
                    let value = match (key.as_str(), value) {
                        ("$ref", Value::String(reference)) => Value::String(self.reference(reference)),
                        (key, value) if VALUE_KEYWORDS.contains(&key) => value.clone(),
                        (key, Value::Object(named)) if NAMED_SCHEMA_KEYWORDS.contains(&key) => {
                            named.iter().map(|(name, schema)| (name.clone(), self.schema(schema))).collect()
                        }
                        (_, value) => self.schema(value),
                    };
                    (key.clone(), value)
                };
                object.iter().map(rewrite).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.schema(item)).collect(),
            other => other.clone(),
        }
    }

    fn reference(&self, reference: &str) -> String {
        for (pointer, key) in &self.moved {
            if let Some(rest) = reference.strip_prefix(pointer)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                return format!("{PREFIX}{key}{rest}");
            }
        }
        match reference.strip_prefix('#') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{PREFIX}{}{rest}", self.root),
            _ => reference.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_references_are_rewritten_to_components() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "guest": {"$ref": "#/$defs/Guest"},
                "city": {"$ref": "#/$defs/Guest/properties/city"},
                "again": {"$ref": "#"},
                "same": {"$ref": "#/properties/guest"},
                "odd": {"$ref": "#/definitions/a~1b"},
                "$ref": {"const": {"$ref": "#/$defs/Guest"}},
                "const": {"$ref": "#/$defs/Guest"},
            },
            "$defs": {"Guest": {"properties": {"city": {}, "friend": {"$ref": "#/$defs/Guest"}}}},
            "definitions": {"a/b": true},
        });
        let mut components = SchemaComponents::default();
        let taken = components.take("t.input", &schema);
        assert_eq!(taken["properties"]["guest"]["$ref"], "#/components/schemas/t.input.Guest");
        assert_eq!(taken["properties"]["city"]["$ref"], "#/components/schemas/t.input.Guest/properties/city");
        assert_eq!(taken["properties"]["again"]["$ref"], "#/components/schemas/t.input");
        assert_eq!(taken["properties"]["same"]["$ref"], "#/components/schemas/t.input/properties/guest");
        assert_eq!(taken["properties"]["odd"]["$ref"], "#/components/schemas/t.input.a_b");
        assert_eq!(taken["properties"]["$ref"]["const"]["$ref"], "#/$defs/Guest");
        assert_eq!(taken["properties"]["const"]["$ref"], "#/components/schemas/t.input.Guest");
        assert!(taken.get("$defs").is_none() && taken.get("$schema").is_none());
        let all = components.into_json(json!({}));
        let guest = &all["schemas"]["t.input.Guest"];
        assert_eq!(guest["properties"]["friend"]["$ref"], "#/components/schemas/t.input.Guest");
        // Every reference can be resolved.
        fn check(value: &Value, document: &Value) {
            match value {
                Value::Object(object) => object.iter().for_each(|(key, value)| match value.as_str() {
                    Some(reference) if key == "$ref" && reference.starts_with(PREFIX) => {
                        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
                    }
                    _ => check(value, document),
                }),
                Value::Array(items) => items.iter().for_each(|item| check(item, document)),
                _ => {}
            }
        }
        let document = json!({"components": all});
        check(&document, &document);
    }

    #[test]
    fn colliding_component_names_are_numbered() {
        let mut components = SchemaComponents::default();
        components.take("a.input", &json!({"$defs": {"x y": {"const": 1}, "x_y": {"const": 2}}}));
        components.take("a.input", &json!({}));
        let all = components.into_json(json!({}));
        let names: Vec<_> = all["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["a.input", "a.input.x_y", "a.input.x_y_2", "a.input_2"]);
    }
}
