//! What the judge says of two manifests.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::schema::{Budget, SchemaRule};

/// The verdict on a change from one manifest to another.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Verdict {
    /// Whether somebody who agreed to the old one has to be asked again.
    pub breaking: bool,
    /// The scopes that need new consent, sorted.
    pub scopes_requiring_reauth: BTreeSet<String>,
    /// Every reason why it is breaking; empty when it is not.
    pub findings: Vec<Finding>,
    /// What changed besides, and a person would want to know.
    pub notices: Vec<Notice>,
}

impl Verdict {
    /// The verdict on something that cannot even be read as JSON: breaking, for reasons nobody can name.
    #[must_use]
    pub fn unreadable() -> Self {
        let rule = ChangeRule::Unreadable;
        let finding =
            Finding { rule, pointer: String::new(), old: None, new: None, witness: None, scope: None, tool: None };
        Self { breaking: true, findings: vec![finding], ..Self::default() }
    }
}

/// One reason why a change is breaking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Which kind of change.
    pub rule: ChangeRule,
    /// Where, as a JSON pointer into the new manifest; into the old one for what is gone.
    pub pointer: String,
    /// What stood there before.
    pub old: Option<Value>,
    /// What stands there now.
    pub new: Option<Value>,
    /// Arguments that the tool took before and no longer takes; under `input_widened` the other way round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Value>,
    /// The scope that needs new consent.
    pub scope: Option<String>,
    /// The tool, when it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// Something that changed and asks for no new consent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Notice {
    /// Which kind of change.
    pub rule: NoticeRule,
    /// Where, as a JSON pointer into the new manifest; into the old one for what is gone.
    pub pointer: String,
    /// What stood there before.
    pub old: Option<Value>,
    /// What stands there now.
    pub new: Option<Value>,
    /// Arguments that the tool takes now and did not take before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Value>,
    /// The scope it falls under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The tool, when it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// What an operator decides about changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangePolicy {
    /// Ask again also when an agent may do more than before within what was agreed to: arguments that were refused, new
    /// tools under a known scope, a lower sensitivity.
    pub reauth_on_widening: bool,
    /// How much work comparing schemas may cost, for each tool and direction.
    pub budget: Budget,
}

/// Why a change is breaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeRule {
    /// A manifest, or a part of one, is not to be understood.
    Unreadable,
    /// There was no manifest before.
    ManifestAdded,
    /// The format of the manifest changed.
    SchemaVersionChanged,
    /// A scope is new.
    ScopeAdded,
    /// A scope that was gone is back.
    ScopeReadded,
    /// A tool needs a scope that the manifest does not declare.
    ScopeUndeclared,
    /// More is at stake with a scope than was said.
    SensitivityRaised,
    /// A tool needs another scope than before.
    ToolMoved,
    /// The `type` of a part of the arguments changed, be it wider or narrower.
    TypeChanged,
    /// A tool takes what it did not take. Only by the operator's policy.
    InputWidened,
    /// A tool is new under a known scope. Only by the operator's policy.
    ToolAdded,
    /// Less is said to be at stake with a scope. Only by the operator's policy.
    SensitivityLowered,
    /// A tool no longer takes all that it took.
    Schema(SchemaRule),
}

impl ChangeRule {
    /// Every rule but those of [`SchemaRule`].
    pub const ALL: &[Self] = &[
        Self::Unreadable,
        Self::ManifestAdded,
        Self::SchemaVersionChanged,
        Self::ScopeAdded,
        Self::ScopeReadded,
        Self::ScopeUndeclared,
        Self::SensitivityRaised,
        Self::ToolMoved,
        Self::TypeChanged,
        Self::InputWidened,
        Self::ToolAdded,
        Self::SensitivityLowered,
    ];

    /// The rule's stable id.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::ManifestAdded => "manifest_added",
            Self::SchemaVersionChanged => "schema_version_changed",
            Self::ScopeAdded => "scope_added",
            Self::ScopeReadded => "scope_readded",
            Self::ScopeUndeclared => "scope_undeclared",
            Self::SensitivityRaised => "sensitivity_raised",
            Self::ToolMoved => "tool_moved",
            Self::TypeChanged => "type_changed",
            Self::InputWidened => "input_widened",
            Self::ToolAdded => "tool_added",
            Self::SensitivityLowered => "sensitivity_lowered",
            Self::Schema(rule) => rule.as_str(),
        }
    }
}

impl Serialize for ChangeRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What changed without being breaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoticeRule {
    /// A tool takes arguments that it did not take.
    InputWidened,
    /// A tool's schema is written differently and takes the same arguments.
    InputRewritten,
    /// A `format` changed, which says something and enforces nothing.
    FormatChanged,
    /// Words, defaults or examples in a schema changed.
    AnnotationChanged,
    /// A tool is new under a known scope.
    ToolAdded,
    /// A tool that was gone is back.
    ToolReadded,
    /// A tool is gone.
    ToolRemoved,
    /// A tool became necessary, or no longer is.
    ToolRequiredChanged,
    /// A tool's calls may take longer, or shorter.
    TimeoutChanged,
    /// A scope is gone, and with it every grant of it.
    ScopeRemoved,
    /// Less is said to be at stake with a scope.
    SensitivityLowered,
    /// The words that people see changed.
    DisplayTextChanged,
    /// What the agent says it can do besides changed.
    FlagChanged,
    /// The agent has another version.
    AgentVersionChanged,
    /// A field changed that we know nothing of.
    FieldChanged,
    /// There is no manifest any more.
    ManifestCleared,
}

impl NoticeRule {
    /// Every rule.
    pub const ALL: &[Self] = &[
        Self::InputWidened,
        Self::InputRewritten,
        Self::FormatChanged,
        Self::AnnotationChanged,
        Self::ToolAdded,
        Self::ToolReadded,
        Self::ToolRemoved,
        Self::ToolRequiredChanged,
        Self::TimeoutChanged,
        Self::ScopeRemoved,
        Self::SensitivityLowered,
        Self::DisplayTextChanged,
        Self::FlagChanged,
        Self::AgentVersionChanged,
        Self::FieldChanged,
        Self::ManifestCleared,
    ];

    /// The rule's stable id.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InputWidened => "input_widened",
            Self::InputRewritten => "input_rewritten",
            Self::FormatChanged => "format_changed",
            Self::AnnotationChanged => "annotation_changed",
            Self::ToolAdded => "tool_added",
            Self::ToolReadded => "tool_readded",
            Self::ToolRemoved => "tool_removed",
            Self::ToolRequiredChanged => "tool_required_changed",
            Self::TimeoutChanged => "timeout_changed",
            Self::ScopeRemoved => "scope_removed",
            Self::SensitivityLowered => "sensitivity_lowered",
            Self::DisplayTextChanged => "display_text_changed",
            Self::FlagChanged => "flag_changed",
            Self::AgentVersionChanged => "agent_version_changed",
            Self::FieldChanged => "field_changed",
            Self::ManifestCleared => "manifest_cleared",
        }
    }

    /// The finding it becomes for an operator who wants to ask again when an agent may do more.
    #[must_use]
    pub const fn widening(self) -> Option<ChangeRule> {
        match self {
            Self::InputWidened => Some(ChangeRule::InputWidened),
            Self::ToolAdded | Self::ToolReadded => Some(ChangeRule::ToolAdded),
            Self::SensitivityLowered => Some(ChangeRule::SensitivityLowered),
            _ => None,
        }
    }
}

impl Serialize for NoticeRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
