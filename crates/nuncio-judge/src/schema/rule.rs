//! The rules by which schema findings are classified.

use nuncio_core::string_enum;

string_enum! {
    /// Reason why the new schema refuses a value that the old one accepted. Each rule has a stable name.
    #[derive(PartialOrd, Ord)]
    pub enum NarrowingRule {
        /// A property became required.
        RequiredAdded = "required_added",
        TypeNarrowed = "type_narrowed",
        /// An enumerated value was removed, or an enumeration was added.
        EnumValueRemoved = "enum_value_removed",
        /// The value of `const` changed, or `const` was added.
        ConstChanged = "const_changed",
        /// Unlisted properties are no longer allowed, or their values are more restricted.
        AdditionalPropertiesClosed = "additional_properties_closed",
        /// A listed property is no longer allowed.
        PropertyRefused = "property_refused",
        PropertyNamesNarrowed = "property_names_narrowed",
        /// A bound on a number, a length or a count is tighter.
        BoundTightened = "bound_tightened",
        MultipleTightened = "multiple_tightened",
        PatternTightened = "pattern_tightened",
        UniqueItemsAdded = "unique_items_added",
        /// Array items that were allowed are refused.
        ItemsClosed = "items_closed",
        /// `contains`, or its minimum or maximum count, is stricter.
        ContainsTightened = "contains_tightened",
        /// An alternative of `anyOf` or `oneOf` was removed or narrowed.
        BranchRemoved = "branch_removed",
        /// More than one alternative of a `oneOf` now matches.
        BranchesOverlap = "branches_overlap",
        /// `not` excludes more values.
        NotWidened = "not_widened",
        /// `if`/`then`/`else` requires more than before.
        ConditionTightened = "condition_tightened",
        /// The presence of a property requires more than before.
        DependencyAdded = "dependency_added",
        /// Properties or items that no other keyword evaluates are refused.
        UnevaluatedClosed = "unevaluated_closed",
        /// The new schema is `false` and accepts nothing.
        NothingAllowed = "nothing_allowed",
        /// One of the two schemas is invalid.
        SchemaInvalid = "schema_invalid",
        /// Compatibility is neither proved nor refuted within the budget, which counts as a refusal.
        Unknown = "unknown",
    }
}

impl NarrowingRule {
    /// The rule for refusals by a schema keyword.
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
