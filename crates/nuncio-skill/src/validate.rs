//! Validation of documents: `validate`, `parse` and `serialize` (§9.3).
//!
//! A document is parsed within size limits, checked against the published schema, and then against rules that the
//! schema cannot express. All faults are reported at once. A violation of the specification is an error; a probable
//! mistake is a warning:
//!
//! | error | warning |
//! |---|---|
//! | anything that `schema.json` refuses | an unknown field |
//! | a repeated name in an object | `api_key` without `header` |
//! | a version that is not MAJOR.MINOR.PATCH (§6.1) | `restricted` or `private` with `auth` `none` |
//! | a time that is not ISO 8601 (§3.3, §5.4) | a time without an offset; times in the wrong order |
//! | an address that is not an absolute http(s) URL | a URL template without `{execution_id}` |
//! | a nested `schema` that is not a JSON Schema (§3.5) | a nested `schema` that cannot be compiled here; a `default` that violates its own type or schema |
//! | the same id twice in an index (§4.3.4) | the same parameter twice; a type JSON Schema does not have |
//! | | an empty id or name; a number of milliseconds or attempts that is not a non-negative integer |
//!
//! Of the extensions of an invocation, an `idempotency_key` that is not a string and a `callback_url` that is not an
//! http(s) URL are errors too, because ignoring them would be harmful.

mod actual_value;
mod lint;
mod shape;
mod version;

use std::sync::LazyLock;

use jsonschema::{Draft, Validator};
use nuncio_core::json::{self, JsonDocumentError};
use nuncio_core::schema::MAX_DEPTH;
use nuncio_core::string_enum;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[cfg(feature = "server")]
pub(crate) use actual_value::actual_value;
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) use actual_value::type_name;
#[cfg(feature = "client")]
pub(crate) use actual_value::{SCHEMA_TYPES, is_of_type};
pub use nuncio_core::report::{DocumentFault, MAX_FAULTS};
pub use version::{IncompatibleProtocolVersion, ProtocolVersionRule, compatibility, declared_protocol};

use crate::schema::{error_schema, json_definitions};
use crate::wire::{ErrorResponse, InvocationRequest, InvocationResponse, SkillDescriptor, SkillErrorCode, SkillIndex};

/// Result of a validation (§9.3) with faults in the form of §8.3.1.
pub type ValidationReport = nuncio_core::report::DocumentValidationReport<SkillDocumentType>;

/// Creates the error body `VALIDATION_ERROR` with the faults as details.
impl From<&ValidationReport> for ErrorResponse {
    fn from(report: &ValidationReport) -> Self {
        Self::new(SkillErrorCode::ValidationError, format!("Invalid {} document", report.kind))
            .with_details(json!(report.errors))
    }
}

#[must_use]
pub fn validate(document: &[u8]) -> ValidationReport {
    validate_as(SkillDocumentType::SkillDescriptor, document)
}

/// Parses and validates a skill descriptor.
///
/// # Errors
/// Fails exactly when [`validate`] reports an error.
pub fn parse(document: &[u8]) -> Result<SkillDescriptor, ValidationReport> {
    parse_as(document)
}

/// Serialises a skill descriptor, indented by two spaces.
#[must_use]
pub fn serialize(descriptor: &SkillDescriptor) -> String {
    pretty(descriptor)
}

/// Serialises any document, indented by two spaces.
///
/// # Panics
/// Never; these types always serialise.
#[must_use]
pub fn pretty(document: &impl WireDocument) -> String {
    serde_json::to_string_pretty(document).expect("a document's names are texts and its values JSON")
}

#[must_use]
pub fn validate_as(kind: SkillDocumentType, document: &[u8]) -> ValidationReport {
    match json::read(document, kind.max_bytes()) {
        Ok(value) => check(kind, &value),
        Err(why) => ValidationReport::unreadable(kind, &why),
    }
}

/// Validates a parsed JSON document.
#[must_use]
pub fn check(kind: SkillDocumentType, document: &Value) -> ValidationReport {
    if nuncio_core::schema::depth(document) > MAX_DEPTH {
        return ValidationReport::unreadable(kind, &JsonDocumentError::TooDeep);
    }
    let (mut errors, mut warnings) = shape::check_shape(kind, document);
    if errors.is_empty()
        && let Err(error) = kind.validator().validate(document)
    {
        // The shape check should find every fault that the schema finds. If it misses one, the schema decides.
        let path = error.instance_path().to_string();
        errors.push(DocumentFault { path, message: error.to_string(), expected: Value::Null, actual: Value::Null });
    }
    lint::lint(kind, document, &mut errors, &mut warnings);
    ValidationReport::new(kind, errors, warnings)
}

/// Parses and validates a document.
pub fn parse_as<T: WireDocument>(document: &[u8]) -> Result<T, ValidationReport> {
    let value = json::read(document, T::KIND.max_bytes()).map_err(|why| ValidationReport::unreadable(T::KIND, &why))?;
    parse_value(value)
}

/// Validates and converts a parsed JSON document.
pub fn parse_value<T: WireDocument>(document: Value) -> Result<T, ValidationReport> {
    let report = check(T::KIND, &document);
    if !report.valid {
        return Err(report);
    }
    serde_json::from_value(document).map_err(|error| {
        let fault = DocumentFault::new("", format!("cannot be read: {error}"), T::KIND.as_str(), Value::Null);
        ValidationReport::new(T::KIND, vec![fault], Vec::new())
    })
}

/// Type of a complete document.
pub trait WireDocument: Serialize + DeserializeOwned {
    const KIND: SkillDocumentType;
}

macro_rules! documents {
    ($($name:ident),*) => {$(
        impl WireDocument for $name {
            const KIND: SkillDocumentType = SkillDocumentType::$name;
        }
    )*};
}

documents!(SkillDescriptor, SkillIndex, InvocationRequest, InvocationResponse, ErrorResponse);

string_enum! {
    /// A kind of document, by its name in the published schema.
    pub enum SkillDocumentType {
        /// A skill descriptor (§3).
        SkillDescriptor = "SkillDescriptor",
        /// A skill index (§4.3).
        SkillIndex = "SkillIndex",
        /// An invocation request (§5.3).
        InvocationRequest = "InvocationRequest",
        /// An invocation response (§5.4).
        InvocationResponse = "InvocationResponse",
        /// An error response (§8.2). The published schema has no definition of this name.
        ErrorResponse = "ErrorResponse",
    }
}

impl SkillDocumentType {
    /// Size limit: 1 MiB, or 8 MiB for indexes and responses with output.
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::SkillIndex | Self::InvocationResponse => 8 << 20,
            Self::SkillDescriptor | Self::InvocationRequest | Self::ErrorResponse => 1 << 20,
        }
    }

    /// Whether the document validates against the published schema alone.
    #[must_use]
    pub fn fits_schema(self, document: &Value) -> bool {
        self.validator().is_valid(document)
    }

    fn validator(self) -> &'static Validator {
        static VALIDATORS: LazyLock<[Validator; 5]> = LazyLock::new(|| {
            SkillDocumentType::ALL.map(|kind| {
                let schema = match kind {
                    SkillDocumentType::ErrorResponse => error_schema(),
                    _ => json!({"$ref": format!("#/$defs/{kind}"), "$defs": json_definitions()}),
                };
                let built = jsonschema::options().with_draft(Draft::Draft202012).offline().build(&schema);
                built.expect("the schema we publish compiles")
            })
        });
        &VALIDATORS[self as usize]
    }
}
