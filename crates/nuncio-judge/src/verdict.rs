//! The judge's verdict on the change between two manifests.

use std::collections::BTreeSet;

use nuncio_core::string_enum;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::schema::{ComparisonBudget, NarrowingRule};

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ManifestChangeVerdict {
    /// Whether people who consented to the old manifest must be asked again.
    pub breaking: bool,
    /// Scopes that need new consent, sorted.
    pub scopes_requiring_reauth: BTreeSet<String>,
    /// All reasons why the change is breaking; empty if it is not.
    pub findings: Vec<BreakingChangeFinding>,
    /// Other changes, of which a person should be informed.
    pub notices: Vec<NonBreakingChangeNotice>,
}

impl ManifestChangeVerdict {
    /// The verdict on a manifest that is not JSON: breaking, without a specific reason.
    #[must_use]
    pub fn unreadable() -> Self {
        let rule = BreakingChangeRule::Unreadable;
        let finding = BreakingChangeFinding {
            rule,
            pointer: String::new(),
            old: None,
            new: None,
            witness: None,
            scope: None,
            tool: None,
        };
        Self { breaking: true, findings: vec![finding], ..Self::default() }
    }
}

/// One reason why a change is breaking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BreakingChangeFinding {
    pub rule: BreakingChangeRule,
    /// JSON pointer into the new manifest, or into the old one for removed parts.
    pub pointer: String,
    pub old: Option<Value>,
    pub new: Option<Value>,
    /// Arguments that the tool accepted before and refuses now, or the reverse for the rule `input_widened`; `None` if
    /// none were found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Value>,
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// A change that needs no new consent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NonBreakingChangeNotice {
    pub rule: NonBreakingChangeRule,
    /// JSON pointer into the new manifest, or into the old one for removed parts.
    pub pointer: String,
    pub old: Option<Value>,
    pub new: Option<Value>,
    /// Arguments that the tool refused before and accepts now; `None` if none were found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// The operator's settings for judging changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeJudgingPolicy {
    /// Also requires new consent when an agent may do more within the consented scopes: newly accepted arguments, new
    /// tools under an existing scope, a lower sensitivity.
    pub reauth_on_widening: bool,
    /// Limit of work for comparing schemas, per direction. The tools with changed arguments share it by size, but each
    /// gets at least 10,000 steps.
    pub budget: ComparisonBudget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BreakingChangeRule {
    /// A manifest, or a part of one, cannot be read.
    Unreadable,
    /// The agent had no manifest before.
    ManifestAdded,
    /// The format version of the manifest changed.
    SchemaVersionChanged,
    ScopeAdded,
    /// A scope that was removed earlier is declared again.
    ScopeReadded,
    /// A tool needs a scope that the manifest does not declare.
    ScopeUndeclared,
    SensitivityRaised,
    /// A tool needs another scope than before.
    ToolMoved,
    /// The `type` of a part of the arguments changed, to a wider or a narrower one.
    TypeChanged,
    /// A tool accepts more arguments; breaking only under `reauth_on_widening`.
    InputWidened,
    /// A new tool uses an existing scope; breaking only under `reauth_on_widening`.
    ToolAdded,
    /// The sensitivity of a scope was lowered; breaking only under `reauth_on_widening`.
    SensitivityLowered,
    /// A tool refuses arguments that it accepted before.
    Schema(NarrowingRule),
}

impl BreakingChangeRule {
    /// All variants except `Schema(_)`, whose rules are those of [`NarrowingRule`].
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

impl Serialize for BreakingChangeRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

string_enum! {
    #[derive(PartialOrd, Ord)]
    pub enum NonBreakingChangeRule {
        /// A tool accepts more arguments than before.
        InputWidened = "input_widened",
        /// A tool's input schema is written differently and accepts the same arguments.
        InputRewritten = "input_rewritten",
        /// The `format` of an argument changed, which is only an annotation.
        FormatChanged = "format_changed",
        /// Descriptions, defaults or examples in a schema changed.
        AnnotationChanged = "annotation_changed",
        /// A new tool uses an existing scope.
        ToolAdded = "tool_added",
        /// A tool that was removed earlier is declared again.
        ToolReadded = "tool_readded",
        ToolRemoved = "tool_removed",
        ToolRequiredChanged = "tool_required_changed",
        TimeoutChanged = "timeout_changed",
        /// A scope was removed, and with it all grants of it.
        ScopeRemoved = "scope_removed",
        SensitivityLowered = "sensitivity_lowered",
        /// A text shown to people changed.
        DisplayTextChanged = "display_text_changed",
        /// A capability flag changed.
        FlagChanged = "flag_changed",
        AgentVersionChanged = "agent_version_changed",
        /// A field of the manifest that the judge does not know changed.
        FieldChanged = "field_changed",
        ManifestCleared = "manifest_cleared",
    }
}

impl NonBreakingChangeRule {
    /// The rule of the finding that the notice becomes under `reauth_on_widening`.
    #[must_use]
    pub const fn widening(self) -> Option<BreakingChangeRule> {
        match self {
            Self::InputWidened => Some(BreakingChangeRule::InputWidened),
            Self::ToolAdded | Self::ToolReadded => Some(BreakingChangeRule::ToolAdded),
            Self::SensitivityLowered => Some(BreakingChangeRule::SensitivityLowered),
            _ => None,
        }
    }
}
