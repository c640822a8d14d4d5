//! What is wrong with a manifest, and where.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Code;

/// How many faults of one manifest are told.
const MAX_FAULTS: usize = 256;

macro_rules! rules {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The rule's stable id.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

rules! {
    /// A rule that a manifest can break.
    ManifestRule {
        /// It is JSON.
        NotJson = "not_json",
        /// It nests no deeper than readers go.
        TooDeep = "too_deep",
        /// No name stands twice in an object.
        RepeatedName = "repeated_name",
        /// Numbers are such that every reader holds them exactly.
        UnsafeNumber = "unsafe_number",
        /// It is no larger than allowed.
        TooLarge = "too_large",
        /// A field has the JSON type it must have.
        WrongType = "wrong_type",
        /// A field is there.
        Missing = "missing",
        /// `schema_version` is "1.0".
        SchemaVersion = "schema_version",
        /// `agent_version` is a semantic version.
        AgentVersion = "agent_version",
        /// A tool's name has the right form.
        ToolName = "tool_name",
        /// No two tools have one name.
        ToolDuplicate = "tool_duplicate",
        /// A key into a bundle of texts has the right form.
        I18nKey = "i18n_key",
        /// A time limit is within bounds.
        Timeout = "timeout",
        /// A scope's id has the right form.
        ScopeId = "scope_id",
        /// No two scopes have one id.
        ScopeDuplicate = "scope_duplicate",
        /// A scope is not one of the platform's own.
        ScopeReserved = "scope_reserved",
        /// A tool's scope is declared.
        ScopeUndeclared = "scope_undeclared",
        /// A sensitivity is one of the three.
        Sensitivity = "sensitivity",
        /// A sensitivity is not below its floor.
        SensitivityBelowFloor = "sensitivity_below_floor",
        /// A scope without preset texts brings its own.
        FallbackMissing = "fallback_missing",
        /// A text is plain, short and shows what it holds.
        FallbackText = "fallback_text",
        /// A text's language is a language tag.
        FallbackLanguage = "fallback_language",
        /// A tool takes an object.
        SchemaNotObject = "schema_not_object",
        /// An input schema is a valid one.
        SchemaInvalid = "schema_invalid",
        /// An input schema follows Draft 2020-12.
        SchemaDraft = "schema_draft",
        /// An input schema nests no deeper than allowed.
        SchemaTooDeep = "schema_too_deep",
        /// An input schema has no more parts than allowed.
        SchemaTooLarge = "schema_too_large",
        /// A pattern is short and can be matched in linear time.
        SchemaPattern = "schema_pattern",
        /// An input schema refers to nothing outside of itself.
        SchemaReference = "schema_reference",
        /// An input schema does not move its own base.
        SchemaRebased = "schema_rebased",
    }
}

impl ManifestRule {
    /// The error code of whoever breaks this rule alone.
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

rules! {
    /// Something allowed that is probably not meant.
    WarningRule {
        /// The manifest is large.
        Large = "large",
        /// A tool takes arguments that its schema does not name.
        AdditionalProperties = "additional_properties",
        /// A tool has no words of its own, in case a client's bundle has none.
        DescriptionFallback = "description_fallback",
        /// A field that this version knows nothing of.
        UnknownField = "unknown_field",
    }
}

/// One rule broken at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestFault {
    /// Where, as a JSON pointer; empty for the whole.
    pub pointer: String,
    /// Which rule.
    pub rule: ManifestRule,
    /// The error code that belongs to the rule.
    pub code: Code,
    /// What is wrong and what to do.
    pub message: String,
}

/// One thing to look at again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestWarning {
    /// Where, as a JSON pointer; empty for the whole.
    pub pointer: String,
    /// Which rule.
    pub rule: WarningRule,
    /// What it is and what to do.
    pub message: String,
}

/// Every rule a manifest breaks; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFaults(Vec<ManifestFault>);

impl ManifestFaults {
    pub(super) fn one(rule: ManifestRule, pointer: &str, message: String) -> Self {
        Self(vec![ManifestFault { pointer: pointer.to_owned(), rule, code: rule.code(), message }])
    }

    /// The faults, in the order of the document.
    #[must_use]
    pub fn faults(&self) -> &[ManifestFault] {
        &self.0
    }

    /// The code for the whole: size before all, the rule's own when all faults are of one kind, else the general one.
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

impl fmt::Display for ManifestFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ManifestFaults {}

impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    faults: Vec<ManifestFault>,
    warnings: Vec<ManifestWarning>,
}

impl Notes {
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

    /// How many faults there are.
    pub(super) fn count(&self) -> usize {
        self.faults.len()
    }

    /// The warnings, when there is nothing worse.
    pub(super) fn finish(self) -> Result<Vec<ManifestWarning>, ManifestFaults> {
        if self.faults.is_empty() { Ok(self.warnings) } else { Err(ManifestFaults(self.faults)) }
    }
}
