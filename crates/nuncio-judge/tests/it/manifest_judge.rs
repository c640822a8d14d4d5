//! The manifest judge against the cases of a file and each row of the specification's table.

use std::collections::BTreeSet;

use nuncio_judge::schema::{ComparisonBudget, NarrowingRule};
use nuncio_judge::{BreakingChangeRule, ChangeJudgingPolicy, ManifestChangeVerdict, NonBreakingChangeRule, manifests};
use serde_json::{Map, Value, json};

use crate::validators::is_valid;

const CASES: &str = include_str!("../vectors/a2h/manifest_diff.json");

#[test]
fn manifest_pairs_of_the_case_file_give_expected_verdicts() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert_eq!(cases.len(), 58);
    for case in &cases {
        let history = case["history"].as_array().cloned().unwrap_or_default();
        let verdict = manifests(Some(&case["old"]), Some(&case["new"]), &history, &ChangeJudgingPolicy::default());
        let told = json!([verdict.breaking, verdict.scopes_requiring_reauth]);
        let wanted = json!([case["breaking"], case["scopes_requiring_reauth"]]);
        assert_eq!(told, wanted, "{}: {}", case["id"], serde_json::to_string_pretty(&verdict).unwrap());
        assert_eq!(verdict.breaking, !verdict.findings.is_empty(), "{}", case["id"]);
        if let Some(notice) = case["notice"].as_str() {
            assert!(notices(&verdict).contains(notice), "{}: {:?}", case["id"], notices(&verdict));
        }
        if case["same_hash"] == true {
            assert_eq!(verdict, ManifestChangeVerdict::default(), "{}", case["id"]);
        }
        witnesses_hold(&case["old"], &case["new"], &history, &verdict);
    }
}

/// Checks with two validators that every witness of a finding was valid before and is invalid now.
pub(crate) fn witnesses_hold(old: &Value, new: &Value, history: &[Value], verdict: &ManifestChangeVerdict) -> usize {
    let schema = |manifest: &Value, name: &str| -> Option<Value> {
        let tool = manifest["tools"].as_array()?.iter().find(|tool| tool["name"] == name)?;
        Some(tool["input_schema"].clone())
    };
    let check = |tool: &Option<String>, witness: &Value, narrower: bool| {
        let name = tool.as_deref().unwrap();
        let before = schema(old, name).or_else(|| history.iter().rev().find_map(|past| schema(past, name))).unwrap();
        let after = schema(new, name).unwrap();
        assert!(witness.is_object(), "arguments are an object: {witness}");
        assert_eq!(is_valid(&before, witness), narrower, "{witness} under {before}");
        assert_eq!(is_valid(&after, witness), !narrower, "{witness} under {after}");
    };
    let mut count = 0;
    for finding in &verdict.findings {
        if let Some(witness) = &finding.witness {
            check(&finding.tool, witness, finding.rule.as_str() != "input_widened");
            count += 1;
        }
    }
    for notice in &verdict.notices {
        if let Some(witness) = &notice.witness {
            check(&notice.tool, witness, false);
        }
    }
    count
}

pub(crate) fn rules(verdict: &ManifestChangeVerdict) -> BTreeSet<&'static str> {
    verdict.findings.iter().map(|finding| finding.rule.as_str()).collect()
}

pub(crate) fn notices(verdict: &ManifestChangeVerdict) -> BTreeSet<&'static str> {
    verdict.notices.iter().map(|notice| notice.rule.as_str()).collect()
}

fn scope(id: &str, sensitivity: &str) -> Value {
    json!({"id": id, "label_i18n_key": "a.l", "description_i18n_key": "a.d", "sensitivity": sensitivity})
}

fn tool(name: &str, scope: &str, schema: &Value) -> Value {
    json!({"name": name, "description_i18n_key": "a.t", "input_schema": schema, "permission_scope": scope})
}

