//! Generates `schema.json` (JSON Schema 2020-12).

use nuncio_skill::schema::model::{Field, FieldRule, ObjectDefinition, Shape};
use nuncio_skill::schema::{CATALOGUE, EnumDefinition, PublishedSchemaDefinition};
use serde::{Serialize, Serializer};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) fn text() -> String {
    let mut root = vec![("$schema".to_owned(), JsonNode::from(DRAFT))];
    let mut defs = Vec::new();
    for (place, one) in CATALOGUE.iter().enumerate() {
        if place == 0 {
            root.push(("title".to_owned(), one.name().into()));
            root.extend(published(one));
            defs.push((one.name().to_owned(), JsonNode::object([("$ref", "#".into())])));
        } else {
            defs.push((one.name().to_owned(), JsonNode::Object(published(one))));
        }
    }
    root.push(("$defs".to_owned(), JsonNode::Object(defs)));
    let mut text = serde_json::to_string_pretty(&JsonNode::Object(root)).expect("texts and lists can be written");
    text.push('\n');
    text
}

fn published(one: &PublishedSchemaDefinition) -> Vec<(String, JsonNode)> {
    match one {
        PublishedSchemaDefinition::Object(definition, rules) => object(definition, rules),
        PublishedSchemaDefinition::Enum(EnumDefinition { doc, values, .. }) => {
            vec![("description".to_owned(), (*doc).into()), ("enum".to_owned(), JsonNode::list(values.iter().copied()))]
        }
    }
}

fn object(definition: &ObjectDefinition, rules: &[FieldRule]) -> Vec<(String, JsonNode)> {
    let required = definition.fields.iter().filter(|field| field.required).map(|field| field.name);
    let properties = definition.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let mut schema = vec![
        ("description".to_owned(), definition.doc.as_str().into()),
        ("type".to_owned(), "object".into()),
        ("required".to_owned(), JsonNode::list(required)),
        ("properties".to_owned(), JsonNode::Object(properties)),
    ];
    if definition.fields.iter().all(|field| !field.required) {
        schema.retain(|(keyword, _)| keyword != "required");
    }
    if !rules.is_empty() {
        schema.push(("allOf".to_owned(), JsonNode::Array(rules.iter().map(rule).collect())));
    }
    schema
}

fn property(field: &Field) -> JsonNode {
    let mut schema = shape(&field.shape);
    schema.retain(|(keyword, _)| keyword != "description");
    schema.insert(0, ("description".to_owned(), field.doc.as_str().into()));
    JsonNode::Object(schema)
}

fn shape(shape: &Shape) -> Vec<(String, JsonNode)> {
    let of_type = |name: &str| ("type".to_owned(), JsonNode::from(name));
    match shape {
        Shape::Text => vec![of_type("string")],
        Shape::Number => vec![of_type("number")],
        Shape::Boolean => vec![of_type("boolean")],
        Shape::Enum(words) => vec![("enum".to_owned(), JsonNode::list(words.iter().copied()))],
        Shape::List(item) => vec![of_type("array"), ("items".to_owned(), JsonNode::Object(self::shape(item)))],
        Shape::Record(item) => {
            vec![of_type("object"), ("additionalProperties".to_owned(), JsonNode::Object(self::shape(item)))]
        }
        Shape::Unknown => Vec::new(),
        Shape::Reference(name) => vec![("$ref".to_owned(), JsonNode::Text(format!("#/$defs/{name}")))],
        Shape::Nested(definition) => object(definition, &[]),
    }
}

fn rule(rule: &FieldRule) -> JsonNode {
    let says = JsonNode::object([("enum", JsonNode::list(rule.is.iter().copied()))]);
    let condition = JsonNode::object([
        ("properties", JsonNode::Object(vec![(rule.field.to_owned(), says)])),
        ("required", JsonNode::list([rule.field])),
    ]);
    let mut then = Vec::new();
    if !rule.requires.is_empty() {
        then.push(("required".to_owned(), JsonNode::list(rule.requires.iter().copied())));
    }
    if !rule.forbids.is_empty() {
        let forbidden = rule.forbids.iter().map(|path| match path.split_once('/') {
            Some((outer, inner)) => {
                let inner = JsonNode::Object(vec![(inner.to_owned(), JsonNode::Boolean(false))]);
                (outer.to_owned(), JsonNode::object([("properties", inner)]))
            }
            None => ((*path).to_owned(), JsonNode::Boolean(false)),
        });
        then.push(("properties".to_owned(), JsonNode::Object(forbidden.collect())));
    }
    JsonNode::object([("if", condition), ("then", JsonNode::Object(then))])
}

/// JSON value that keeps the order of its members.
enum JsonNode {
    Text(String),
    Boolean(bool),
    Array(Vec<JsonNode>),
    Object(Vec<(String, JsonNode)>),
}

impl JsonNode {
    fn object<const N: usize>(members: [(&str, JsonNode); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, node)| (name.to_owned(), node)).collect())
    }

    fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Array(words.into_iter().map(Self::from).collect())
    }
}

impl From<&str> for JsonNode {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Serialize for JsonNode {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => out.serialize_str(text),
            Self::Boolean(value) => out.serialize_bool(*value),
            Self::Array(items) => out.collect_seq(items),
            Self::Object(members) => out.collect_map(members.iter().map(|(name, node)| (name, node))),
        }
    }
}
