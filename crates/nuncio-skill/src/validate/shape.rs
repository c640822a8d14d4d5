//! Checks a document against the schema definitions and reports faults in the form of §8.3.1. The check finds a fault
//! exactly when `schema.json` rejects the document, and stops at [`super::MAX_FAULTS`].

use nuncio_core::json::JsonPointer;
use serde_json::{Map, Value};

use super::SkillDocumentType;
use super::actual_value::{actual_value, type_name};
use super::{DocumentFault, MAX_FAULTS};
use crate::schema::model::{FieldDependencyRule, ObjectDefinition, ValueShape};
use crate::schema::{PublishedSchemaDefinition, published};
use crate::wire::{CustomAuth, ErrorResponse, InvocationContext, InvocationResponse, Timestamps};

/// Extension fields that this implementation writes; such fields cause no warning.
const EXTENSIONS: &[(&str, &[&str])] = &[
    ("InvocationContext", &[InvocationContext::IDEMPOTENCY_KEY, InvocationContext::CALLBACK_URL]),
    ("InvocationResponse", &[InvocationResponse::ATTEMPT]),
    ("CustomAuth", &[CustomAuth::SCHEME]),
    ("Timestamps", &[Timestamps::EXPIRES_AT]),
];

/// Text reported as the actual value of an absent field.
pub(super) const MISSING: &str = "missing";

/// Checks a document against its schema and returns errors and warnings.
pub(super) fn check_shape(kind: SkillDocumentType, document: &Value) -> (Vec<DocumentFault>, Vec<DocumentFault>) {
    let mut checker = ShapeChecker { errors: Vec::new(), warnings: Vec::new() };
    let shape = match kind {
        SkillDocumentType::ErrorResponse => ValueShape::Nested(ErrorResponse::definition()),
        _ => ValueShape::Reference(kind.as_str()),
    };
    checker.value(document, &shape, JsonPointer::Root);
    (checker.errors, checker.warnings)
}

struct ShapeChecker {
    errors: Vec<DocumentFault>,
    warnings: Vec<DocumentFault>,
}

impl ShapeChecker {
    fn value(&mut self, value: &Value, shape: &ValueShape, at: JsonPointer<'_>) {
        if let Some(allowed) = allowed_values(shape) {
            if !value.as_str().is_some_and(|text| allowed.contains(&text)) {
                let message = "must be equal to one of the allowed values";
                self.errors.push(DocumentFault::new(at.pointer(), message, allowed, actual_value(value)));
            }
            return;
        }
        match (shape, value) {
            (ValueShape::Nested(definition), Value::Object(map)) => self.object(map, definition, &[], at),
            (ValueShape::Reference(name), Value::Object(map)) => {
                if let Some(PublishedSchemaDefinition::Object(definition, rules)) = published(name) {
                    self.object(map, definition, rules, at);
                }
            }
            (ValueShape::List(item), Value::Array(items)) => {
                for (number, value) in items.iter().enumerate() {
                    if self.errors.len() > MAX_FAULTS {
                        return;
                    }
                    self.value(value, item, JsonPointer::Item(&at, number));
                }
            }
            (ValueShape::Record(item), Value::Object(map)) if **item != ValueShape::Unknown => {
                for (name, value) in map {
                    if self.errors.len() > MAX_FAULTS {
                        return;
                    }
                    self.value(value, item, JsonPointer::Field(&at, name));
                }
            }
            (shape, value) => {
                if let Some(wanted) = type_of(shape).filter(|wanted| *wanted != type_name(value)) {
                    let message = format!("must be {wanted}");
                    self.errors.push(DocumentFault::new(at.pointer(), message, wanted, type_name(value)));
                }
            }
        }
    }

    fn object(
        &mut self,
        map: &Map<String, Value>,
        definition: &ObjectDefinition,
        rules: &[FieldDependencyRule],
        at: JsonPointer<'_>,
    ) {
        for field in &definition.fields {
            let inside = JsonPointer::Field(&at, field.name);
            match map.get(field.name) {
                Some(value) => self.value(value, &field.shape, inside),
                None if field.required => self.missing(field.name, &field.shape, "", inside),
                None => {}
            }
        }
        for rule in rules {
            self.rule(map, definition, rule, at);
        }
        for name in map.keys().filter(|name| !is_known(definition, name)) {
            if self.warnings.len() > MAX_FAULTS {
                break;
            }
            let field_names: Vec<_> = definition.fields.iter().map(|field| field.name).collect();
            let message = "is not a field of the protocol; it is kept and ignored";
            self.warnings.push(DocumentFault::new(
                JsonPointer::Field(&at, name).pointer(),
                message,
                field_names,
                actual_value(&name.as_str().into()),
            ));
        }
    }

    fn rule(
        &mut self,
        map: &Map<String, Value>,
        definition: &ObjectDefinition,
        rule: &FieldDependencyRule,
        at: JsonPointer<'_>,
    ) {
        let Some(word) = map.get(rule.field).and_then(Value::as_str).filter(|word| rule.is.contains(word)) else {
            return;
        };
        let when = format!(" when {} is {word}", rule.field);
        for name in rule.requires.iter().filter(|name| !map.contains_key(**name)) {
            if let Some(field) = definition.fields.iter().find(|field| field.name == *name) {
                self.missing(name, &field.shape, &when, JsonPointer::Field(&at, name));
            }
        }
        for forbidden in rule.forbids {
            let found = match forbidden.split_once('/') {
                Some((outer, inner)) => map.get(outer).and_then(|value| value.get(inner)),
                None => map.get(*forbidden),
            };
            if let Some(value) = found {
                let path = format!("{}/{forbidden}", at.pointer());
                let message = format!("must not be present{when}");
                self.errors.push(DocumentFault::new(path, message, MISSING, type_name(value)));
            }
        }
    }

    fn missing(&mut self, name: &str, shape: &ValueShape, when: &str, at: JsonPointer<'_>) {
        let expected = match allowed_values(shape) {
            Some(allowed) => allowed.into(),
            None => type_of(shape).unwrap_or("any value").into(),
        };
        self.errors.push(DocumentFault {
            path: at.pointer(),
            message: format!("must have required property '{name}'{when}"),
            expected,
            actual: MISSING.into(),
        });
    }
}

fn is_known(definition: &ObjectDefinition, name: &str) -> bool {
    definition.fields.iter().any(|field| field.name == name)
        || EXTENSIONS.iter().any(|(of, names)| *of == definition.name && names.contains(&name))
}

/// Allowed string values of an enumeration; `None` for any other shape.
fn allowed_values(shape: &ValueShape) -> Option<&[&'static str]> {
    match shape {
        ValueShape::Enum(values) => Some(values),
        ValueShape::Reference(name) => match published(name)? {
            PublishedSchemaDefinition::Enum(definition) => Some(&definition.values),
            PublishedSchemaDefinition::Object(..) => None,
        },
        _ => None,
    }
}

/// JSON type of a value; `None` if any type is allowed.
fn type_of(shape: &ValueShape) -> Option<&'static str> {
    match shape {
        ValueShape::Text | ValueShape::Enum(_) => Some("string"),
        ValueShape::Number => Some("number"),
        ValueShape::Boolean => Some("boolean"),
        ValueShape::List(_) => Some("array"),
        ValueShape::Record(_) | ValueShape::Nested(_) | ValueShape::Reference(_) => Some("object"),
        ValueShape::Unknown => None,
    }
}

#[cfg(test)]
mod tests;