fn manifest(tools: &[Value], scopes: &[Value]) -> Value {
    json!({"schema_version": "1.0", "agent_version": "1.0.0", "tools": tools, "permission_scopes": scopes})
}

/// A manifest with one tool whose only argument `a` has the given schema.
fn taking(schema: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"a": schema}, "additionalProperties": false});
    manifest(&[tool("do_it", "x:y", &schema)], &[scope("x:y", "medium")])
}

/// A manifest with one tool that has the given input schema.
fn with_schema(schema: &Value) -> Value {
    manifest(&[tool("do_it", "x:y", schema)], &[scope("x:y", "medium")])
}

fn judge(old: &Value, new: &Value) -> ManifestChangeVerdict {
    let verdict = manifests(Some(old), Some(new), &[], &ChangeJudgingPolicy::default());
    witnesses_hold(old, new, &[], &verdict);
    verdict
}

fn scopes(verdict: &ManifestChangeVerdict) -> Vec<&str> {
    verdict.scopes_requiring_reauth.iter().map(String::as_str).collect()
}

#[test]
fn each_specification_row_gives_expected_verdict_for_change_and_reversal() {
    let open = |closed: bool, required: &[&str]| {
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "required": required, "additionalProperties": !closed})
    };
    let one = |sensitivity: &str| manifest(&[tool("do_it", "x:y", &open(true, &[]))], &[scope("x:y", sensitivity)]);
    let two = |also: &str| {
        let tools = [tool("do_it", "x:y", &open(true, &[])), tool("more", also, &open(true, &[]))];
        manifest(&tools, &[scope("x:y", "low"), scope("x:z", "low")])
    };
    // The columns: the change, whether it is breaking, and whether its reversal is.
    let rows = [
        ("required added", with_schema(&open(true, &["a"])), with_schema(&open(true, &["a", "b"])), true, false),
        ("type changed", taking(&json!({"type": "string"})), taking(&json!({"type": "integer"})), true, true),
        ("type widened", taking(&json!({"type": "integer"})), taking(&json!({"type": "number"})), true, true),
        ("type dropped", taking(&json!({"type": "string"})), taking(&json!({})), true, true),
        ("object closed", with_schema(&open(false, &[])), with_schema(&open(true, &[])), true, false),
        ("enum value removed", taking(&json!({"enum": ["x", "y"]})), taking(&json!({"enum": ["x"]})), true, false),
        ("sensitivity raised", one("medium"), one("high"), true, false),
        ("sensitivity raised twice", one("low"), one("high"), true, false),
        (
            "scope added",
            one("low"),
            manifest(&[tool("do_it", "x:y", &open(true, &[]))], &[scope("x:y", "low"), scope("x:z", "low")]),
            true,
            false,
        ),
        ("scope and tool removed", two("x:z"), one("low"), false, true),
        (
            "tool removed",
            two("x:y"),
            manifest(&[tool("do_it", "x:y", &open(true, &[]))], &[scope("x:y", "low"), scope("x:z", "low")]),
            false,
            false,
        ),
    ];
    for (row, old, new, breaks, back) in &rows {
        let forth = judge(old, new);
        assert_eq!(forth.breaking, *breaks, "{row}: {forth:?}");
        let reverse = judge(new, old);
        assert_eq!(reverse.breaking, *back, "{row} taken back: {reverse:?}");
    }
}

#[test]
fn every_judge_rule_and_the_step_budget_are_documented() {
    let page = include_str!("../../../../docs/change-judge.md");
    let rules = BreakingChangeRule::ALL.iter().map(|rule| rule.as_str());
    let rules = rules.chain(NonBreakingChangeRule::ALL.iter().map(|rule| rule.as_str()));
    for rule in rules.chain(NarrowingRule::ALL.iter().map(|rule| rule.as_str())) {
        assert!(page.contains(&format!("`{rule}`")), "docs/change-judge.md does not describe {rule}");
    }
    let thousands = ComparisonBudget::default().steps() / 1000;
    assert!(page.contains(&format!(" {thousands},000 steps")), "docs/change-judge.md states another budget");
}

