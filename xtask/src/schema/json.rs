//! Generates `schema.json` (JSON Schema 2020-12).

use nuncio_skill::schema::model::{FieldDefinition, FieldDependencyRule, ObjectDefinition, ValueShape};
use nuncio_skill::schema::{CATALOGUE, EnumDefinition, PublishedSchemaDefinition};
use serde::{Serialize, Serializer};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) fn text() -> String {
    let mut root = vec![("$schema".to_owned(), OrderedJsonValue::from(DRAFT))];
    let mut defs = Vec::new();
    for (place, one) in CATALOGUE.iter().enumerate() {
        if place == 0 {
            root.push(("title".to_owned(), one.name().into()));
            root.extend(published(one));
            defs.push((one.name().to_owned(), OrderedJsonValue::object([("$ref", "#".into())])));
        } else {
            defs.push((one.name().to_owned(), OrderedJsonValue::Object(published(one))));
        }
    }
    root.push(("$defs".to_owned(), OrderedJsonValue::Object(defs)));
    let mut text =
        serde_json::to_string_pretty(&OrderedJsonValue::Object(root)).expect("texts and lists can be written");
    text.push('\n');
    text
}

fn published(one: &PublishedSchemaDefinition) -> Vec<(String, OrderedJsonValue)> {
    match one {
        PublishedSchemaDefinition::Object(definition, rules) => object(definition, rules),
        PublishedSchemaDefinition::Enum(EnumDefinition { doc, values, .. }) => {
            vec![
                ("description".to_owned(), (*doc).into()),
                ("enum".to_owned(), OrderedJsonValue::list(values.iter().copied())),
            ]
        }
    }
}

fn object(definition: &ObjectDefinition, rules: &[FieldDependencyRule]) -> Vec<(String, OrderedJsonValue)> {
    let required = definition.fields.iter().filter(|field| field.required).map(|field| field.name);
    let properties = definition.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let mut schema = vec![
        ("description".to_owned(), definition.doc.as_str().into()),
        ("type".to_owned(), "object".into()),
        ("required".to_owned(), OrderedJsonValue::list(required)),
        ("properties".to_owned(), OrderedJsonValue::Object(properties)),
    ];
    if definition.fields.iter().all(|field| !field.required) {
        schema.retain(|(keyword, _)| keyword != "required");
    }
    if !rules.is_empty() {
        schema.push(("allOf".to_owned(), OrderedJsonValue::Array(rules.iter().map(rule).collect())));
    }
    schema
}

fn property(field: &FieldDefinition) -> OrderedJsonValue {
    let mut schema = shape(&field.shape);
    schema.retain(|(keyword, _)| keyword != "description");
    schema.insert(0, ("description".to_owned(), field.doc.as_str().into()));
    OrderedJsonValue::Object(schema)
}

fn shape(shape: &ValueShape) -> Vec<(String, OrderedJsonValue)> {
    let of_type = |name: &str| ("type".to_owned(), OrderedJsonValue::from(name));
    match shape {
        ValueShape::Text => vec![of_type("string")],
        ValueShape::Number => vec![of_type("number")],
        ValueShape::Boolean => vec![of_type("boolean")],
        ValueShape::Enum(words) => vec![("enum".to_owned(), OrderedJsonValue::list(words.iter().copied()))],
        ValueShape::List(item) => {
            vec![of_type("array"), ("items".to_owned(), OrderedJsonValue::Object(self::shape(item)))]
        }
        ValueShape::Record(item) => {
            vec![of_type("object"), ("additionalProperties".to_owned(), OrderedJsonValue::Object(self::shape(item)))]
        }
        ValueShape::Unknown => Vec::new(),
        ValueShape::Reference(name) => vec![("$ref".to_owned(), OrderedJsonValue::Text(format!("#/$defs/{name}")))],
        ValueShape::Nested(definition) => object(definition, &[]),
    }
}

fn rule(rule: &FieldDependencyRule) -> OrderedJsonValue {
    let says = OrderedJsonValue::object([("enum", OrderedJsonValue::list(rule.is.iter().copied()))]);
    let condition = OrderedJsonValue::object([
        ("properties", OrderedJsonValue::Object(vec![(rule.field.to_owned(), says)])),
        ("required", OrderedJsonValue::list([rule.field])),
    ]);
    let mut then = Vec::new();
    if !rule.requires.is_empty() {
        then.push(("required".to_owned(), OrderedJsonValue::list(rule.requires.iter().copied())));
    }
    if !rule.forbids.is_empty() {
        let forbidden = rule.forbids.iter().map(|path| match path.split_once('/') {
            Some((outer, inner)) => {
                let inner = OrderedJsonValue::Object(vec![(inner.to_owned(), OrderedJsonValue::Boolean(false))]);
                (outer.to_owned(), OrderedJsonValue::object([("properties", inner)]))
            }
            None => ((*path).to_owned(), OrderedJsonValue::Boolean(false)),
        });
        then.push(("properties".to_owned(), OrderedJsonValue::Object(forbidden.collect())));
    }
    OrderedJsonValue::object([("if", condition), ("then", OrderedJsonValue::Object(then))])
}

/// JSON value that keeps the order of its members.
enum OrderedJsonValue {
    Text(String),
    Boolean(bool),
    Array(Vec<OrderedJsonValue>),
    Object(Vec<(String, OrderedJsonValue)>),
}

impl OrderedJsonValue {
    fn object<const N: usize>(members: [(&str, OrderedJsonValue); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, node)| (name.to_owned(), node)).collect())
    }

    fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Array(words.into_iter().map(Self::from).collect())
    }
}

impl From<&str> for OrderedJsonValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Serialize for OrderedJsonValue {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => out.serialize_str(text),
            Self::Boolean(value) => out.serialize_bool(*value),
            Self::Array(items) => out.collect_seq(items),
            Self::Object(members) => out.collect_map(members.iter().map(|(name, node)| (name, node))),
        }
    }
}
