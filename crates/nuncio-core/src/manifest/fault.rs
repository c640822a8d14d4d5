//! Faults and warnings about a manifest, with their JSON pointers.

use std::fmt;

use serde::Serialize;

use crate::text::join_lines;
use crate::{Code, string_enum};

/// Limit of reported faults per manifest.
const MAX_FAULTS: usize = 256;

string_enum! {
    /// A rule that a manifest can break. Each comment states what the rule requires.
    #[derive(PartialOrd, Ord)]
    pub enum ManifestRule {
        /// The text is JSON.
        NotJson = "not_json",
        /// Nesting is within the limit of the parser.
        TooDeep = "too_deep",
        /// No object repeats a name.
        RepeatedName = "repeated_name",
        /// Every parser represents the numbers exactly.
        UnsafeNumber = "unsafe_number",
        /// The size is within the limit.
        TooLarge = "too_large",
        /// Each field has its JSON type.
        WrongType = "wrong_type",
        /// Required fields are present.
        Missing = "missing",
        /// `schema_version` is "1.0".
        SchemaVersion = "schema_version",
        /// `agent_version` is a semantic version.
        AgentVersion = "agent_version",
        /// A tool's name has the right form.
        ToolName = "tool_name",
        /// Tool names are unique.
        ToolDuplicate = "tool_duplicate",
        /// A translation key has the right form.
        I18nKey = "i18n_key",
        /// A time limit is within bounds.
        Timeout = "timeout",
        /// A scope's id has the right form.
        ScopeId = "scope_id",
        /// Scope ids are unique.
        ScopeDuplicate = "scope_duplicate",
        /// A scope is not reserved for the platform.
        ScopeReserved = "scope_reserved",
        /// The manifest declares each tool's scope.
        ScopeUndeclared = "scope_undeclared",
        /// A sensitivity is `low`, `medium` or `high`.
        Sensitivity = "sensitivity",
        /// A sensitivity is not below its floor.
        SensitivityBelowFloor = "sensitivity_below_floor",
        /// A scope without preset texts has texts of its own.
        FallbackMissing = "fallback_missing",
        /// A text is short and has no hidden characters.
        FallbackText = "fallback_text",
        /// A text's language is a language tag.
        FallbackLanguage = "fallback_language",
        /// An input schema describes an object.
        SchemaNotObject = "schema_not_object",
        /// An input schema is valid.
        SchemaInvalid = "schema_invalid",
        /// An input schema follows Draft 2020-12.
        SchemaDraft = "schema_draft",
        /// An input schema nests no deeper than allowed.
        SchemaTooDeep = "schema_too_deep",
        /// An input schema has no more values than allowed.
        SchemaTooLarge = "schema_too_large",
        /// A pattern is short and can be matched in linear time.
        SchemaPattern = "schema_pattern",
        /// An input schema refers to nothing outside itself.
        SchemaReference = "schema_reference",
        /// An input schema does not change its base URI.
        SchemaRebased = "schema_rebased",
    }
}

impl ManifestRule {
    /// The error code of a manifest in which only this rule is broken.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::TooLarge => Code::ManifestTooLarge,
            Self::ToolDuplicate => Code::ManifestToolDuplicate,
            Self::ScopeReserved => Code::ManifestScopeReserved,
            Self::ScopeUndeclared => Code::ManifestScopeUndeclared,
            Self::SensitivityBelowFloor => Code::ManifestSensitivityBelowFloor,
            Self::FallbackMissing => Code::ManifestFallbackMissing,
            Self::SchemaNotObject
            | Self::SchemaInvalid
            | Self::SchemaDraft
            | Self::SchemaTooDeep
            | Self::SchemaTooLarge
            | Self::SchemaPattern
            | Self::SchemaReference
            | Self::SchemaRebased => Code::ManifestSchemaInvalid,
            _ => Code::ManifestInvalid,
        }
    }
}

string_enum! {
    /// Why a manifest gets a warning: it is valid, but probably unintended.
    #[derive(PartialOrd, Ord)]
    pub enum WarningRule {
        /// The manifest is large.
        Large = "large",
        /// A tool accepts arguments that its schema does not list.
        AdditionalProperties = "additional_properties",
        /// A tool is described only by a translation key that devices may not know.
        DescriptionFallback = "description_fallback",
        /// A field is unknown in this version.
        UnknownField = "unknown_field",
    }
}

/// A broken rule at one position of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestFault {
    /// JSON pointer of the fault; empty for the whole manifest.
    pub pointer: String,
    pub rule: ManifestRule,
    /// The rule's error code.
    pub code: Code,
    /// What is wrong in the manifest and what its author should do.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestWarning {
    /// JSON pointer of the warning; empty for the whole manifest.
    pub pointer: String,
    pub rule: WarningRule,
    /// What the warning is about and what the author should do.
    pub message: String,
}

/// All broken rules of a manifest; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", join_lines(.0))]
pub struct ManifestFaults(Vec<ManifestFault>);

impl ManifestFaults {
    pub(super) fn one(rule: ManifestRule, pointer: &str, message: String) -> Self {
        Self(vec![ManifestFault { pointer: pointer.to_owned(), rule, code: rule.code(), message }])
    }

    /// The faults of the manifest in document order.
    #[must_use]
    pub fn faults(&self) -> &[ManifestFault] {
        &self.0
    }

    /// The code for the whole manifest: size first; the rule's own code if all faults have the same; otherwise the
    /// general one.
    #[must_use]
    pub fn code(&self) -> Code {
        let has = |code| self.0.iter().any(|fault| fault.code == code);
        match self.0.first() {
            _ if has(Code::ManifestTooLarge) => Code::ManifestTooLarge,
            Some(first) if self.0.iter().all(|fault| fault.code == first.code) => first.code,
            _ => Code::ManifestInvalid,
        }
    }
}

impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ManifestNotes {
    faults: Vec<ManifestFault>,
    warnings: Vec<ManifestWarning>,
}

impl ManifestNotes {
    pub(super) fn fault(&mut self, rule: ManifestRule, pointer: &str, message: String) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(ManifestFault { pointer: pointer.to_owned(), rule, code: rule.code(), message });
        }
    }

    pub(super) fn warn(&mut self, rule: WarningRule, pointer: &str, message: String) {
        if self.warnings.len() < MAX_FAULTS {
            self.warnings.push(ManifestWarning { pointer: pointer.to_owned(), rule, message });
        }
    }

    pub(super) fn count(&self) -> usize {
        self.faults.len()
    }

    /// The warnings if there are no faults.
    pub(super) fn finish(self) -> Result<Vec<ManifestWarning>, ManifestFaults> {
        if self.faults.is_empty() { Ok(self.warnings) } else { Err(ManifestFaults(self.faults)) }
    }
}