#[test]
fn removed_enum_value_finding_has_pointer_values_scope_tool_and_witness() {
    let verdict = judge(&taking(&json!({"enum": ["x", "y"]})), &taking(&json!({"enum": ["x"]})));
    let [finding] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
    // A removed value is reported at its old location.
    assert_eq!(finding.pointer, "/tools/0/input_schema/properties/a/enum/1");
    assert_eq!((&finding.old, &finding.new), (&Some(json!("y")), &None));
    assert_eq!(finding.witness, Some(json!({"a": "y"})));
    assert_eq!((finding.scope.as_deref(), finding.tool.as_deref()), (Some("x:y"), Some("do_it")));
    let told = serde_json::to_value(&verdict).unwrap();
    let keys: Vec<&String> = told.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["breaking", "scopes_requiring_reauth", "findings", "notices"]);
    assert_eq!(told["findings"][0]["scope"], "x:y");
}

#[test]
fn changed_type_is_breaking_at_any_depth_unless_only_the_notation_changed() {
    let array = |inner: &Value| taking(&json!({"type": "array", "items": {"prefixItems": [true, inner]}}));
    let (number, integer) = (json!({"type": "number"}), json!({"type": "integer"}));
    // The new type accepts more values, but is a different type.
    for wrap in [
        |inner: &Value| taking(inner),
        |inner: &Value| taking(&json!({"type": "object", "properties": {"b": {"properties": {"c": inner}}}})),
        |inner: &Value| taking(&json!({"additionalProperties": inner})),
        |inner: &Value| taking(&json!({"patternProperties": {"^x": inner}})),
        |inner: &Value| taking(&json!({"anyOf": [{"type": "string"}, inner]})),
        |inner: &Value| taking(&json!({"allOf": [{"title": "x"}, inner]})),
        |inner: &Value| taking(&json!({"if": true, "then": inner})),
        |inner: &Value| taking(&json!({"items": inner})),
        |inner: &Value| taking(&json!({"dependentSchemas": {"q": {"properties": {"a": inner}}}})),
    ] {
        let verdict = judge(&wrap(&integer), &wrap(&number));
        assert!(rules(&verdict).contains("type_changed"), "{} {verdict:?}", wrap(&integer));
        assert_eq!(scopes(&verdict), ["x:y"]);
        assert!(!judge(&wrap(&integer), &wrap(&integer)).breaking);
    }
    assert!(judge(&array(&integer), &array(&number)).breaking);
    let defined = |inner: &Value, reference: &str| {
        with_schema(&json!({"type": "object", "properties": {"a": {"$ref": reference}}, "additionalProperties": false,
            "$defs": {"a": {"$anchor": "here", "allOf": [{"$ref": "#/$defs/b"}]}, "b": inner}}))
    };
    for reference in ["#/$defs/a", "#here", "#/$defs/b"] {
        let verdict = judge(&defined(&integer, reference), &defined(&number, reference));
        assert!(rules(&verdict).contains("type_changed"), "{reference}: {verdict:?}");
        assert_eq!(verdict.findings[0].pointer, "/tools/0/input_schema/$defs/b/type");
    }
    // The same types in another notation are no change.
    let same = [
        (taking(&json!({"type": "string"})), taking(&json!({"type": ["string"]}))),
        (taking(&json!({"type": ["null", "string"]})), taking(&json!({"type": ["string", "null"]}))),
        (taking(&integer), defined(&integer, "#here")),
        (taking(&integer), taking(&json!({"allOf": [integer, number]}))),
        (
            taking(&json!({"anyOf": [integer, {"type": "string"}]})),
            taking(&json!({"anyOf": [{"type": "string"}, integer]})),
        ),
        // A `type` inside `default` is data.
        (taking(&json!({"default": {"type": "x"}})), taking(&json!({"default": {"type": "y"}}))),
        (taking(&json!({"properties": {"type": true}})), taking(&json!({"properties": {"type": {}}}))),
    ];
    for (old, new) in &same {
        assert!(!judge(old, new).breaking, "{old} {new}");
        assert!(!judge(new, old).breaking, "{new} {old}");
    }
    // An added branch and an unused definition have no type that could change.
    assert!(
        !judge(&taking(&json!({"anyOf": [integer]})), &taking(&json!({"anyOf": [{"type": "string"}, integer]})))
            .breaking
    );
    let unused = |inner: &Value| with_schema(&json!({"type": "object", "$defs": {"u": inner}}));
    assert!(!judge(&unused(&integer), &unused(&number)).breaking);
}

