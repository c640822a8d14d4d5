//! The rules by which schema findings are classified.

/// In which way the new schema refuses what the old one accepted. Each rule has a stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SchemaRule {
    /// A property became required.
    RequiredAdded,
    TypeNarrowed,
    /// An enumerated value was removed, or an enumeration was added.
    EnumValueRemoved,
    /// The constant changed, or was added.
    ConstChanged,
    /// Unlisted properties are no longer allowed, or their values are restricted.
    AdditionalPropertiesClosed,
    /// A listed property is no longer allowed.
    PropertyRefused,
    PropertyNamesNarrowed,
    /// A bound on a number, a length or a count is tighter.
    BoundTightened,
    MultipleTightened,
    PatternTightened,
    UniqueItemsAdded,
    /// Items that were allowed are refused.
    ItemsClosed,
    /// `contains`, or its minimum or maximum count, is stricter.
    ContainsTightened,
    /// An alternative was removed or narrowed.
    BranchRemoved,
    /// More than one alternative of a `oneOf` now matches.
    BranchesOverlap,
    /// `not` excludes more.
    NotWidened,
    /// `if`/`then`/`else` requires more.
    ConditionTightened,
    /// The presence of a property requires more.
    DependencyAdded,
    /// Parts that no other keyword evaluates are refused.
    UnevaluatedClosed,
    /// The schema is `false`.
    NothingAllowed,
    /// One of the two schemas is invalid.
    SchemaInvalid,
    /// Neither proved nor refuted within the budget; counts as a refusal.
    Unknown,
}

impl SchemaRule {
    pub const ALL: &[Self] = &[
        Self::RequiredAdded,
        Self::TypeNarrowed,
        Self::EnumValueRemoved,
        Self::ConstChanged,
        Self::AdditionalPropertiesClosed,
        Self::PropertyRefused,
        Self::PropertyNamesNarrowed,
        Self::BoundTightened,
        Self::MultipleTightened,
        Self::PatternTightened,
        Self::UniqueItemsAdded,
        Self::ItemsClosed,
        Self::ContainsTightened,
        Self::BranchRemoved,
        Self::BranchesOverlap,
        Self::NotWidened,
        Self::ConditionTightened,
        Self::DependencyAdded,
        Self::UnevaluatedClosed,
        Self::NothingAllowed,
        Self::SchemaInvalid,
        Self::Unknown,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequiredAdded => "required_added",
            Self::TypeNarrowed => "type_narrowed",
            Self::EnumValueRemoved => "enum_value_removed",
            Self::ConstChanged => "const_changed",
            Self::AdditionalPropertiesClosed => "additional_properties_closed",
            Self::PropertyRefused => "property_refused",
            Self::PropertyNamesNarrowed => "property_names_narrowed",
            Self::BoundTightened => "bound_tightened",
            Self::MultipleTightened => "multiple_tightened",
            Self::PatternTightened => "pattern_tightened",
            Self::UniqueItemsAdded => "unique_items_added",
            Self::ItemsClosed => "items_closed",
            Self::ContainsTightened => "contains_tightened",
            Self::BranchRemoved => "branch_removed",
            Self::BranchesOverlap => "branches_overlap",
            Self::NotWidened => "not_widened",
            Self::ConditionTightened => "condition_tightened",
            Self::DependencyAdded => "dependency_added",
            Self::UnevaluatedClosed => "unevaluated_closed",
            Self::NothingAllowed => "nothing_allowed",
            Self::SchemaInvalid => "schema_invalid",
            Self::Unknown => "unknown",
        }
    }

    /// The rule for refusals by a keyword.
    pub(crate) fn of_keyword(keyword: &str) -> Self {
        match keyword {
            "required" => Self::RequiredAdded,
            "type" => Self::TypeNarrowed,
            "enum" => Self::EnumValueRemoved,
            "const" => Self::ConstChanged,
            "additionalProperties" => Self::AdditionalPropertiesClosed,
            "properties" | "patternProperties" => Self::PropertyRefused,
            "propertyNames" => Self::PropertyNamesNarrowed,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "minLength" | "maxLength"
            | "minItems" | "maxItems" | "minProperties" | "maxProperties" => Self::BoundTightened,
            "multipleOf" => Self::MultipleTightened,
            "pattern" => Self::PatternTightened,
            "uniqueItems" => Self::UniqueItemsAdded,
            "items" | "prefixItems" => Self::ItemsClosed,
            "contains" | "maxContains" => Self::ContainsTightened,
            "anyOf" | "oneOf" => Self::BranchRemoved,
            "not" => Self::NotWidened,
            "then" | "else" => Self::ConditionTightened,
            "dependentRequired" | "dependentSchemas" | "dependencies" => Self::DependencyAdded,
            "unevaluatedProperties" | "unevaluatedItems" => Self::UnevaluatedClosed,
            _ => Self::Unknown,
        }
    }
}

impl std::fmt::Display for SchemaRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
