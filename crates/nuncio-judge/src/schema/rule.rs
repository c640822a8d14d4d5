//! The rules by which schema findings are classified.

use nuncio_core::string_enum;

string_enum! {
    /// In which way the new schema refuses what the old one accepted. Each rule has a stable name.
    #[derive(PartialOrd, Ord)]
    pub enum NarrowingRule {
        /// A property became required.
        RequiredAdded = "required_added",
        TypeNarrowed = "type_narrowed",
        /// An enumerated value was removed, or an enumeration was added.
        EnumValueRemoved = "enum_value_removed",
        /// The constant changed, or was added.
        ConstChanged = "const_changed",
        /// Unlisted properties are no longer allowed, or their values are restricted.
        AdditionalPropertiesClosed = "additional_properties_closed",
        /// A listed property is no longer allowed.
        PropertyRefused = "property_refused",
        PropertyNamesNarrowed = "property_names_narrowed",
        /// A bound on a number, a length or a count is tighter.
        BoundTightened = "bound_tightened",
        MultipleTightened = "multiple_tightened",
        PatternTightened = "pattern_tightened",
        UniqueItemsAdded = "unique_items_added",
        /// Items that were allowed are refused.
        ItemsClosed = "items_closed",
        /// `contains`, or its minimum or maximum count, is stricter.
        ContainsTightened = "contains_tightened",
        /// An alternative was removed or narrowed.
        BranchRemoved = "branch_removed",
        /// More than one alternative of a `oneOf` now matches.
        BranchesOverlap = "branches_overlap",
        /// `not` excludes more.
        NotWidened = "not_widened",
        /// `if`/`then`/`else` requires more.
        ConditionTightened = "condition_tightened",
        /// The presence of a property requires more.
        DependencyAdded = "dependency_added",
        /// Parts that no other keyword evaluates are refused.
        UnevaluatedClosed = "unevaluated_closed",
        /// The new schema is `false` and accepts nothing.
        NothingAllowed = "nothing_allowed",
        /// One of the two schemas is invalid.
        SchemaInvalid = "schema_invalid",
        /// Neither proved nor refuted within the budget; counts as a refusal.
        Unknown = "unknown",
    }
}

impl NarrowingRule {
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