#[test]
fn type_object_added_to_or_removed_from_an_untyped_schema_is_no_change() {
    let properties = json!({"p": {"type": "string"}});
    for (untyped, typed) in [
        (json!({"properties": properties}), json!({"type": "object", "properties": properties})),
        (json!({}), json!({"type": "object"})),
    ] {
        let (untyped, typed) = (with_schema(&untyped), with_schema(&typed));
        for (old, new) in [(&untyped, &typed), (&typed, &untyped)] {
            assert_eq!(judge(old, new), ManifestChangeVerdict::default(), "{old} {new}");
        }
    }
    for harmless in [json!({"maxLength": 3}), json!({"minimum": 3}), json!({"items": {"type": "string"}})] {
        assert!(!judge(&with_schema(&json!({})), &with_schema(&harmless)).breaking, "{harmless}");
    }
    let narrowed = json!({"type": "object", "properties": {"p": {"type": "number"}}});
    assert!(judge(&with_schema(&json!({"properties": properties})), &with_schema(&narrowed)).breaking);
}

#[test]
fn changed_type_finding_has_a_witness_unless_the_type_was_widened() {
    let verdict = judge(&taking(&json!({"type": "string"})), &taking(&json!({"type": "integer"})));
    assert_eq!(rules(&verdict), BTreeSet::from(["type_changed"]), "{verdict:?}");
    let finding = &verdict.findings[0];
    assert_eq!(finding.pointer, "/tools/0/input_schema/properties/a/type");
    assert!(finding.witness.is_some(), "{finding:?}");
    // The new type accepts every value that was accepted before.
    let verdict = judge(&taking(&json!({"type": "string"})), &taking(&json!({"type": ["string", "null"]})));
    assert_eq!((verdict.findings.len(), &verdict.findings[0].witness), (1, &None));
    assert!(notices(&verdict).contains("input_widened"));
}

#[test]
fn tool_moved_to_another_scope_needs_consent_to_that_scope() {
    let any = json!({"type": "object"});
    let with =
        |scope_of: &str| manifest(&[tool("do_it", scope_of, &any)], &[scope("a:a", "low"), scope("b:b", "high")]);
    for (from, to) in [("a:a", "b:b"), ("b:b", "a:a")] {
        let verdict = judge(&with(from), &with(to));
        assert_eq!((rules(&verdict), scopes(&verdict)), (BTreeSet::from(["tool_moved"]), vec![to]));
        assert_eq!(verdict.findings[0].pointer, "/tools/0/permission_scope");
    }
    // The tool moves into a new scope, and into an undeclared one.
    let moved =
        manifest(&[tool("do_it", "c:c", &any)], &[scope("a:a", "low"), scope("b:b", "high"), scope("c:c", "low")]);
    assert_eq!(rules(&judge(&with("a:a"), &moved)), BTreeSet::from(["scope_added", "tool_moved"]));
    assert_eq!(rules(&judge(&with("a:a"), &with("d:d"))), BTreeSet::from(["scope_undeclared", "tool_moved"]));
}

