//! Checks a document against the definitions and words every fault as in §8.3.1. It finds a fault exactly when
//! `schema.json` rejects the document, and stops at [`super::MAX_FAULTS`].

use nuncio_core::json::JsonPointer;
use serde_json::{Map, Value};

use super::Kind;
use super::actual_value::{actual_value, type_name};
use super::{DocumentFault, MAX_FAULTS};
use crate::schema::model::{Definition, FieldRule, Shape};
use crate::schema::{EnumDefinition, PublishedDefinition, published};
use crate::wire::{CustomAuth, ErrorResponse, InvocationContext, InvocationResponse, Timestamps};

/// Extension fields that this implementation writes; such fields cause no warning.
const EXTENSIONS: &[(&str, &[&str])] = &[
    ("InvocationContext", &[InvocationContext::IDEMPOTENCY_KEY, InvocationContext::CALLBACK_URL]),
    ("InvocationResponse", &[InvocationResponse::ATTEMPT]),
    ("CustomAuth", &[CustomAuth::SCHEME]),
    ("Timestamps", &[Timestamps::EXPIRES_AT]),
];

/// Reported as the actual value of an absent field.
pub(super) const MISSING: &str = "missing";

/// Checks a document against its schema and returns errors and warnings.
pub(super) fn check_shape(kind: Kind, document: &Value) -> (Vec<DocumentFault>, Vec<DocumentFault>) {
    let mut checker = ShapeChecker { errors: Vec::new(), warnings: Vec::new() };
    let shape = match kind {
        Kind::ErrorResponse => Shape::Nested(ErrorResponse::definition()),
        _ => Shape::Reference(kind.name()),
    };
    checker.value(document, &shape, JsonPointer::Root);
    (checker.errors, checker.warnings)
}

struct ShapeChecker {
    errors: Vec<DocumentFault>,
    warnings: Vec<DocumentFault>,
}

impl ShapeChecker {
    fn value(&mut self, value: &Value, shape: &Shape, place: JsonPointer<'_>) {
        match (resolve(shape), value) {
            (ResolvedShape::Object(definition, rules), Value::Object(map)) => {
                self.object(map, definition, rules, place);
            }
            (ResolvedShape::Enum(words), value) => {
                if !value.as_str().is_some_and(|word| words.has(word)) {
                    let message = "must be equal to one of the allowed values";
                    self.errors.push(DocumentFault::new(place.pointer(), message, words.all(), actual_value(value)));
                }
            }
            (ResolvedShape::List(item), Value::Array(items)) => {
                for (number, value) in items.iter().enumerate() {
                    if self.errors.len() > MAX_FAULTS {
                        return;
                    }
                    self.value(value, item, JsonPointer::Item(&place, number));
                }
            }
            (ResolvedShape::Record(item), Value::Object(map)) if *item != Shape::Unknown => {
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

    fn object(
        &mut self,
        map: &Map<String, Value>,
        definition: &Definition,
        rules: &[FieldRule],
        place: JsonPointer<'_>,
    ) {
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
                actual_value(&name.as_str().into()),
            ));
        }
    }

    fn rule(&mut self, map: &Map<String, Value>, definition: &Definition, rule: &FieldRule, place: JsonPointer<'_>) {
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
            ResolvedShape::Enum(words) => words.all().into(),
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

/// Shape with published names resolved.
enum ResolvedShape<'a> {
    Scalar(&'static str),
    Enum(EnumValues<'a>),
    List(&'a Shape),
    Record(&'a Shape),
    Object(&'a Definition, &'a [FieldRule]),
    Unknown,
}

/// Closed list of string values.
enum EnumValues<'a> {
    Plain(&'a [&'static str]),
    Published(&'a EnumDefinition),
}

impl EnumValues<'_> {
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

impl ResolvedShape<'_> {
    fn type_name(&self) -> Option<&'static str> {
        match self {
            Self::Scalar(name) => Some(name),
            Self::List(_) => Some("array"),
            Self::Record(_) | Self::Object(..) => Some("object"),
            Self::Enum(_) | Self::Unknown => None,
        }
    }
}

fn resolve(shape: &Shape) -> ResolvedShape<'_> {
    match shape {
        Shape::Text => ResolvedShape::Scalar("string"),
        Shape::Number => ResolvedShape::Scalar("number"),
        Shape::Boolean => ResolvedShape::Scalar("boolean"),
        Shape::Enum(words) => ResolvedShape::Enum(EnumValues::Plain(words)),
        Shape::List(item) => ResolvedShape::List(item),
        Shape::Record(item) => ResolvedShape::Record(item),
        Shape::Unknown => ResolvedShape::Unknown,
        Shape::Nested(definition) => ResolvedShape::Object(definition, &[]),
        Shape::Reference(name) => match published(name) {
            Some(PublishedDefinition::Object(definition, rules)) => ResolvedShape::Object(definition, rules),
            Some(PublishedDefinition::Enum(words)) => ResolvedShape::Enum(EnumValues::Published(words)),
            None => ResolvedShape::Unknown,
        },
    }
}

#[cfg(test)]
mod tests;
