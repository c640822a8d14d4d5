//! `schema.json`: JSON Schema 2020-12.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::model::{Definition, Field, Rule, Shape};
use super::{CATALOGUE, Published, Words};

/// The draft it is written in.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The file's text.
///
/// # Panics
/// Never: a tree of texts can always be written.
#[must_use]
pub fn text() -> String {
    let mut root = vec![("$schema".to_owned(), Node::from(DRAFT))];
    let mut defs = Vec::new();
    for (place, one) in CATALOGUE.iter().enumerate() {
        if place == 0 {
            root.push(("title".to_owned(), one.name().into()));
            root.extend(published(one));
            defs.push((one.name().to_owned(), Node::object([("$ref", "#".into())])));
        } else {
            defs.push((one.name().to_owned(), Node::Object(published(one))));
        }
    }
    root.push(("$defs".to_owned(), Node::Object(defs)));
    let mut text = serde_json::to_string_pretty(&Node::Object(root)).expect("texts and lists can be written");
    text.push('\n');
    text
}

/// The same schema with that published definition as its root.
#[must_use]
pub fn rooted_at(name: &str) -> Value {
    let defs = CATALOGUE.iter().map(|one| (one.name().to_owned(), Node::Object(published(one)))).collect();
    json!({ "$schema": DRAFT, "$ref": format!("#/$defs/{name}"), "$defs": Node::Object(defs) })
}

/// A schema of a definition that is not published.
#[must_use]
pub fn of(definition: &Definition) -> Value {
    json!(Node::Object(object(definition, &[])))
}

fn published(one: &Published) -> Vec<(String, Node)> {
    match one {
        Published::Object(definition, rules) => object(definition, rules),
        Published::Words(Words { doc, words, .. }) => vec![
            ("description".to_owned(), (*doc).into()),
            ("enum".to_owned(), Node::list(words.iter().map(|(word, _)| *word))),
        ],
    }
}

fn object(definition: &Definition, rules: &[Rule]) -> Vec<(String, Node)> {
    let required = definition.fields.iter().filter(|field| field.required).map(|field| field.name);
    let properties = definition.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let mut schema = vec![
        ("description".to_owned(), definition.doc.as_str().into()),
        ("type".to_owned(), "object".into()),
        ("required".to_owned(), Node::list(required)),
        ("properties".to_owned(), Node::Object(properties)),
    ];
    if definition.fields.iter().all(|field| !field.required) {
        schema.retain(|(keyword, _)| keyword != "required");
    }
    if !rules.is_empty() {
        schema.push(("allOf".to_owned(), Node::Array(rules.iter().map(rule).collect())));
    }
    schema
}

fn property(field: &Field) -> Node {
    let mut schema = shape(&field.shape);
    schema.retain(|(keyword, _)| keyword != "description");
    schema.insert(0, ("description".to_owned(), field.doc.as_str().into()));
    Node::Object(schema)
}

fn shape(shape: &Shape) -> Vec<(String, Node)> {
    let of_type = |name: &str| ("type".to_owned(), Node::from(name));
    match shape {
        Shape::Text => vec![of_type("string")],
        Shape::Number => vec![of_type("number")],
        Shape::Boolean => vec![of_type("boolean")],
        Shape::Words(words) => vec![("enum".to_owned(), Node::list(words.iter().copied()))],
        Shape::List(item) => vec![of_type("array"), ("items".to_owned(), Node::Object(self::shape(item)))],
        Shape::Record(item) => {
            vec![of_type("object"), ("additionalProperties".to_owned(), Node::Object(self::shape(item)))]
        }
        Shape::Unknown => Vec::new(),
        Shape::Named(name) => vec![("$ref".to_owned(), Node::Text(format!("#/$defs/{name}")))],
        Shape::Nested(definition) => object(definition, &[]),
    }
}

fn rule(rule: &Rule) -> Node {
    let says = Node::object([("enum", Node::list(rule.is.iter().copied()))]);
    let condition = Node::object([
        ("properties", Node::Object(vec![(rule.field.to_owned(), says)])),
        ("required", Node::list([rule.field])),
    ]);
    let mut then = Vec::new();
    if !rule.requires.is_empty() {
        then.push(("required".to_owned(), Node::list(rule.requires.iter().copied())));
    }
    if !rule.forbids.is_empty() {
        let forbidden = rule.forbids.iter().map(|path| match path.split_once('/') {
            Some((outer, inner)) => {
                let inner = Node::Object(vec![(inner.to_owned(), Node::Boolean(false))]);
                (outer.to_owned(), Node::object([("properties", inner)]))
            }
            None => ((*path).to_owned(), Node::Boolean(false)),
        });
        then.push(("properties".to_owned(), Node::Object(forbidden.collect())));
    }
    Node::object([("if", condition), ("then", Node::Object(then))])
}

/// JSON that keeps the order it was built in.
enum Node {
    Text(String),
    Boolean(bool),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn object<const N: usize>(members: [(&str, Node); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, node)| (name.to_owned(), node)).collect())
    }

    fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Array(words.into_iter().map(Self::from).collect())
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => out.serialize_str(text),
            Self::Boolean(value) => out.serialize_bool(*value),
            Self::Array(items) => out.collect_seq(items),
            Self::Object(members) => out.collect_map(members.iter().map(|(name, node)| (name, node))),
        }
    }
}
