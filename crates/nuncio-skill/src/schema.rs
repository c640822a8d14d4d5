//! The published schemas: JSON Schema, TypeScript and MDX, all written from the types of [`crate::wire`].
//!
//! `cargo xtask schema` puts them into `schema/`. The names are those of the seed's §9.1, the mapping that of
//! its §9.2: `number` and no `format`, what is optional is not in `required`, and objects are open.

pub mod json;
pub mod mdx;
pub mod model;
pub mod ts;

use std::sync::LazyLock;

use nuncio_core::agent::{CapabilityType, SkillAccess};

use crate::wire;
use model::{Definition, Rule};

/// The day on which the draft became a release. A release never changes: a new one has a new day.
pub const RELEASE: &str = "2026-11-15";

/// Something with a name in the schema.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// An object.
    Object(Definition, Vec<Rule>),
    /// A closed list of words.
    Words(Words),
}

/// A closed list of words.
#[derive(Debug, Clone, PartialEq)]
pub struct Words {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Each word, with what it means.
    pub words: Vec<(&'static str, &'static str)>,
}

impl Published {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Object(definition, _) => definition.name,
            Self::Words(words) => words.name,
        }
    }
}

/// Every definition of the seed's §9.1, in its order; the first is the root.
pub static CATALOGUE: LazyLock<Vec<Published>> = LazyLock::new(|| {
    let object = |definition| Published::Object(definition, Vec::new());
    vec![
        object(wire::SkillDescriptor::definition()),
        object(wire::SkillIndex::definition()),
        object(wire::SkillIndexEntry::definition()),
        object(wire::InvocationRequest::definition()),
        Published::Object(wire::InvocationResponse::definition(), response_rules()),
        object(wire::ProtocolVersion::definition()),
        Published::Words(capability_type()),
        Published::Words(access_policy()),
        Published::Words(auth_type()),
        Published::Words(execution_status()),
        object(wire::ParameterDefinition::definition()),
        Published::Object(wire::AuthConfig::definition(), auth_rules()),
        object(wire::InvocationEndpoint::definition()),
        object(wire::OutputDefinition::definition()),
    ]
});

/// The definition of that name.
#[must_use]
pub fn published(name: &str) -> Option<&'static Published> {
    CATALOGUE.iter().find(|one| one.name() == name)
}

/// §3.5.5.
fn auth_rules() -> Vec<Rule> {
    vec![
        Rule { field: "type", is: &["oauth2"], requires: &["oauth2"], forbids: &[] },
        Rule { field: "type", is: &["custom"], requires: &["custom"], forbids: &[] },
    ]
}

/// §5.4.
fn response_rules() -> Vec<Rule> {
    vec![
        Rule { field: "status", is: &["completed"], requires: &["output"], forbids: &["error"] },
        Rule { field: "status", is: &["failed", "timeout"], requires: &["error"], forbids: &["output"] },
        Rule {
            field: "status",
            is: &["accepted", "running"],
            requires: &[],
            forbids: &["output", "error", "timestamps/completed_at"],
        },
    ]
}

fn capability_type() -> Words {
    let doc = |kind| match kind {
        CapabilityType::Plugin => "A plugin that adds to something else.",
        CapabilityType::Api => "An API service.",
        CapabilityType::Knowledge => "A package of knowledge or a source of data.",
        CapabilityType::Task => "Something to have done, by people or by machines.",
    };
    let words = CapabilityType::ALL.map(|kind| (kind.as_str(), doc(kind))).to_vec();
    Words { name: "CapabilityType", doc: "What sort of thing a skill is.", words }
}

fn access_policy() -> Words {
    let doc = |access| match access {
        SkillAccess::Public => "Every consumer may find and invoke it.",
        SkillAccess::Restricted => "Everyone may find it; only authorised consumers may invoke it.",
        SkillAccess::Private => {
            "Hidden from unauthenticated discovery; only authorised consumers may find and invoke it."
        }
    };
    let words = SkillAccess::ALL.map(|access| (access.as_str(), doc(access))).to_vec();
    Words { name: "AccessPolicy", doc: "Who may find and invoke a skill.", words }
}

fn auth_type() -> Words {
    let doc = |kind| match kind {
        wire::AuthType::ApiKey => "By an API key in a header.",
        wire::AuthType::OAuth2 => "By an OAuth 2.0 access token.",
        wire::AuthType::Custom => "In a way of its own.",
        wire::AuthType::None => "Not at all.",
    };
    let words = wire::AuthType::ALL.map(|kind| (kind.as_str(), doc(kind))).to_vec();
    Words { name: "AuthType", doc: "How callers of a skill say who they are.", words }
}

fn execution_status() -> Words {
    let doc = |status| match status {
        wire::ExecutionStatus::Accepted => "The request was taken on.",
        wire::ExecutionStatus::Running => "The skill is at work.",
        wire::ExecutionStatus::Completed => "It ended well.",
        wire::ExecutionStatus::Failed => "It ended badly.",
        wire::ExecutionStatus::Timeout => "It took too long.",
    };
    let words = wire::ExecutionStatus::ALL.map(|status| (status.as_str(), doc(status))).to_vec();
    Words { name: "ExecutionStatus", doc: "How far an execution is.", words }
}

/// The files of one release: name and text.
#[must_use]
pub fn files() -> [(&'static str, String); 3] {
    [("schema.json", json::text()), ("schema.ts", ts::text()), ("schema.mdx", mdx::text())]
}
