//! The kinds of findings.

/// In which way the new schema refuses what the old one took. Each has a stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SchemaRule {
    /// A property is required that was not.
    RequiredAdded,
    /// A type is no longer allowed.
    TypeNarrowed,
    /// A listed value is no longer allowed, or values are listed where they were not.
    EnumValueRemoved,
    /// Another constant, or one where there was none.
    ConstChanged,
    /// Properties that were not named are no longer allowed, or no longer with any value.
    AdditionalPropertiesClosed,
    /// A property that was named is no longer allowed.
    PropertyRefused,
    /// A property's name is no longer allowed.
    PropertyNamesNarrowed,
    /// A bound on a number, a length or a count is tighter.
    BoundTightened,
    /// A number must be a multiple of something else.
    MultipleTightened,
    /// A pattern matches less.
    PatternTightened,
    /// Items must differ from each other.
    UniqueItemsAdded,
    /// Items that were allowed no longer are.
    ItemsClosed,
    /// A list must hold other items, more or fewer of a kind.
    ContainsTightened,
    /// An alternative is gone or narrower.
    BranchRemoved,
    /// More than one alternative of a `oneOf` fits now.
    BranchesOverlap,
    /// What is excluded has grown.
    NotWidened,
    /// A condition asks for more.
    ConditionTightened,
    /// The presence of a property entails more.
    DependencyAdded,
    /// What no other keyword speaks of is no longer allowed.
    UnevaluatedClosed,
    /// Nothing at all is allowed.
    NothingAllowed,
    /// One of the two is no schema that can be read.
    SchemaInvalid,
    /// Neither proved nor refuted within the budget; to be taken as a refusal.
    Unknown,
}

impl SchemaRule {
    /// Every rule.
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

    /// The stable name.
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

    /// The rule that a keyword's refusal falls under.
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
