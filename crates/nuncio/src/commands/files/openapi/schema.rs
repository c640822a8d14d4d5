//! OpenAPI schemas as JSON Schema 2020-12, with their references resolved.

use serde_json::{Map, Value, json};

use super::document::OpenApiDocument;

/// Limit of nested schemas. An agent file nests them twice as deep, and TOML is read to a depth of 80.
const MAX_DEPTH: usize = 24;
/// Limit of the schemas in one operation, after references were resolved.
const MAX_SCHEMAS: usize = 2000;

/// Keywords without meaning for the arguments of a tool.
const DROPPED: [&str; 12] = [
    "nullable",
    "example",
    "examples",
    "xml",
    "externalDocs",
    "discriminator",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$comment",
];

/// Converts the schemas of one operation.
pub(super) struct SchemaConverter<'a> {
    document: &'a OpenApiDocument,
    schemas: usize,
    /// References that lead to the current schema.
    open: Vec<String>,
}

impl<'a> SchemaConverter<'a> {
    pub(super) fn new(document: &'a OpenApiDocument) -> Self {
        Self { document, schemas: 0, open: Vec::new() }
    }

    /// Converts a schema of a request. A reference to a schema that contains it becomes a schema without rules.
    pub(super) fn convert(&mut self, schema: &Value) -> Result<Value, String> {
        self.convert_at(schema, 0)
    }

    fn convert_at(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            return Err(format!("it has more than {MAX_SCHEMAS} schemas with its references resolved"));
        }
        if depth > MAX_DEPTH {
            return Err(format!("its schemas are nested deeper than {MAX_DEPTH} levels"));
        }
        let Some(object) = schema.as_object() else {
            return Ok(if schema.is_boolean() { schema.clone() } else { json!({}) });
        };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            return self.referenced(reference, depth);
        }
        let mut out = Map::new();
        for (key, value) in object {
            if DROPPED.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }
            if let Some(converted) = self.keyword(key, value, object, depth)? {
                out.insert(key.clone(), converted);
            }
        }
        drop_read_only(object, &mut out);
        if object.get("nullable") == Some(&Value::Bool(true)) {
            allow_null(&mut out);
        }
        Ok(Value::Object(out))
    }

    fn referenced(&mut self, reference: &str, depth: usize) -> Result<Value, String> {
        let target = self.document.target(reference)?;
        if self.open.iter().any(|open| open == reference) {
            return Ok(target.get("type").map_or_else(|| json!({}), |kind| json!({"type": kind})));
        }
        self.open.push(reference.to_owned());
        let converted = self.convert_at(target, depth + 1);
        self.open.pop();
        converted
    }

    fn keyword(
        &mut self,
        key: &str,
        value: &Value,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> Result<Option<Value>, String> {
        let converted = match (key, value) {
            ("properties" | "patternProperties" | "$defs" | "dependentSchemas", Value::Object(schemas)) => {
                let mut out = Map::new();
                for (name, schema) in schemas {
                    out.insert(name.clone(), self.convert_at(schema, depth + 1)?);
                }
                Value::Object(out)
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().map(|schema| self.convert_at(schema, depth + 1)).collect::<Result<_, _>>()?
            }
            (
                "items"
                | "additionalProperties"
                | "not"
                | "propertyNames"
                | "contains"
                | "if"
                | "then"
                | "else"
                | "unevaluatedProperties"
                | "unevaluatedItems",
                schema,
            ) => self.convert_at(schema, depth + 1)?,
            // OpenAPI 3.0: a flag beside `minimum` and `maximum`; later a number of its own.
            ("exclusiveMinimum", Value::Bool(flag)) => return Ok(exclusive(*flag, schema.get("minimum"))),
            ("exclusiveMaximum", Value::Bool(flag)) => return Ok(exclusive(*flag, schema.get("maximum"))),
            _ => value.clone(),
        };
        Ok(Some(converted))
    }
}

fn exclusive(flag: bool, limit: Option<&Value>) -> Option<Value> {
    limit.filter(|_| flag).cloned()
}

/// Removes properties that only responses have.
fn drop_read_only(schema: &Map<String, Value>, out: &mut Map<String, Value>) {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let is_read_only = |property: &Value| property.get("readOnly") == Some(&Value::Bool(true));
    for (name, _) in properties.filter(|(_, property)| is_read_only(property)) {
        if let Some(Value::Object(properties)) = out.get_mut("properties") {
            properties.shift_remove(name);
        }
        if let Some(Value::Array(required)) = out.get_mut("required") {
            required.retain(|entry| entry.as_str() != Some(name));
        }
    }
}

/// Adds `null` to the single type of a schema, as OpenAPI 3.0 means by `nullable`.
fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(Value::String(kind)) = schema.get("type") {
        let kinds = json!([kind, "null"]);
        schema.insert("type".to_owned(), kinds);
    }
}
