//! Reasons why a part of a manifest is unreadable. The judge gives its JSON pointer; the validators give the reason.

use nuncio_core::manifest::{Manifest, ManifestFault, ManifestRule, ScopePresets};
use nuncio_judge::{BreakingChangeFinding, BreakingChangeRule};
use serde_json::Value;

/// Fields of tools and scopes that the change judge reads; faults in other fields do not stop it.
const JUDGED_FIELDS: [&str; 5] = ["name", "permission_scope", "input_schema", "id", "sensitivity"];

/// Faults that make a part of a manifest unreadable for the change judge.
const UNREADABLE_RULES: [ManifestRule; 6] = [
    ManifestRule::WrongType,
    ManifestRule::Missing,
    ManifestRule::ToolDuplicate,
    ManifestRule::ScopeDuplicate,
    ManifestRule::Sensitivity,
    ManifestRule::SchemaNotObject,
];

/// The reason of an `unreadable` finding; `None` for other findings.
pub(super) fn of(finding: &BreakingChangeFinding, old: &Value, new: &Value, history: &[Value]) -> Option<String> {
    if finding.rule != BreakingChangeRule::Unreadable {
        return None;
    }
    if let Some(found) = &finding.new {
        return fault_reasons(new, &fault_pointer(new, &finding.pointer, found)?);
    }
    let found = finding.old.as_ref()?;
    let mut earlier = [old].into_iter().chain(history.iter().rev());
    earlier.find_map(|manifest| fault_reasons(manifest, &fault_pointer(manifest, &finding.pointer, found)?))
}

/// The JSON pointer of a faulty value. In earlier manifests the value is searched for, because the finding has no pointer.
fn fault_pointer(manifest: &Value, pointer: &str, found: &Value) -> Option<String> {
    if !pointer.is_empty() || manifest == found {
        return Some(pointer.to_owned());
    }
    let lists = ["/tools", "/permission_scopes"].into_iter();
    lists.filter_map(|list| Some((list, manifest.pointer(list)?))).find_map(|(list, value)| match value.as_array() {
        _ if value == found => Some(list.to_owned()),
        // Of two equal items the second is the duplicate.
        items => items?.iter().rposition(|item| item == found).map(|index| format!("{list}/{index}")),
    })
}

fn fault_reasons(manifest: &Value, pointer: &str) -> Option<String> {
    let faults = Manifest::check(manifest.clone(), &ScopePresets::default()).err()?;
    let stops = |fault: &&ManifestFault| {
        let field = fault.pointer.strip_prefix(pointer).map(|field| field.trim_start_matches('/'));
        // The judge compares every schema, also one that describes no object.
        let is_schema =
            || manifest.pointer(&fault.pointer).is_some_and(|schema| schema.is_object() || schema.is_boolean());
        UNREADABLE_RULES.contains(&fault.rule)
            && field.is_some_and(|field| field.is_empty() || JUDGED_FIELDS.contains(&field))
            && (fault.rule != ManifestRule::SchemaNotObject || !is_schema())
    };
    let reasons: Vec<_> = faults.faults().iter().filter(stops).map(ToString::to_string).collect();
    if reasons.is_empty() { None } else { Some(reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use nuncio_judge::{ChangeJudgingPolicy, manifests};
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "tools": [{"name": "do_it", "permission_scope": "a:b", "input_schema": {"type": "object"}}],
            "permission_scopes": [{"id": "a:b", "sensitivity": "low"}],
        })
    }

    fn reasons_of(old: &Value, new: &Value, history: &[Value]) -> Vec<Option<String>> {
        let verdict = manifests(Some(old), Some(new), history, &ChangeJudgingPolicy::default());
        verdict.findings.iter().map(|finding| of(finding, old, new, history)).collect()
    }

    #[test]
    fn unreadable_part_of_a_manifest_is_reported_with_its_pointer_and_reason() {
        let tool = good()["tools"][0].clone();
        let scope = good()["permission_scopes"][0].clone();
        for (place, value, reason) in [
            ("", json!([]), "the manifest must be an object"),
            ("/tools", json!({}), "/tools: must be a list"),
            ("/tools/0", json!(7), "/tools/0: "),
            ("/tools/0/name", json!(7), "/tools/0/name: must be a text"),
            ("/tools/0/permission_scope", Value::Null, "/tools/0/permission_scope: must be a text"),
            ("/tools/0/input_schema", json!("x"), "/tools/0/input_schema: "),
            ("/permission_scopes/0/sensitivity", json!("extreme"), "must be \"low\", \"medium\" or \"high\""),
            ("/tools", json!([{"name": "do_it", "input_schema": {}}]), "/tools/0/permission_scope: must be present"),
            ("/tools", json!([tool, tool]), "/tools/1/name: is already the name of a tool above"),
            ("/permission_scopes", json!([scope, scope]), "/permission_scopes/1/id: is already declared above"),
        ] {
            let mut bad = good();
            *bad.pointer_mut(place).unwrap() = value;
            for why in reasons_of(&good(), &bad, &[]).into_iter().chain(reasons_of(&bad, &good(), &[])) {
                let why = why.unwrap_or_else(|| panic!("{place}: no reason"));
                assert!(why.contains(reason) && !why.contains("; /"), "{place}: {why}");
            }
        }
    }

    #[test]
    fn finding_about_an_unreadable_earlier_manifest_has_a_reason() {
        let (mut more, mut past) = (good(), good());
        more["tools"][0]["input_schema"]["required"] = json!(["a"]);
        more["permission_scopes"].as_array_mut().unwrap().push(json!({"id": "c:d", "sensitivity": "low"}));
        past["tools"][0].as_object_mut().unwrap().shift_remove("name");
        let reasons = reasons_of(&good(), &more, &[past]);
        assert!(reasons.contains(&None), "{reasons:?}");
        let reason = Some("/tools/0/name: must be present".to_owned());
        assert!(reasons.contains(&reason), "{reasons:?}");
    }
}
