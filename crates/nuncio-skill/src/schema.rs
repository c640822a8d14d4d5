//! Definitions of the published schema, built from the types of [`crate::wire`].
//!
//! `cargo xtask schema` writes them to `schema/` as JSON Schema, TypeScript and MDX. Names follow §9.1, the mapping
//! §9.2: `number` without `format`, optional fields are not in `required`, and objects are open.

pub mod model;

use std::sync::LazyLock;

use nuncio_core::agent::{CapabilityType, SkillAccess};
use serde_json::{Map, Value, json};

use crate::wire;
use model::{FieldDependencyRule, ObjectDefinition};

/// The published JSON Schema.
const JSON: &str = include_str!("../../../schema/draft/schema.json");

/// JSON Schemas of all published definitions, by name. They refer to each other as `#/$defs/…`.
///
/// # Panics
/// Never; the schema is compiled in, and a test reads it.
#[must_use]
pub fn json_definitions() -> Value {
    let mut root: Map<String, Value> = serde_json::from_str(JSON).expect("the published schema is an object");
    let mut definitions = root.shift_remove("$defs").unwrap_or_default();
    // The root defines the descriptor; `$defs` only refers to the root with `{"$ref": "#"}`.
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
                "code": {"enum": wire::SkillErrorCode::ALL},
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
pub enum PublishedSchemaDefinition {
    Object(ObjectDefinition, Vec<FieldDependencyRule>),
    Enum(EnumDefinition),
}

/// Closed list of string values.
#[derive(Debug, Clone, PartialEq)]
pub struct EnumDefinition {
    pub name: &'static str,
    pub doc: &'static str,
    pub values: Vec<&'static str>,
    /// Description of each value.
    pub docs: Vec<&'static str>,
}

impl PublishedSchemaDefinition {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Object(definition, _) => definition.name,
            Self::Enum(definition) => definition.name,
        }
    }
}

/// All definitions of §9.1 in order; the first is the root.
pub static CATALOGUE: LazyLock<Vec<PublishedSchemaDefinition>> = LazyLock::new(|| {
    let object = |definition| PublishedSchemaDefinition::Object(definition, Vec::new());
    vec![
        object(wire::SkillDescriptor::definition()),
        object(wire::SkillIndex::definition()),
        object(wire::SkillIndexEntry::definition()),
        object(wire::InvocationRequest::definition()),
        PublishedSchemaDefinition::Object(wire::InvocationResponse::definition(), response_rules()),
        object(wire::ProtocolVersion::definition()),
        PublishedSchemaDefinition::Enum(capability_type()),
        PublishedSchemaDefinition::Enum(access_policy()),
        PublishedSchemaDefinition::Enum(auth_type()),
        PublishedSchemaDefinition::Enum(execution_status()),
        object(wire::ParameterDefinition::definition()),
        PublishedSchemaDefinition::Object(wire::AuthConfig::definition(), auth_rules()),
        object(wire::InvocationEndpoint::definition()),
        object(wire::OutputDefinition::definition()),
    ]
});

#[must_use]
pub fn published(name: &str) -> Option<&'static PublishedSchemaDefinition> {
    CATALOGUE.iter().find(|one| one.name() == name)
}

/// Rules for the conditional fields of `AuthConfig` (§3.5.5).
fn auth_rules() -> Vec<FieldDependencyRule> {
    vec![
        FieldDependencyRule { field: "type", is: &["oauth2"], requires: &["oauth2"], forbids: &[] },
        FieldDependencyRule { field: "type", is: &["custom"], requires: &["custom"], forbids: &[] },
    ]
}

/// Rules for the conditional fields of `InvocationResponse` (§5.4).
fn response_rules() -> Vec<FieldDependencyRule> {
    vec![
        FieldDependencyRule { field: "status", is: &["completed"], requires: &["output"], forbids: &["error"] },
        FieldDependencyRule { field: "status", is: &["failed", "timeout"], requires: &["error"], forbids: &["output"] },
        FieldDependencyRule {
            field: "status",
            is: &["accepted", "running"],
            requires: &[],
            forbids: &["output", "error", "timestamps/completed_at"],
        },
    ]
}

fn capability_type() -> EnumDefinition {
    let doc = |kind| match kind {
        CapabilityType::Plugin => "Plugin that extends another program.",
        CapabilityType::Api => "API service.",
        CapabilityType::Knowledge => "Knowledge package or data source.",
        CapabilityType::Task => "Task that people or machines perform.",
    };
    let (values, docs) =
        (CapabilityType::ALL.map(CapabilityType::as_str).to_vec(), CapabilityType::ALL.map(doc).to_vec());
    EnumDefinition { name: "CapabilityType", doc: "Capability type of a skill.", values, docs }
}

fn access_policy() -> EnumDefinition {
    let doc = |access| match access {
        SkillAccess::Public => "Every consumer may find and invoke the skill.",
        SkillAccess::Restricted => "Everyone may find the skill; only authorised consumers may invoke it.",
        SkillAccess::Private => {
            "Hidden from unauthenticated discovery; only authorised consumers may find and invoke the skill."
        }
    };
    let (values, docs) = (SkillAccess::ALL.map(SkillAccess::as_str).to_vec(), SkillAccess::ALL.map(doc).to_vec());
    EnumDefinition { name: "AccessPolicy", doc: "Who may find and invoke a skill.", values, docs }
}

fn auth_type() -> EnumDefinition {
    let doc = |kind| match kind {
        wire::AuthType::ApiKey => "API key in a header.",
        wire::AuthType::OAuth2 => "OAuth 2.0 access token.",
        wire::AuthType::Custom => "Scheme that the descriptor describes in `custom`.",
        wire::AuthType::None => "No authentication.",
    };
    let (values, docs) =
        (wire::AuthType::ALL.map(wire::AuthType::as_str).to_vec(), wire::AuthType::ALL.map(doc).to_vec());
    EnumDefinition { name: "AuthType", doc: "Authentication scheme of a skill.", values, docs }
}

fn execution_status() -> EnumDefinition {
    let doc = |status| match status {
        wire::ExecutionStatus::Accepted => "The request was accepted.",
        wire::ExecutionStatus::Running => "The skill is running.",
        wire::ExecutionStatus::Completed => "The execution succeeded.",
        wire::ExecutionStatus::Failed => "The execution failed.",
        wire::ExecutionStatus::Timeout => "The execution exceeded its time limit.",
    };
    let (values, docs) = (
        wire::ExecutionStatus::ALL.map(wire::ExecutionStatus::as_str).to_vec(),
        wire::ExecutionStatus::ALL.map(doc).to_vec(),
    );
    EnumDefinition { name: "ExecutionStatus", doc: "Status of an execution.", values, docs }
}
