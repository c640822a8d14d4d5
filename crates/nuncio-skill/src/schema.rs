//! Definitions of the published schema, built from the types of [`crate::wire`].
//!
//! `cargo xtask schema` writes them to `schema/` as JSON Schema, TypeScript and MDX. Names follow §9.1, the mapping
//! §9.2: `number` without `format`, optional fields are not in `required`, and objects are open.

pub mod model;

use std::sync::LazyLock;

use nuncio_core::agent::{CapabilityType, SkillAccess};
use serde_json::{Map, Value, json};

use crate::wire;
use model::{Definition, FieldRule};

/// The published JSON Schema.
const JSON: &str = include_str!("../../../schema/draft/schema.json");

/// JSON Schemas of all published definitions, by name. They refer to each other as `#/$defs/…`.
///
/// # Panics
/// Never; the schema is compiled in, and a test reads it.
#[must_use]
pub fn json_definitions() -> Value {
    let mut root: Map<String, Value> = serde_json::from_str(JSON).expect("the published schema is an object");
    let mut definitions = root.remove("$defs").unwrap_or_default();
    // The root is the definition of a descriptor, which is `{"$ref": "#"}` among the others.
    root.retain(|keyword, _| keyword != "$schema" && keyword != "title");
    definitions["SkillDescriptor"] = root.into();
    definitions
}

/// JSON Schema of an error response, which is not among the published definitions.
pub(crate) fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"enum": wire::ErrorCode::ALL},
                "message": {"type": "string"},
                "details": {},
                "retry": {
                    "type": "object",
                    "required": ["suggested_delay_ms", "max_attempts"],
                    "properties": {"suggested_delay_ms": {"type": "number"}, "max_attempts": {"type": "number"}},
                },
            },
        }},
    })
}

/// Named definition of the published schema.
#[derive(Debug, Clone, PartialEq)]
pub enum PublishedDefinition {
    Object(Definition, Vec<FieldRule>),
    Enum(EnumDefinition),
}

/// Closed list of string values.
#[derive(Debug, Clone, PartialEq)]
pub struct EnumDefinition {
    pub name: &'static str,
    pub doc: &'static str,
    /// Each value with its description.
    pub words: Vec<(&'static str, &'static str)>,
}

impl PublishedDefinition {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Object(definition, _) => definition.name,
            Self::Enum(words) => words.name,
        }
    }
}

/// All definitions of §9.1 in order; the first is the root.
pub static CATALOGUE: LazyLock<Vec<PublishedDefinition>> = LazyLock::new(|| {
    let object = |definition| PublishedDefinition::Object(definition, Vec::new());
    vec![
        object(wire::SkillDescriptor::definition()),
        object(wire::SkillIndex::definition()),
        object(wire::SkillIndexEntry::definition()),
        object(wire::InvocationRequest::definition()),
        PublishedDefinition::Object(wire::InvocationResponse::definition(), response_rules()),
        object(wire::ProtocolVersion::definition()),
        PublishedDefinition::Enum(capability_type()),
        PublishedDefinition::Enum(access_policy()),
        PublishedDefinition::Enum(auth_type()),
        PublishedDefinition::Enum(execution_status()),
        object(wire::ParameterDefinition::definition()),
        PublishedDefinition::Object(wire::AuthConfig::definition(), auth_rules()),
        object(wire::InvocationEndpoint::definition()),
        object(wire::OutputDefinition::definition()),
    ]
});

/// Looks up a definition by name.
#[must_use]
pub fn published(name: &str) -> Option<&'static PublishedDefinition> {
    CATALOGUE.iter().find(|one| one.name() == name)
}

/// Rules of §3.5.5.
fn auth_rules() -> Vec<FieldRule> {
    vec![
        FieldRule { field: "type", is: &["oauth2"], requires: &["oauth2"], forbids: &[] },
        FieldRule { field: "type", is: &["custom"], requires: &["custom"], forbids: &[] },
    ]
}

/// Rules of §5.4.
fn response_rules() -> Vec<FieldRule> {
    vec![
        FieldRule { field: "status", is: &["completed"], requires: &["output"], forbids: &["error"] },
        FieldRule { field: "status", is: &["failed", "timeout"], requires: &["error"], forbids: &["output"] },
        FieldRule {
            field: "status",
            is: &["accepted", "running"],
            requires: &[],
            forbids: &["output", "error", "timestamps/completed_at"],
        },
    ]
}

fn capability_type() -> EnumDefinition {
    let doc = |kind| match kind {
        CapabilityType::Plugin => "A plugin that adds to something else.",
        CapabilityType::Api => "An API service.",
        CapabilityType::Knowledge => "A package of knowledge or a source of data.",
        CapabilityType::Task => "Something to have done, by people or by machines.",
    };
    let words = CapabilityType::ALL.map(|kind| (kind.as_str(), doc(kind))).to_vec();
    EnumDefinition { name: "CapabilityType", doc: "What sort of thing a skill is.", words }
}

fn access_policy() -> EnumDefinition {
    let doc = |access| match access {
        SkillAccess::Public => "Every consumer may find and invoke it.",
        SkillAccess::Restricted => "Everyone may find it; only authorised consumers may invoke it.",
        SkillAccess::Private => {
            "Hidden from unauthenticated discovery; only authorised consumers may find and invoke it."
        }
    };
    let words = SkillAccess::ALL.map(|access| (access.as_str(), doc(access))).to_vec();
    EnumDefinition { name: "AccessPolicy", doc: "Who may find and invoke a skill.", words }
}

fn auth_type() -> EnumDefinition {
    let doc = |kind| match kind {
        wire::AuthType::ApiKey => "By an API key in a header.",
        wire::AuthType::OAuth2 => "By an OAuth 2.0 access token.",
        wire::AuthType::Custom => "In a way of its own.",
        wire::AuthType::None => "Not at all.",
    };
    let words = wire::AuthType::ALL.map(|kind| (kind.as_str(), doc(kind))).to_vec();
    EnumDefinition { name: "AuthType", doc: "How callers of a skill say who they are.", words }
}

fn execution_status() -> EnumDefinition {
    let doc = |status| match status {
        wire::ExecutionStatus::Accepted => "The request was taken on.",
        wire::ExecutionStatus::Running => "The skill is at work.",
        wire::ExecutionStatus::Completed => "It ended well.",
        wire::ExecutionStatus::Failed => "It ended badly.",
        wire::ExecutionStatus::Timeout => "It took too long.",
    };
    let words = wire::ExecutionStatus::ALL.map(|status| (status.as_str(), doc(status))).to_vec();
    EnumDefinition { name: "ExecutionStatus", doc: "How far an execution is.", words }
}
