//! Holds a document against the definitions and tells every fault in the words of the seed's sample
//! (§8.3.1). Finds a fault exactly when `schema.json` refuses the document; stops at a bound.

use nuncio_core::json::JsonPointer;
use serde_json::{Map, Value};

use super::Kind;
use super::shown::{shown, type_name};
use super::{DocumentFault, MAX_FAULTS};
use crate::schema::model::{Definition, Rule, Shape};
use crate::schema::{Published, Words, published};
use crate::wire::{CustomAuth, ErrorResponse, InvocationContext, InvocationResponse, Timestamps};

/// Fields beyond the schema that we write ourselves: no reason to warn.
const EXTENSIONS: &[(&str, &[&str])] = &[
    ("InvocationContext", &[InvocationContext::IDEMPOTENCY_KEY, InvocationContext::CALLBACK_URL]),
    ("InvocationResponse", &[InvocationResponse::ATTEMPT]),
    ("CustomAuth", &[CustomAuth::SCHEME]),
    ("Timestamps", &[Timestamps::EXPIRES_AT]),
];

/// What is said of a field that is not there.
pub(super) const MISSING: &str = "missing";

/// The errors and the warnings.
pub(super) fn walk(kind: Kind, document: &Value) -> (Vec<DocumentFault>, Vec<DocumentFault>) {
    let mut walk = Walk { errors: Vec::new(), warnings: Vec::new() };
    let shape = match kind {
        Kind::ErrorResponse => Shape::Nested(ErrorResponse::definition()),
        _ => Shape::Named(kind.name()),
    };
    walk.value(document, &shape, JsonPointer::Root);
    (walk.errors, walk.warnings)
}

struct Walk {
    errors: Vec<DocumentFault>,
    warnings: Vec<DocumentFault>,
}

impl Walk {
    fn value(&mut self, value: &Value, shape: &Shape, place: JsonPointer<'_>) {
        match (resolve(shape), value) {
            (Resolved::Object(definition, rules), Value::Object(map)) => self.object(map, definition, rules, place),
            (Resolved::Words(words), value) => {
                if !value.as_str().is_some_and(|word| words.has(word)) {
                    let message = "must be equal to one of the allowed values";
                    self.errors.push(DocumentFault::new(place.pointer(), message, words.all(), shown(value)));
                }
            }
            (Resolved::List(item), Value::Array(items)) => {
                for (number, value) in items.iter().enumerate() {
                    if self.errors.len() > MAX_FAULTS {
                        return;
                    }
                    self.value(value, item, JsonPointer::Item(&place, number));
                }
            }
            (Resolved::Record(item), Value::Object(map)) if *item != Shape::Unknown => {
                for (name, value) in map {
                    if self.errors.len() > MAX_FAULTS {
                        return;
                    }
                    self.value(value, item, JsonPointer::Field(&place, name));
                }
            }
            (resolved, value) => {
                if let Some(wanted) = resolved.type_name().filter(|wanted| *wanted != type_name(value)) {
                    let message = format!("must be {wanted}");
                    self.errors.push(DocumentFault::new(place.pointer(), message, wanted, type_name(value)));
                }
            }
        }
    }

    fn object(&mut self, map: &Map<String, Value>, definition: &Definition, rules: &[Rule], place: JsonPointer<'_>) {
        for field in &definition.fields {
            let inside = JsonPointer::Field(&place, field.name);
            match map.get(field.name) {
                Some(value) => self.value(value, &field.shape, inside),
                None if field.required => self.missing(field.name, &field.shape, "", inside),
                None => {}
            }
        }
        for rule in rules {
            self.rule(map, definition, rule, place);
        }
        for name in map.keys().filter(|name| !is_known(definition, name)) {
            if self.warnings.len() > MAX_FAULTS {
                break;
            }
            let known: Vec<_> = definition.fields.iter().map(|field| field.name).collect();
            let message = "is not a field of the protocol; it is kept and ignored";
            self.warnings.push(DocumentFault::new(
                JsonPointer::Field(&place, name).pointer(),
                message,
                known,
                shown(&name.as_str().into()),
            ));
        }
    }