#[test]
fn removed_and_readded_tool_is_compared_with_its_last_form() {
    let policy = ChangeJudgingPolicy::default();
    let of = |types: &[&str], scopes: &[&str]| {
        let tools: Vec<_> = types
            .iter()
            .map(|kind| tool("do_it", "a:a", &json!({"type": "object", "properties": {"a": {"type": kind}}})))
            .collect();
        manifest(&tools, &scopes.iter().map(|id| scope(id, "low")).collect::<Vec<_>>())
    };
    let (first, without, second) = (of(&["string"], &["a:a"]), of(&[], &["a:a"]), of(&["integer"], &["a:a"]));
    let verdict = manifests(Some(&without), Some(&second), std::slice::from_ref(&first), &policy);
    assert_eq!((rules(&verdict), scopes(&verdict)), (BTreeSet::from(["type_changed"]), vec!["a:a"]));
    assert!(witnesses_hold(&without, &second, std::slice::from_ref(&first), &verdict) > 0);
    // The tool is added again in its last form, and in the form before.
    let history = [second.clone(), first.clone(), without.clone(), Value::Null];
    assert!(!manifests(Some(&without), Some(&first), &history, &policy).breaking);
    assert!(manifests(Some(&without), Some(&second), &history, &policy).breaking);
    assert_eq!(notices(&manifests(Some(&without), Some(&first), &history, &policy)), BTreeSet::from(["tool_readded"]));
    // Without history, the tool counts as new.
    assert_eq!(notices(&manifests(Some(&without), Some(&second), &[], &policy)), BTreeSet::from(["tool_added"]));
    // A scope that is declared again is always reported, in any form.
    let verdict = manifests(Some(&of(&[], &[])), Some(&of(&[], &["a:a"])), std::slice::from_ref(&first), &policy);
    assert_eq!((rules(&verdict), scopes(&verdict)), (BTreeSet::from(["scope_readded"]), vec!["a:a"]));
    // After the whole manifest was cleared in between, its scopes need consent again.
    let verdict = manifests(None, Some(&second), &[first], &policy);
    assert_eq!((rules(&verdict), scopes(&verdict)), (BTreeSet::from(["manifest_added"]), vec!["a:a"]));
}

#[test]
fn first_manifest_needs_consent_and_clearing_a_manifest_does_not() {
    let policy = ChangeJudgingPolicy::default();
    let some = manifest(&[], &[scope("a:a", "low"), scope("b:b", "low")]);
    for nothing in [None, Some(&Value::Null)] {
        let verdict = manifests(nothing, Some(&some), &[], &policy);
        assert_eq!((verdict.breaking, scopes(&verdict)), (true, vec!["a:a", "b:b"]));
        let verdict = manifests(Some(&some), nothing, &[], &policy);
        assert_eq!(
            (verdict.breaking, notices(&verdict)),
            (false, BTreeSet::from(["manifest_cleared", "scope_removed"]))
        );
        assert_eq!(manifests(nothing, None, &[], &policy), ManifestChangeVerdict::default());
    }
    let empty = manifests(None, Some(&manifest(&[], &[])), &[], &policy);
    assert_eq!((empty.breaking, empty.findings.len(), scopes(&empty)), (true, 1, vec![]));
}

