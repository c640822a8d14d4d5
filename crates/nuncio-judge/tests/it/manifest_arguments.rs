//! Arguments are compared one by one, and the verdict equals that for the whole schemas.

use nuncio_judge::schema::{ComparisonBudget, compare};
use nuncio_judge::{ChangeJudgingPolicy, ManifestChangeVerdict, manifests};
use serde_json::{Value, json};

use crate::manifest_judge::{rules, witnesses_hold};

fn manifest(schemas: &[Value]) -> Value {
    let tools: Vec<Value> = schemas
        .iter()
        .enumerate()
        .map(|(index, schema)| {
            json!({"name": format!("tool_{index}"), "description_i18n_key": "a.t", "input_schema": schema,
                "permission_scope": "x:y"})
        })
        .collect();
    let scope = json!({"id": "x:y", "label_i18n_key": "a.l", "description_i18n_key": "a.d", "sensitivity": "low"});
    json!({"schema_version": "1.0", "agent_version": "1.0.0", "tools": tools, "permission_scopes": [scope]})
}

fn judge(old: &[Value], new: &[Value]) -> ManifestChangeVerdict {
    let (old, new) = (manifest(old), manifest(new));
    let verdict = manifests(Some(&old), Some(&new), &[], &ChangeJudgingPolicy::default());
    witnesses_hold(&old, &new, &[], &verdict);
    verdict
}

/// Schema of a closed object with these properties, some of them required.
fn closed(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn open(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

#[test]
fn judging_argument_by_argument_equals_comparing_whole_schemas() {
    let text = json!({"type": "string"});
    // These two schemas have no obvious valid value, or none at all.
    let coded = json!({"type": "string", "pattern": "^[A-Z]{3}[0-9]+$"});
    let impossible = json!({"type": "string", "minLength": 3, "maxLength": 2});
    let schemas = [
        closed(&json!({}), &[]),
        closed(&json!({"a": text}), &[]),
        closed(&json!({"a": text}), &["a"]),
        closed(&json!({"a": coded}), &["a"]),
        closed(&json!({"a": coded, "b": coded}), &["a", "b"]),
        closed(&json!({"a": coded, "b": text}), &["a"]),
        closed(&json!({"a": coded, "b": {"type": "integer"}}), &["a", "b"]),
        closed(&json!({"a": impossible, "b": text}), &["a"]),
        closed(&json!({"a": false, "b": coded}), &["b"]),
        closed(&json!({"b": text}), &["a"]),
        open(&json!({}), &[]),
        open(&json!({}), &["z"]),
        open(&json!({"a": text}), &["z"]),
        open(&json!({"a": coded}), &["a", "z"]),
        open(&json!({"a": true, "b": {"enum": [1, 2]}}), &[]),
        open(&json!({"a": false}), &[]),
        open(&json!({"a": impossible}), &["a"]),
        json!({"type": "object", "additionalProperties": true, "title": "all"}),
        json!({"type": "object", "properties": {"a": text}, "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "properties": {"a": text}, "minProperties": 1}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}},
            "required": ["b"], "$defs": {"t": {"type": "string", "pattern": "^x"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}},
            "required": ["b"], "$defs": {"t": {"type": "string", "pattern": "^xy"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": coded}}),
        json!({"type": "object", "properties": {"a": text}, "$schema": "https://json-schema.org/draft/2020-12/schema"}),
    ];
    for old in &schemas {
        for new in &schemas {
            // The manifest table's rule on changed types does not apply to plain schemas.
            let found = judge(std::slice::from_ref(old), std::slice::from_ref(new));
            let proved = found.findings.iter().any(|finding| finding.rule.as_str() != "type_changed");
            let wanted = compare(old, new, ComparisonBudget::default());
            let named = found.findings.iter().any(|finding| finding.witness.is_some());
            assert_eq!(proved || named, wanted.outcome.breaking(), "{old} {new}: {found:?}");
            let back = compare(new, old, ComparisonBudget::default()).outcome.breaking();
            assert_eq!(found.notices.iter().any(|notice| notice.rule.as_str() == "input_widened"), back, "{old} {new}");
        }
    }
}

#[test]
fn findings_of_single_arguments_have_pointers_into_the_complete_input_schema() {
    let old = closed(&json!({"a": {"type": "string"}, "b": {"enum": [1, 2]}, "c": {"type": "string"}}), &["c"]);
    let new = closed(&json!({"b": {"enum": [1]}, "c": {"type": "string"}, "d": {}}), &["c", "b", "d"]);
    let verdict = judge(&[old], &[new]);
    let told: Vec<Value> = verdict
        .findings
        .iter()
        .map(|found| {
            json!([
                found.rule,
                found.pointer.strip_prefix("/tools/0/input_schema"),
                found.old,
                found.new,
                found.witness
            ])
        })
        .collect();
    let (before, after) = (json!(["c"]), json!(["c", "b", "d"]));
    let wanted = [
        json!(["property_refused", "/properties/a", {"type": "string"}, null, {"a": "", "c": ""}]),
        json!(["enum_value_removed", "/properties/b/enum/1", 2, null, {"b": 2, "c": ""}]),
        json!(["required_added", "/required/1", before, after, {"c": ""}]),
        json!(["required_added", "/required/2", before, after, {"c": ""}]),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn same_argument_change_in_several_tools_is_reported_for_each_tool() {
    let take = |limit: u64, also: &str| {
        closed(&json!({"n": {"type": "integer", "maximum": limit}, also: {"type": "boolean"}}), &[also])
    };
    let old = [take(9, "p"), take(9, "q"), take(9, "p"), take(7, "p")];
    let new = [take(5, "p"), take(5, "q"), take(9, "p"), take(5, "p")];
    let told: Vec<(String, Option<Value>, Option<Value>)> =
        judge(&old, &new).findings.into_iter().map(|finding| (finding.pointer, finding.old, finding.witness)).collect();
    let place = |index: usize| format!("/tools/{index}/input_schema/properties/n/maximum");
    let wanted = [
        (place(0), Some(json!(9)), Some(json!({"n": 6, "p": false}))),
        (place(1), Some(json!(9)), Some(json!({"n": 6, "q": false}))),
        (place(3), Some(json!(7)), Some(json!({"n": 6, "p": false}))),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn invalid_unused_definition_makes_the_schema_invalid() {
    let with = |definitions: Value, argument: Value| json!({"type": "object", "properties": {"a": argument}, "additionalProperties": false, "$defs": definitions});
    let plain = with(json!({"d": {}}), json!({"type": "string"}));
    let broken = with(json!({"d": 5}), json!({"type": "string", "maxLength": 5}));
    assert!(rules(&judge(&[plain], &[broken])).contains("schema_invalid"));
}

#[test]
fn comparing_many_arguments_with_shared_definitions_ends_and_is_breaking() {
    let make = |last: usize| {
        let definitions: Value = (0..300)
            .map(|index| (format!("d{index}"), json!({"$ref": format!("#/$defs/d{}", index + 1)})))
            .chain([("d300".to_owned(), json!({"type": "integer", "minimum": last}))])
            .collect::<serde_json::Map<_, _>>()
            .into();
        let properties: Value = (0..300)
            .map(|index| (format!("p{index}"), json!({"$ref": format!("#/$defs/d{index}")})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        json!({"type": "object", "properties": properties, "additionalProperties": false, "$defs": definitions})
    };
    assert!(judge(&[make(0)], &[make(1)]).breaking);
}