    fn rule(&mut self, map: &Map<String, Value>, definition: &Definition, rule: &Rule, place: JsonPointer<'_>) {
        let Some(word) = map.get(rule.field).and_then(Value::as_str).filter(|word| rule.is.contains(word)) else {
            return;
        };
        let when = format!(" when {} is {word}", rule.field);
        for name in rule.requires.iter().filter(|name| !map.contains_key(**name)) {
            if let Some(field) = definition.fields.iter().find(|field| field.name == *name) {
                self.missing(name, &field.shape, &when, JsonPointer::Field(&place, name));
            }
        }
        for forbidden in rule.forbids {
            let found = match forbidden.split_once('/') {
                Some((outer, inner)) => map.get(outer).and_then(|value| value.get(inner)),
                None => map.get(*forbidden),
            };
            if let Some(value) = found {
                let path = format!("{}/{forbidden}", place.pointer());
                let message = format!("must not be present{when}");
                self.errors.push(DocumentFault::new(path, message, MISSING, type_name(value)));
            }
        }
    }

    fn missing(&mut self, name: &str, shape: &Shape, when: &str, place: JsonPointer<'_>) {
        let expected = match resolve(shape) {
            Resolved::Words(words) => words.all().into(),
            other => other.type_name().unwrap_or("any value").into(),
        };
        self.errors.push(DocumentFault {
            path: place.pointer(),
            message: format!("must have required property '{name}'{when}"),
            expected,
            actual: MISSING.into(),
        });
    }
}

fn is_known(definition: &Definition, name: &str) -> bool {
    definition.fields.iter().any(|field| field.name == name)
        || EXTENSIONS.iter().any(|(of, names)| *of == definition.name && names.contains(&name))
}

/// A shape with published names looked up.
enum Resolved<'a> {
    Scalar(&'static str),
    Words(List<'a>),
    List(&'a Shape),
    Record(&'a Shape),
    Object(&'a Definition, &'a [Rule]),
    Unknown,
}

/// A closed list of words.
enum List<'a> {
    Plain(&'a [&'static str]),
    Published(&'a Words),
}

impl List<'_> {
    fn has(&self, word: &str) -> bool {
        match self {
            Self::Plain(words) => words.contains(&word),
            Self::Published(words) => words.words.iter().any(|(one, _)| *one == word),
        }
    }

    fn all(&self) -> Vec<&'static str> {
        match self {
            Self::Plain(words) => words.to_vec(),
            Self::Published(words) => words.words.iter().map(|(word, _)| *word).collect(),
        }
    }
}

impl Resolved<'_> {
    fn type_name(&self) -> Option<&'static str> {
        match self {
            Self::Scalar(name) => Some(name),
            Self::List(_) => Some("array"),
            Self::Record(_) | Self::Object(..) => Some("object"),
            Self::Words(_) | Self::Unknown => None,
        }
    }
}

fn resolve(shape: &Shape) -> Resolved<'_> {
    match shape {
        Shape::Text => Resolved::Scalar("string"),
        Shape::Number => Resolved::Scalar("number"),
        Shape::Boolean => Resolved::Scalar("boolean"),
        Shape::Words(words) => Resolved::Words(List::Plain(words)),
        Shape::List(item) => Resolved::List(item),
        Shape::Record(item) => Resolved::Record(item),
        Shape::Unknown => Resolved::Unknown,
        Shape::Nested(definition) => Resolved::Object(definition, &[]),
        Shape::Named(name) => match published(name) {
            Some(Published::Object(definition, rules)) => Resolved::Object(definition, rules),
            Some(Published::Words(words)) => Resolved::Words(List::Published(words)),
            None => Resolved::Unknown,
        },
    }
}

#[cfg(test)]
mod tests;