#[test]
fn changes_that_need_no_consent_give_a_notice() {
    let mut base = taking(&json!({"type": "string"}));
    base["capability_flags"] = json!({"supports_voice": false});
    base["tools"][0]["timeout_ms"] = json!(5000);
    let changed = |place: &str, value: Value| {
        let mut new = base.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        new.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(name.to_owned(), value);
        new
    };
    let argument = "/tools/0/input_schema/properties/a";
    let cases = [
        ("/agent_version", json!("1.1.0"), "agent_version_changed"),
        ("/capability_flags/supports_voice", json!(true), "flag_changed"),
        ("/change_note", json!("more"), "field_changed"),
        ("/tools/0/timeout_ms", json!(9000), "timeout_changed"),
        ("/tools/0/required", json!(true), "tool_required_changed"),
        ("/tools/0/description_i18n_key", json!("b"), "display_text_changed"),
        ("/tools/0/description_fallback", json!("b"), "display_text_changed"),
        ("/tools/0/x-note", json!("b"), "field_changed"),
        ("/permission_scopes/0/label_fallback", json!("b"), "display_text_changed"),
        ("/permission_scopes/0/x-note", json!("b"), "field_changed"),
        (&format!("{argument}/format"), json!("uri"), "format_changed"),
        (&format!("{argument}/default"), json!("b"), "annotation_changed"),
        (&format!("{argument}/description"), json!("b"), "annotation_changed"),
        (&format!("{argument}/type"), json!(["string"]), "input_rewritten"),
    ];
    for (place, value, rule) in &cases {
        let verdict = judge(&base, &changed(place, value.clone()));
        assert!(!verdict.breaking, "{place}: {verdict:?}");
        let [notice] = verdict.notices.as_slice() else { panic!("{place}: {verdict:?}") };
        assert_eq!(notice.rule.as_str(), *rule);
        if *rule != "input_rewritten" {
            assert_eq!((notice.pointer.as_str(), &notice.new), (*place, &Some(value.clone())));
        }
        assert_eq!(
            notices(&judge(&changed(place, value.clone()), &base)),
            BTreeSet::from([*rule]),
            "{place} taken back"
        );
    }
    // Writing out a default value is no change.
    let mut plain = base.clone();
    plain["tools"][0].as_object_mut().unwrap().shift_remove("timeout_ms");
    let mut written = plain.clone();
    written["tools"][0]["timeout_ms"] = json!(10_000);
    written["tools"][0]["required"] = json!(false);
    assert_eq!(judge(&plain, &written), ManifestChangeVerdict::default());
    // The order of tools and scopes does not matter.
    let any = json!({"type": "object"});
    let (one, two) = (tool("do_a", "a:a", &any), tool("do_b", "b:b", &any));
    let (a, b) = (scope("a:a", "low"), scope("b:b", "low"));
    let forth = manifest(&[one.clone(), two.clone()], &[a.clone(), b.clone()]);
    assert_eq!(judge(&forth, &manifest(&[two, one], &[b, a])), ManifestChangeVerdict::default());
}

#[test]
fn widening_is_a_notice_by_default_and_needs_consent_under_strict_policy() {
    let strict = ChangeJudgingPolicy { reauth_on_widening: true, ..ChangeJudgingPolicy::default() };
    let any = json!({"type": "object"});
    let more = |names: &[&str], sensitivity: &str| {
        let tools: Vec<_> = names.iter().map(|name| tool(name, "x:y", &any)).collect();
        manifest(&tools, &[scope("x:y", sensitivity)])
    };
    let cases = [
        ("input_widened", taking(&json!({"enum": ["GET"]})), taking(&json!({"enum": ["GET", "DELETE"]}))),
        ("tool_added", more(&["aa"], "low"), more(&["aa", "bb"], "low")),
        ("sensitivity_lowered", more(&["aa"], "high"), more(&["aa"], "low")),
    ];
    for (rule, old, new) in &cases {
        let verdict = judge(old, new);
        assert_eq!((verdict.breaking, notices(&verdict)), (false, BTreeSet::from([*rule])), "{verdict:?}");
        let verdict = manifests(Some(old), Some(new), &[], &strict);
        assert_eq!((rules(&verdict), scopes(&verdict)), (BTreeSet::from([*rule]), vec!["x:y"]), "{verdict:?}");
        assert_eq!(verdict.notices, []);
        witnesses_hold(old, new, &[], &verdict);
        // The reverse change is no widening.
        assert!(!rules(&manifests(Some(new), Some(old), &[], &strict)).contains(rule));
    }
    let verdict = manifests(Some(&cases[0].1), Some(&cases[0].2), &[], &strict);
    assert_eq!(verdict.findings[0].witness, Some(json!({"a": "DELETE"})));
    // Texts and time limits are no widening.
    let mut new = cases[0].1.clone();
    new["tools"][0]["timeout_ms"] = json!(1);
    assert!(!manifests(Some(&cases[0].1), Some(&new), &[], &strict).breaking);
}

