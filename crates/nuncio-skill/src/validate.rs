//! What is wrong with a document: `validate`, `parse` and `serialize` (§9.3).
//!
//! A document is read within bounds, held against the published schema, and then against what the seed says
//! beyond the schema. All faults are told at once. What breaks a rule of the seed is an error; what is
//! allowed but cannot be meant is a warning:
//!
//! | error | warning |
//! |---|---|
//! | whatever `schema.json` refuses | a field nobody knows |
//! | a repeated name in an object | `api_key` without `header` |
//! | a version that is not MAJOR.MINOR.PATCH (§6.1) | `restricted` or `private` with `auth` `none` |
//! | a time that is not ISO 8601 (§3.3, §5.4) | a time without an offset; times in the wrong order |
//! | an address that is not an absolute http(s) URL | a URL template without `{execution_id}` |
//! | a nested `schema` that is no JSON Schema (§3.5) | a nested `schema` we cannot use; a `default` against its own type or schema |
//! | the same id twice in an index (§4.3.4) | the same parameter twice; a type JSON Schema does not have |
//! | | an empty id or name; a number of milliseconds or attempts that is no count |
//!
//! Of an invocation's extensions, an `idempotency_key` that is no text and a `callback_url` that is no
//! http(s) URL are errors too: ignored, they would do harm.

mod lint;
mod shape;
mod shown;
mod version;

use std::sync::LazyLock;

use jsonschema::{Draft, Validator};
use nuncio_core::json::{self, JsonError};
use nuncio_core::schema::MAX_DEPTH;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use nuncio_core::report::{DocumentFault, MAX_FAULTS};
#[cfg(feature = "server")]
pub(crate) use shown::shown;
#[cfg(feature = "client")]
pub(crate) use shown::type_name;
pub use version::{Incompatible, VersionRule, compatibility, declared_protocol};

use crate::schema::{self, Published, published};
use crate::wire::{ErrorCode, ErrorResponse, InvocationRequest, InvocationResponse, SkillDescriptor, SkillIndex};

/// What a validation found (§9.3); its faults are those of §8.3.1.
pub type Report = nuncio_core::report::DocumentReport<Kind>;

/// The error to answer with: `VALIDATION_ERROR`, the faults as its details.
impl From<&Report> for ErrorResponse {
    fn from(report: &Report) -> Self {
        Self::new(ErrorCode::ValidationError, format!("Invalid {} document", report.kind))
            .with_details(serde_json::json!(report.errors))
    }
}

/// Validates a skill descriptor.
#[must_use]
pub fn validate(document: &[u8]) -> Report {
    validate_as(Kind::SkillDescriptor, document)
}

/// Reads a valid skill descriptor.
///
/// # Errors
/// What is wrong with it; exactly when [`validate`] finds it invalid.
pub fn parse(document: &[u8]) -> Result<SkillDescriptor, Report> {
    parse_as(document)
}

/// Writes a skill descriptor, indented by two spaces.
#[must_use]
pub fn serialize(descriptor: &SkillDescriptor) -> String {
    pretty(descriptor)
}

/// Writes any document, indented by two spaces.
///
/// # Panics
/// Never: what these types hold can be written as JSON.
#[must_use]
pub fn pretty(document: &impl Document) -> String {
    serde_json::to_string_pretty(document).expect("a document's names are texts and its values JSON")
}

/// Validates a document of any kind.
#[must_use]
pub fn validate_as(kind: Kind, document: &[u8]) -> Report {
    match json::read(document, kind.max_bytes()) {
        Ok(value) => check(kind, &value),
        Err(why) => Report::unreadable(kind, &why),
    }
}

/// Validates a document that is JSON already.
#[must_use]
pub fn check(kind: Kind, document: &Value) -> Report {
    if nuncio_core::schema::depth(document) > MAX_DEPTH {
        return Report::unreadable(kind, &JsonError::TooDeep);
    }
    let (mut errors, mut warnings) = shape::walk(kind, document);
    if errors.is_empty()
        && let Err(error) = kind.validator().validate(document)
    {
        // The walk finds whatever the schema refuses; if it ever does not, the schema has the last word.
        let path = error.instance_path().to_string();
        errors.push(DocumentFault { path, message: error.to_string(), expected: Value::Null, actual: Value::Null });
    }
    lint::lint(kind, document, &mut errors, &mut warnings);
    Report::new(kind, errors, warnings)
}

/// Reads a valid document of the wanted type.
///
/// # Errors
/// What is wrong with it.
pub fn parse_as<T: Document>(document: &[u8]) -> Result<T, Report> {
    let value = json::read(document, T::KIND.max_bytes()).map_err(|why| Report::unreadable(T::KIND, &why))?;
    parse_value(value)
}

/// Reads a valid document that is JSON already.
///
/// # Errors
/// What is wrong with it.
pub fn parse_value<T: Document>(document: Value) -> Result<T, Report> {
    let report = check(T::KIND, &document);
    if !report.valid {
        return Err(report);
    }
    serde_json::from_value(document).map_err(|error| {
        let fault = DocumentFault::new("", format!("cannot be read: {error}"), T::KIND.name(), Value::Null);
        Report::new(T::KIND, vec![fault], Vec::new())
    })
}

/// A type that is a whole document.
pub trait Document: Serialize + DeserializeOwned {
    /// Which document it is.
    const KIND: Kind;
}

macro_rules! documents {
    ($($name:ident),*) => {$(
        impl Document for $name {
            const KIND: Kind = Kind::$name;
        }
    )*};
}

documents!(SkillDescriptor, SkillIndex, InvocationRequest, InvocationResponse, ErrorResponse);

/// The documents that travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A skill's description (§3).
    SkillDescriptor,
    /// A host's skills (§4.3).
    SkillIndex,
    /// A request to invoke a skill (§5.3).
    InvocationRequest,
    /// How far an execution is (§5.4).
    InvocationResponse,
    /// An error (§8.2). It has no name of its own in the published schema.
    ErrorResponse,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::SkillDescriptor,
        Self::SkillIndex,
        Self::InvocationRequest,
        Self::InvocationResponse,
        Self::ErrorResponse,
    ];

    /// Its name, as in the published schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SkillDescriptor => "SkillDescriptor",
            Self::SkillIndex => "SkillIndex",
            Self::InvocationRequest => "InvocationRequest",
            Self::InvocationResponse => "InvocationResponse",
            Self::ErrorResponse => "ErrorResponse",
        }
    }

    /// How many bytes it may have: 1 MiB, and 8 for what lists skills or carries an output.
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::SkillIndex | Self::InvocationResponse => 8 << 20,
            Self::SkillDescriptor | Self::InvocationRequest | Self::ErrorResponse => 1 << 20,
        }
    }

    /// Whether the published schema alone takes the document.
    #[must_use]
    pub fn fits_schema(self, document: &Value) -> bool {
        self.validator().is_valid(document)
    }

    fn validator(self) -> &'static Validator {
        static VALIDATORS: LazyLock<[Validator; 5]> = LazyLock::new(|| {
            Kind::ALL.map(|kind| {
                let schema = match published(kind.name()) {
                    Some(Published::Object(..)) => schema::json::rooted_at(kind.name()),
                    _ => schema::json::of(&ErrorResponse::definition()),
                };
                let built = jsonschema::options().with_draft(Draft::Draft202012).offline().build(&schema);
                built.expect("the schema we publish compiles")
            })
        });
        &VALIDATORS[self as usize]
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
