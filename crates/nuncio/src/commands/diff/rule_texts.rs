//! Texts of the change judge's rules for people.

pub(super) fn of(rule: &str) -> Option<&'static str> {
    Some(match rule {
        // Breaking, independent of the schemas.
        "unreadable" => "cannot be parsed, so it counts as changed",
        "manifest_added" => "is the first manifest; people have not agreed to anything before",
        "schema_version_changed" => "uses another format",
        "scope_added" => "is a permission that people were not asked for",
        "scope_readded" => "is a permission that was removed and added again",
        "scope_undeclared" => "is a permission that the manifest does not declare",
        "sensitivity_raised" => "is more sensitive than when people agreed",
        "tool_moved" => "needs another permission than the one people gave",
        "type_changed" => "takes another type than before, even if it is a wider one",
        // Breaking: a call that was accepted is refused.
        "required_added" => "requires an argument that was optional",
        "type_narrowed" => "takes fewer types than before",
        "enum_value_removed" => "no longer accepts a listed value",
        "const_changed" => "requires another value",
        "additional_properties_closed" => "no longer accepts unlisted arguments",
        "property_refused" => "no longer accepts an argument",
        "property_names_narrowed" => "no longer accepts some argument names",
        "bound_tightened" => "has a stricter limit",
        "multiple_tightened" => "requires multiples of another number",
        "pattern_tightened" => "no longer accepts some texts",
        "unique_items_added" => "no longer accepts lists with repeated items",
        "items_closed" => "no longer accepts some list items",
        "contains_tightened" => "requires other items in a list",
        "branch_removed" => "no longer accepts values of a removed alternative",
        "branches_overlap" => "no longer accepts values that match two alternatives",
        "not_widened" => "excludes more than before",
        "condition_tightened" => "requires more under a condition",
        "dependency_added" => "requires an argument when another is given",
        "unevaluated_closed" => "no longer accepts values that the schema does not mention",
        "nothing_allowed" => "no longer accepts any value",
        "schema_invalid" => "is not a valid schema, so it counts as changed",
        "unknown" => "may no longer accept everything it accepted before",
        // Not breaking: something was added.
        "input_widened" => "accepts more than before",
        "tool_added" => "is new",
        "sensitivity_lowered" => "is declared less sensitive: people are asked less often",
        // Other changes.
        "input_rewritten" => "is written differently and accepts the same values",
        "format_changed" => "names another format, which is not enforced",
        "annotation_changed" => "has another description",
        "tool_readded" => "was added again",
        "tool_removed" | "scope_removed" => "was removed",
        "tool_required_changed" => "is now required, or no longer",
        "timeout_changed" => "has another time limit",
        "display_text_changed" => "has another display text",
        "flag_changed" => "declares other capabilities",
        "agent_version_changed" => "the agent has another version",
        "field_changed" => "is a field that this version does not know",
        "manifest_cleared" => "no longer requests anything",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use nuncio_judge::schema::NarrowingRule;
    use nuncio_judge::{BreakingChangeRule, NonBreakingChangeRule};

    #[test]
    fn every_rule_of_the_change_judge_has_a_text_that_fits_a_line() {
        let changes = BreakingChangeRule::ALL.iter().map(|rule| rule.as_str());
        let schemas = NarrowingRule::ALL.iter().map(|rule| rule.as_str());
        let notices = NonBreakingChangeRule::ALL.iter().map(|rule| rule.as_str());
        for rule in changes.chain(schemas).chain(notices) {
            let text = super::of(rule).unwrap_or_else(|| panic!("{rule} has no text"));
            assert!(text.len() <= 76, "{rule}");
        }
    }
}