#[test]
fn unreadable_manifest_or_invalid_schema_is_breaking() {
    let good = taking(&json!({"type": "string"}));
    let put = |place: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        bad
    };
    let twice = |list: &str| {
        let mut bad = good.clone();
        let first = bad[list][0].clone();
        bad[list].as_array_mut().unwrap().push(first);
        bad
    };
    let bads = [
        json!(1),
        json!([]),
        json!("{}"),
        put("/tools", json!({})),
        put("/tools/0", json!(null)),
        put("/tools/0/name", json!(7)),
        put("/tools/0/permission_scope", json!(null)),
        put("/tools/0/input_schema", json!([])),
        put("/permission_scopes", json!(1)),
        put("/permission_scopes/0", json!("x:y")),
        put("/permission_scopes/0/id", json!([])),
        put("/permission_scopes/0/sensitivity", json!("huge")),
        twice("tools"),
        twice("permission_scopes"),
    ];
    for bad in &bads {
        for (old, new) in [(bad, &good), (&good, bad), (bad, bad)] {
            let verdict = manifests(Some(old), Some(new), &[], &ChangeJudgingPolicy::default());
            assert_eq!(rules(&verdict), BTreeSet::from(["unreadable"]), "{old} {new}");
            assert!(old == new || scopes(&verdict) == ["x:y"], "{old} {new} {verdict:?}");
        }
        let nothing = Map::new().into();
        let verdict =
            manifests(Some(&nothing), Some(&good), std::slice::from_ref(bad), &ChangeJudgingPolicy::default());
        assert!(rules(&verdict).contains("unreadable"));
    }
    // An invalid schema affects only its own tool.
    let bad_pattern = json!({"properties": {"a": {"type": "string", "pattern": "("}}});
    for schema in [json!({"type": 1}), json!({"$ref": "#/nowhere"}), bad_pattern, json!(false)] {
        let verdict = manifests(Some(&good), Some(&with_schema(&schema)), &[], &ChangeJudgingPolicy::default());
        assert_eq!((verdict.breaking, scopes(&verdict)), (true, vec!["x:y"]), "{schema}");
    }
    let verdict = judge(&good, &put("/schema_version", json!("2.0")));
    assert_eq!((rules(&verdict), scopes(&verdict)), (BTreeSet::from(["schema_version_changed"]), vec!["x:y"]));
}

#[test]
fn judge_ends_on_3000_chained_references_a_reference_cycle_and_200_branches() {
    // A chain of references longer than the stack, and a cycle.
    let mut defs: Map<String, Value> = (0..3000)
        .map(|index| (format!("d{index}"), json!({"properties": {"n": {"$ref": format!("#/$defs/d{}", index + 1)}}})))
        .collect();
    let chain = |defs: &Map<String, Value>, kind: &str| {
        let mut defs = defs.clone();
        defs.insert("d3000".to_owned(), json!({"type": kind}));
        with_schema(&json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs}))
    };
    assert!(judge_quick(&chain(&defs, "integer"), &chain(&defs, "number")).breaking);
    defs.insert("d2999".to_owned(), json!({"$ref": "#/$defs/d0"}));
    let round =
        manifests(Some(&chain(&defs, "integer")), Some(&chain(&defs, "integer")), &[], &ChangeJudgingPolicy::default());
    assert_eq!(round, ManifestChangeVerdict::default());
    // Hundreds of different alternatives.
    let many = |offset: i64| {
        let branches: Vec<Value> =
            (0..200).map(|index| json!({"minimum": index + offset, "type": "integer"})).collect();
        taking(&json!({"oneOf": branches}))
    };
    assert!(judge_quick(&many(0), &many(1)).breaking);
}

fn judge_quick(old: &Value, new: &Value) -> ManifestChangeVerdict {
    manifests(Some(old), Some(new), &[], &ChangeJudgingPolicy::default())
}
