//! Definitions of protocols, written by a brain, and their validation.

use std::collections::HashSet;

use nuncio_core::schema::{Schema, SchemaViolation, depth};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Size limit of a definition as compact JSON, in bytes.
pub(crate) const MAX_BYTES: usize = 64 * 1024;
const MAX_DEPTH: usize = 24;
const MAX_METHODS: usize = 16;
const MAX_LISTED: usize = 64;
const MAX_NAME: usize = 64;
const MAX_TEXT: usize = 2000;

/// A protocol definition: methods, their schemas, examples and test cases. Every value has passed validation; no
/// field can contain anything executable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedProtocolDefinition")]
pub struct ProtocolDefinition {
    pub description: String,
    pub methods: Vec<ProtocolMethod>,
    pub examples: Vec<ProtocolExample>,
    pub test_cases: Vec<ProtocolTestCase>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProtocolMethod {
    pub name: String,
    pub description: String,
    /// Schema of the method's request, which must describe an object.
    #[serde(serialize_with = "source")]
    pub request_schema: Schema,
    #[serde(serialize_with = "source")]
    pub response_schema: Schema,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolExample {
    pub method: String,
    pub request: Value,
    pub response: Value,
}

/// A request, and whether the method's schema must accept it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolTestCase {
    pub name: String,
    pub method: String,
    pub request: Value,
    pub expected: ExpectedValidity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedValidity {
    Valid,
    Invalid,
}

/// A protocol definition before validation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedProtocolDefinition {
    description: String,
    methods: Vec<UncheckedProtocolMethod>,
    examples: Vec<ProtocolExample>,
    test_cases: Vec<ProtocolTestCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedProtocolMethod {
    name: String,
    #[serde(default)]
    description: String,
    request_schema: Value,
    response_schema: Value,
}

fn source<S: serde::Serializer>(schema: &Schema, serializer: S) -> Result<S::Ok, S::Error> {
    schema.source().serialize(serializer)
}

pub(crate) fn fault(pointer: impl Into<String>, message: impl Into<String>) -> SchemaViolation {
    SchemaViolation { pointer: pointer.into(), message: message.into() }
}

impl ProtocolDefinition {
    /// Parses a definition and validates sizes, schemas, every example and every test case. The error lists all
    /// faults.
    pub fn read(value: Value) -> Result<Self, Vec<SchemaViolation>> {
        if depth(&value) > MAX_DEPTH {
            return Err(vec![fault("", format!("nested deeper than {MAX_DEPTH} levels"))]);
        }
        if value.to_string().len() > MAX_BYTES {
            return Err(vec![fault("", format!("larger than {MAX_BYTES} bytes"))]);
        }
        let written: UncheckedProtocolDefinition =
            serde_json::from_value(value).map_err(|error| vec![fault("", error.to_string())])?;
        written.check()
    }

    #[must_use]
    pub fn method(&self, name: &str) -> Option<&ProtocolMethod> {
        self.methods.iter().find(|method| method.name == name)
    }

    fn faults(&self) -> Vec<SchemaViolation> {
        let mut faults = Vec::new();
        for (place, example) in self.examples.iter().enumerate() {
            let at = format!("/examples/{place}");
            let Some(method) = self.method(&example.method) else {
                faults.push(fault(format!("{at}/method"), "there is no such method"));
                continue;
            };
            let parts = [
                ("request", &method.request_schema, &example.request),
                ("response", &method.response_schema, &example.response),
            ];
            for (name, schema, value) in parts {
                let found = schema.check(value).err().unwrap_or_default();
                let place = |it: SchemaViolation| fault(format!("{at}/{name}{}", it.pointer), it.message);
                faults.extend(found.into_iter().map(place));
            }
        }
        for (place, case) in self.test_cases.iter().enumerate() {
            let at = format!("/test_cases/{place}");
            let Some(method) = self.method(&case.method) else {
                faults.push(fault(format!("{at}/method"), "there is no such method"));
                continue;
            };
            match (method.request_schema.check(&case.request), case.expected) {
                (Ok(()), ExpectedValidity::Valid) | (Err(_), ExpectedValidity::Invalid) => {}
                (Ok(()), ExpectedValidity::Invalid) => {
                    faults.push(fault(
                        format!("{at}/expected"),
                        "the request matches its schema, but the test case expects \"invalid\"",
                    ));
                }
                (Err(found), ExpectedValidity::Valid) => {
                    let why = found.first().map(ToString::to_string).unwrap_or_default();
                    faults
                        .push(fault(format!("{at}/expected"), format!("the request does not match its schema: {why}")));
                }
            }
        }
        for (place, method) in self.methods.iter().enumerate() {
            let at = format!("/methods/{place}");
            if !self.examples.iter().any(|example| example.method == method.name) {
                faults.push(fault(at.clone(), "has no example"));
            }
            if !self.test_cases.iter().any(|case| case.method == method.name) {
                faults.push(fault(at, "has no test case"));
            }
        }
        faults
    }
}

impl UncheckedProtocolDefinition {
    fn check(self) -> Result<ProtocolDefinition, Vec<SchemaViolation>> {
        let mut faults = Vec::new();
        let mut text = |pointer: String, text: &str| {
            if text.trim().is_empty() || text.len() > MAX_TEXT {
                faults.push(fault(pointer, format!("must be a text of 1 to {MAX_TEXT} bytes")));
            }
        };
        text("/description".to_owned(), &self.description);
        for (place, case) in self.test_cases.iter().enumerate() {
            text(format!("/test_cases/{place}/name"), &case.name);
        }
        let counts = [
            ("/methods", self.methods.len(), MAX_METHODS),
            ("/examples", self.examples.len(), MAX_LISTED),
            ("/test_cases", self.test_cases.len(), MAX_LISTED),
        ];
        for (pointer, found, most) in counts {
            if found == 0 || found > most {
                faults.push(fault(pointer, format!("must have 1 to {most}, and has {found}")));
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut names = HashSet::new();
        let mut methods = Vec::new();
        for (place, method) in self.methods.into_iter().enumerate() {
            if !is_name(&method.name) {
                let rule = format!("must be 1 to {MAX_NAME} lower-case letters, digits, '_' and '.'");
                faults.push(fault(format!("/methods/{place}/name"), rule));
            }
            if !names.insert(method.name.clone()) {
                faults.push(fault(format!("/methods/{place}/name"), "is already used by another method"));
            }
            let request = Schema::compile_arguments(method.request_schema);
            let response = Schema::compile(method.response_schema);
            match (request, response) {
                (Ok(request_schema), Ok(response_schema)) => methods.push(ProtocolMethod {
                    name: method.name,
                    description: method.description,
                    request_schema,
                    response_schema,
                }),
                (request, response) => {
                    let wrong = [("request", request.err()), ("response", response.err())];
                    for (name, error) in wrong.into_iter().filter_map(|(name, error)| Some((name, error?))) {
                        faults.push(fault(format!("/methods/{place}/{name}_schema"), error.to_string()));
                    }
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let Self { description, examples, test_cases, .. } = self;
        let definition = ProtocolDefinition { description, methods, examples, test_cases };
        let faults = definition.faults();
        if faults.is_empty() { Ok(definition) } else { Err(faults) }
    }
}

impl TryFrom<UncheckedProtocolDefinition> for ProtocolDefinition {
    type Error = String;

    fn try_from(written: UncheckedProtocolDefinition) -> Result<Self, String> {
        written.check().map_err(|faults| list_faults(&faults))
    }
}

pub(crate) fn list_faults(faults: &[SchemaViolation]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn is_name(text: &str) -> bool {
    let parts = text.split('.').all(|part| part.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()));
    let bytes = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'.');
    text.len() <= MAX_NAME && parts && bytes
}
