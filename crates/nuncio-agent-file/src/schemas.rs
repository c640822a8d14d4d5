//! JSON Schemas written as TOML.

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

use super::reader::LocatedTomlValue;
use super::similar;
use super::source::cut;
use nuncio_core::schema::{Schema, SchemaError};

/// Reads the schema of a tool's arguments.
pub(super) fn arguments(item: &LocatedTomlValue<'_>) -> Option<Schema> {
    let schema = compile(item, Schema::compile_arguments)?;
    note_required(item, schema.source());
    Some(schema)
}

/// Reads the schema of a tool's result.
pub(super) fn result(item: &LocatedTomlValue<'_>) -> Option<Schema> {
    compile(item, Schema::compile)
}

fn compile(item: &LocatedTomlValue<'_>, compile: fn(Value) -> Result<Schema, SchemaError>) -> Option<Schema> {
    if !item.value.is_table() {
        return item.wrong_kind("a table that holds a JSON Schema");
    }
    match compile(json(item)?) {
        Ok(schema) => Some(schema),
        Err(SchemaError::NotAnObject) => {
            item.position.reject("arguments are always an object", r#"needed: type = "object""#)
        }
        Err(error) => item
            .position
            .reject(format!("not a usable schema: {error}"), "allowed: JSON Schema 2020-12 without remote references"),
    }
}

/// Warns about a required argument that is not in `properties`, which is usually misspelt.
fn note_required(item: &LocatedTomlValue<'_>, schema: &Value) {
    let (Some(properties), Some(required)) = (schema["properties"].as_object(), schema["required"].as_array()) else {
        return;
    };
    for name in required.iter().filter_map(Value::as_str).filter(|name| !properties.contains_key(*name)) {
        let help = similar::help(name, "properties", properties.keys().map(String::as_str));
        item.position.note(format!("requires {:?}, which is not among its properties", cut(name)), help);
    }
}

/// Converts a TOML value to JSON. The TOML parser limits the depth.
fn json(item: &LocatedTomlValue<'_>) -> Option<Value> {
    match item.value {
        DeValue::String(text) => Some(Value::from(text.as_ref())),
        DeValue::Boolean(value) => Some(Value::from(*value)),
        DeValue::Integer(number) => {
            let (digits, radix) = (number.as_str(), number.radix());
            let signed = i64::from_str_radix(digits, radix).map(Value::from);
            let value = signed.or_else(|_| u64::from_str_radix(digits, radix).map(Value::from));
            value.ok().or_else(|| item.wrong_kind("a number of at most 64 bits"))
        }
        DeValue::Float(number) => {
            let value = number.as_str().parse().ok().and_then(Number::from_f64).map(Value::Number);
            value.or_else(|| item.wrong_kind("a finite number"))
        }
        DeValue::Datetime(_) => item.wrong_kind("a JSON value; write a date as a text in quotes"),
        DeValue::Array(_) => {
            // Every item is read, so that the faults of all items are reported.
            let items: Vec<_> = item.list("a list")?.iter().map(json).collect();
            items.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
        }
        DeValue::Table(_) => {
            let entries: Vec<_> = item.table()?.entries().into_iter().map(|(key, item)| (key, json(&item))).collect();
            let mut object = Map::new();
            for (key, value) in entries {
                object.insert(key.to_owned(), value?);
            }
            Some(Value::Object(object))
        }
    }
}
