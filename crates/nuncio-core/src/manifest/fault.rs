//! Faults and warnings about a manifest, with their JSON pointers.

use std::fmt;

use serde::Serialize;

use crate::text::join_lines;
use crate::{ErrorCode, string_enum};

/// Limit of reported faults, and of warnings, per manifest; further ones are dropped.
const MAX_FAULTS: usize = 256;

string_enum! {
    /// A rule that a manifest can break.
    #[derive(PartialOrd, Ord)]
    pub enum ManifestRule {
        /// Rule: the manifest is JSON.
        NotJson = "not_json",
        /// Rule: the nesting of the manifest is within the parser's limit.
        TooDeep = "too_deep",
        /// Rule: no object of the manifest repeats a name.
        RepeatedName = "repeated_name",
        /// Rule: every JSON parser represents the manifest's numbers exactly.
        UnsafeNumber = "unsafe_number",
        /// Rule: the size of the manifest is within the limit.
        TooLarge = "too_large",
        /// Rule: each field of the manifest has its JSON type.
        WrongType = "wrong_type",
        /// Rule: the required fields of the manifest are present.
        Missing = "missing",
        /// Rule: `schema_version` is "1.0".
        SchemaVersion = "schema_version",
        /// Rule: `agent_version` is a semantic version.
        AgentVersion = "agent_version",
        /// Rule: tool names have the right form.
        ToolName = "tool_name",
        /// Rule: tool names are unique.
        ToolDuplicate = "tool_duplicate",
        /// Rule: translation keys have the right form.
        I18nKey = "i18n_key",
        /// Rule: the time limit of a tool is within bounds.
        Timeout = "timeout",
        /// Rule: scope ids have the right form.
        ScopeId = "scope_id",
        /// Rule: scope ids are unique.
        ScopeDuplicate = "scope_duplicate",
        /// Rule: no scope is reserved for the platform.
        ScopeReserved = "scope_reserved",
        /// Rule: the manifest declares each tool's scope.
        ScopeUndeclared = "scope_undeclared",
        /// Rule: a scope's sensitivity is `low`, `medium` or `high`.
        Sensitivity = "sensitivity",
        /// Rule: a scope's sensitivity is not below the minimum for that scope.
        SensitivityBelowFloor = "sensitivity_below_floor",
        /// Rule: a scope without preset texts has texts of its own.
        FallbackMissing = "fallback_missing",
        /// Rule: texts for people are short and have no hidden characters.
        FallbackText = "fallback_text",
        /// Rule: the language of a text is a language tag.
        FallbackLanguage = "fallback_language",
        /// Rule: a tool's input schema describes an object.
        SchemaNotObject = "schema_not_object",
        /// Rule: a tool's input schema is valid.
        SchemaInvalid = "schema_invalid",
        /// Rule: a tool's input schema follows Draft 2020-12.
        SchemaDraft = "schema_draft",
        /// Rule: a tool's input schema nests no deeper than allowed.
        SchemaTooDeep = "schema_too_deep",
        /// Rule: a tool's input schema has no more values than allowed.
        SchemaTooLarge = "schema_too_large",
        /// Rule: the patterns of an input schema are short and can be matched in linear time.
        SchemaPattern = "schema_pattern",
        /// Rule: a tool's input schema refers to nothing outside itself.
        SchemaReference = "schema_reference",
        /// Rule: a tool's input schema does not change its base URI.
        SchemaRebased = "schema_rebased",
    }
}

impl ManifestRule {
    /// The error code of a manifest in which only this rule is broken.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::TooLarge => ErrorCode::ManifestTooLarge,
            Self::ToolDuplicate => ErrorCode::ManifestToolDuplicate,
            Self::ScopeReserved => ErrorCode::ManifestScopeReserved,
            Self::ScopeUndeclared => ErrorCode::ManifestScopeUndeclared,
            Self::SensitivityBelowFloor => ErrorCode::ManifestSensitivityBelowFloor,
            Self::FallbackMissing => ErrorCode::ManifestFallbackMissing,
            Self::SchemaNotObject
            | Self::SchemaInvalid
            | Self::SchemaDraft
            | Self::SchemaTooDeep
            | Self::SchemaTooLarge
            | Self::SchemaPattern
            | Self::SchemaReference
            | Self::SchemaRebased => ErrorCode::ManifestSchemaInvalid,
            _ => ErrorCode::ManifestInvalid,
        }
    }
}

string_enum! {
    /// Why a manifest gets a warning: it is valid, but probably unintended.
    #[derive(PartialOrd, Ord)]
    pub enum ManifestWarningRule {
        /// The manifest is large.
        Large = "large",
        /// A tool accepts arguments that its schema does not list.
        AdditionalProperties = "additional_properties",
        /// A tool is described only by a translation key that devices may not know.
        DescriptionFallback = "description_fallback",
        /// A field of the manifest is unknown in this version.
        UnknownField = "unknown_field",
    }
}

/// A broken rule at one position of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestFault {
    /// JSON pointer of the fault; empty for the whole manifest.
    pub pointer: String,
    pub rule: ManifestRule,
    /// The error code of the broken rule.
    pub code: ErrorCode,
    /// What is wrong in the manifest and what its author should do.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestWarning {
    /// JSON pointer of the warning; empty for the whole manifest.
    pub pointer: String,
    pub rule: ManifestWarningRule,
    /// What the warning is about and what the author should do.
    pub message: String,
}

/// Broken rules of a manifest: at least one, at most 256.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", join_lines(.0))]
pub struct ManifestFaults(Vec<ManifestFault>);

impl ManifestFaults {
    pub(super) fn one(rule: ManifestRule, pointer: &str, message: String) -> Self {
        Self(vec![ManifestFault { pointer: pointer.to_owned(), rule, code: rule.code(), message }])
    }

    /// The faults of the manifest, in the order in which they were found.
    #[must_use]
    pub fn faults(&self) -> &[ManifestFault] {
        &self.0
    }

    /// Error code for the whole manifest: the code for size if it is among them, the faults' code if all have the same,
    /// otherwise the general one.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let has = |code| self.0.iter().any(|fault| fault.code == code);
        match self.0.first() {
            _ if has(ErrorCode::ManifestTooLarge) => ErrorCode::ManifestTooLarge,
            Some(first) if self.0.iter().all(|fault| fault.code == first.code) => first.code,
            _ => ErrorCode::ManifestInvalid,
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
pub(super) struct ManifestFindings {
    faults: Vec<ManifestFault>,
    warnings: Vec<ManifestWarning>,
}

impl ManifestFindings {
    pub(super) fn fault(&mut self, rule: ManifestRule, pointer: &str, message: String) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(ManifestFault { pointer: pointer.to_owned(), rule, code: rule.code(), message });
        }
    }

    pub(super) fn warn(&mut self, rule: ManifestWarningRule, pointer: &str, message: String) {
        if self.warnings.len() < MAX_FAULTS {
            self.warnings.push(ManifestWarning { pointer: pointer.to_owned(), rule, message });
        }
    }

    pub(super) fn count(&self) -> usize {
        self.faults.len()
    }

    /// The warnings of a manifest without faults. The error is the list of faults.
    pub(super) fn finish(self) -> Result<Vec<ManifestWarning>, ManifestFaults> {
        if self.faults.is_empty() { Ok(self.warnings) } else { Err(ManifestFaults(self.faults)) }
    }
}
