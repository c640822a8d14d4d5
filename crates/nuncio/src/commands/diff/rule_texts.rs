//! Readable texts of the judge's rules.

pub(super) fn of(rule: &str) -> Option<&'static str> {
    Some(match rule {
        // Breaking, whatever the schemas say.
        "unreadable" => "cannot be understood, so nothing about it is taken for granted",
        "manifest_added" => "there was no manifest that anyone could have agreed to",
        "schema_version_changed" => "the manifest is of another format",
        "scope_added" => "a permission that nobody was asked for",
        "scope_readded" => "a permission that was given up is back",
        "scope_undeclared" => "a permission that the manifest does not declare",
        "sensitivity_raised" => "more is at stake than people were told",
        "tool_moved" => "needs another permission than the one people gave",
        "type_changed" => "takes another type than before, even if it is a wider one",
        // Breaking, since a call is refused that was not.
        "required_added" => "wants an argument that could be left out",
        "type_narrowed" => "takes fewer types than before",
        "enum_value_removed" => "refuses a value that was on the list",
        "const_changed" => "wants another value",
        "additional_properties_closed" => "refuses arguments that it does not name",
        "property_refused" => "refuses an argument that it took",
        "property_names_narrowed" => "refuses names that it took",
        "bound_tightened" => "has a tighter limit",
        "multiple_tightened" => "wants multiples of something else",
        "pattern_tightened" => "refuses texts that its pattern took",
        "unique_items_added" => "refuses lists with an item twice",
        "items_closed" => "refuses items that it took",
        "contains_tightened" => "wants other items in a list",
        "branch_removed" => "refuses what only an alternative took",
        "branches_overlap" => "refuses what two alternatives take",
        "not_widened" => "excludes more than before",
        "condition_tightened" => "wants more under a condition",
        "dependency_added" => "wants an argument because of another",
        "unevaluated_closed" => "refuses what no part of the schema looks at",
        "nothing_allowed" => "takes nothing any more",
        "schema_invalid" => "is no schema, so nothing about it is taken for granted",
        "unknown" => "could not be proved to take all that it took",
        // What may be more.
        "input_widened" => "takes what it did not take",
        "tool_added" => "was not there before",
        "sensitivity_lowered" => "less is said to be at stake: people are asked less often",
        // What else changed.
        "input_rewritten" => "is written otherwise and takes the same",
        "format_changed" => "says another format, which is not enforced",
        "annotation_changed" => "says something else",
        "tool_readded" => "is back",
        "tool_removed" | "scope_removed" => "is gone",
        "tool_required_changed" => "is necessary now, or no longer",
        "timeout_changed" => "may take longer, or not as long",
        "display_text_changed" => "people read other words",
        "flag_changed" => "the agent says it can do something else",
        "agent_version_changed" => "the agent has another version",
        "field_changed" => "a field that this version knows nothing of",
        "manifest_cleared" => "there is no manifest any more",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use nuncio_judge::schema::SchemaRule;
    use nuncio_judge::{ChangeRule, NoticeRule};

    #[test]
    fn every_rule_has_a_text_that_fits_a_line() {
        let changes = ChangeRule::ALL.iter().map(|rule| rule.as_str());
        let schemas = SchemaRule::ALL.iter().map(|rule| rule.as_str());
        let notices = NoticeRule::ALL.iter().map(|rule| rule.as_str());
        for rule in changes.chain(schemas).chain(notices) {
            let words = super::of(rule).unwrap_or_else(|| panic!("{rule} has no words"));
            assert!(words.len() <= 76, "{rule}");
        }
    }
}
