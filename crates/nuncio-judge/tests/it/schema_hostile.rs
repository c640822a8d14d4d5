//! Hostile schemas: every comparison ends within its budget, on a small stack, without a panic.

use nuncio_judge::schema::{ComparisonBudget, ComparisonOutcome, NarrowingRule, compare};
use serde_json::{Map, Value, json};

fn on_a_small_stack(name: &'static str, old: Value, new: Value, expected: &'static [ComparisonOutcome]) {
    let run = move || {
        let comparison = compare(&old, &new, ComparisonBudget::new(200_000));
        assert!(expected.contains(&comparison.outcome), "{name}: {:?}", comparison.outcome);
        assert!(comparison.findings.len() <= 64, "{name}: {} findings", comparison.findings.len());
        assert_eq!(comparison.outcome == ComparisonOutcome::Compatible, comparison.findings.is_empty(), "{name}");
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

const ANY: &[ComparisonOutcome] =
    &[ComparisonOutcome::Breaking, ComparisonOutcome::Unknown, ComparisonOutcome::Compatible];
const NOT_COMPATIBLE: &[ComparisonOutcome] = &[ComparisonOutcome::Breaking, ComparisonOutcome::Unknown];

fn nested(levels: usize, wrap: impl Fn(Value) -> Value, core: Value) -> Value {
    (0..levels).fold(core, |inner, _| wrap(inner))
}

fn definitions(count: usize, body: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|index| (format!("d{index}"), body(index))).collect()
}

#[test]
fn comparing_deeply_nested_schemas_ends_within_budget() {
    type SchemaWrapper = fn(Value) -> Value;
    let wraps: [(&str, SchemaWrapper); 7] = [
        ("properties", |inner| json!({"properties": {"a": inner}})),
        ("not", |inner| json!({"not": inner})),
        ("items", |inner| json!({"items": inner})),
        ("anyOf", |inner| json!({"anyOf": [inner, {"type": "null"}]})),
        ("oneOf", |inner| json!({"oneOf": [inner, {"minimum": 3}]})),
        ("if", |inner| json!({"if": inner, "then": {"minimum": 1}, "else": {"maximum": 9}})),
        ("unevaluated", |inner| json!({"anyOf": [inner, {"properties": {"b": {}}}], "unevaluatedProperties": false})),
    ];
    for (name, wrap) in wraps {
        for levels in [10, 20, 30, 62, 200] {
            let (old, new) = (nested(levels, wrap, json!({"maximum": 2})), nested(levels, wrap, json!({"maximum": 1})));
            on_a_small_stack(name, old, new, ANY);
        }
    }
    let deep = |core: Value| nested(200, |inner| json!({"properties": {"a": inner}}), core);
    on_a_small_stack(
        "too deep",
        deep(json!({"maximum": 1})),
        deep(json!({"maximum": 2})),
        &[ComparisonOutcome::Unknown],
    );
    on_a_small_stack("deep and equal", deep(json!(true)), deep(json!(true)), &[ComparisonOutcome::Compatible]);
}

#[test]
fn comparing_cyclic_schemas_and_long_reference_chains_ends_within_budget() {
    let in_place =
        json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
    on_a_small_stack("in place", in_place.clone(), json!({"type": "null"}), NOT_COMPATIBLE);
    on_a_small_stack(
        "in place, both",
        in_place.clone(),
        json!({"allOf": [in_place.clone()], "$defs": in_place["$defs"]}),
        ANY,
    );
    on_a_small_stack("itself", json!({"$ref": "#"}), json!(false), NOT_COMPATIBLE);
    on_a_small_stack(
        "paradox",
        json!({"not": {"$ref": "#"}}),
        json!({"not": {"$ref": "#"}, "type": "null"}),
        NOT_COMPATIBLE,
    );
    on_a_small_stack(
        "paradox, dropped",
        json!({"not": {"$ref": "#"}, "type": "null"}),
        json!({"not": {"$ref": "#"}}),
        ANY,
    );
    let unevaluated =
        json!({"anyOf": [{"prefixItems": [{"$ref": "#", "unevaluatedItems": true}]}], "unevaluatedItems": false});
    on_a_small_stack("unevaluated", unevaluated, json!({"type": "null"}), NOT_COMPATIBLE);
    let dependencies = json!({"dependencies": {"a": {"$ref": "#"}}});
    on_a_small_stack("dependencies", dependencies, json!({"type": "null"}), NOT_COMPATIBLE);
    for count in [50, 1_000] {
        let chain = |end: Value| {
            let body = |index: usize| {
                if index == 0 { end.clone() } else { json!({"$ref": format!("#/$defs/d{}", index - 1)}) }
            };
            json!({"$defs": definitions(count, body), "$ref": format!("#/$defs/d{}", count - 1)})
        };
        on_a_small_stack("chain", chain(json!({"minimum": 1})), chain(json!({"minimum": 2})), NOT_COMPATIBLE);
        let ladder = |end: Value| {
            let body = |index: usize| {
                if index == 0 { end.clone() } else { json!({"items": {"$ref": format!("#/$defs/d{}", index - 1)}}) }
            };
            json!({"$defs": definitions(count, body), "$ref": format!("#/$defs/d{}", count - 1)})
        };
        on_a_small_stack("ladder", ladder(json!({"minimum": 1})), ladder(json!({"minimum": 2})), NOT_COMPATIBLE);
    }
}

#[test]
fn comparing_schemas_with_exponentially_many_branches_ends_within_budget() {
    let doubling = |end: Value| {
        let body = |index: usize| {
            if index == 0 {
                return end.clone();
            }
            let next = json!({"$ref": format!("#/$defs/d{}", index - 1)});
            json!({"anyOf": [{"properties": {"a": next}}, {"properties": {"b": next}}], "unevaluatedProperties": false})
        };
        json!({"$defs": definitions(40, body), "$ref": "#/$defs/d39"})
    };
    on_a_small_stack("doubling", doubling(json!({"minimum": 1})), doubling(json!({"minimum": 2})), NOT_COMPATIBLE);
    let clauses = |bound: i32| -> Value {
        let one = |index: i32| json!({"anyOf": [{"required": [format!("a{index}")]}, {"properties": {format!("b{index}"): {"minimum": bound}}}]});
        json!({"type": "object", "allOf": (0..60).map(one).collect::<Vec<_>>()})
    };
    on_a_small_stack("clauses", clauses(1), clauses(2), NOT_COMPATIBLE);
    let parity = |flip: usize| -> Value {
        let pair = |index: usize| json!({"oneOf": [{"required": [format!("a{index}")]}, {"required": [format!("a{}", (index + 1) % 21)]}]});
        json!({"type": "object", "allOf": (flip..21).map(pair).collect::<Vec<_>>()})
    };
    on_a_small_stack("parity", parity(1), parity(0), ANY);
    let many: Vec<Value> =
        (0..400).map(|index| json!({"properties": {"k": {"const": index}}, "required": ["k"]})).collect();
    on_a_small_stack("many branches", json!({"anyOf": many}), json!({"oneOf": many}), ANY);
    let unions = |names: std::ops::Range<usize>| -> Value {
        json!({"oneOf": names.map(|index| json!({"enum": [index, index + 1]})).collect::<Vec<_>>()})
    };
    on_a_small_stack("overlapping", unions(0..80), unions(1..81), NOT_COMPATIBLE);
    let conditions = json!({"allOf": (0..12).map(|index| json!({"if": {"required": [format!("a{index}")]}, "then": {"properties": {format!("a{index}"): {}}}})).collect::<Vec<_>>(), "unevaluatedProperties": false});
    on_a_small_stack("conditions", conditions.clone(), json!({"maxProperties": 3}), NOT_COMPATIBLE);
}

#[test]
fn comparing_schemas_with_huge_patterns_and_sizes_ends_within_budget() {
    for pattern in [
        "^(a{1,50}){1,50}$",
        "^(a|aa|aaa)*b{1000}$",
        "(((a{10}){10}){10}){10}",
        "^(a*)*(b*)*(c*)*$",
        "(a|b)*a(a|b){14}",
        "^\\p{L}+$",
        "(?=a)a",
        "[",
    ] {
        on_a_small_stack("pattern", json!({"pattern": pattern}), json!({"pattern": "^[ab]*$"}), NOT_COMPATIBLE);
        on_a_small_stack("pattern", json!({"pattern": "^[ab]*$"}), json!({"pattern": pattern}), NOT_COMPATIBLE);
        on_a_small_stack(
            "names",
            json!({"patternProperties": {pattern: {"type": "string"}}}),
            json!({"patternProperties": {pattern: {"const": "x"}}}),
            NOT_COMPATIBLE,
        );
    }
    let names: Map<String, Value> =
        (0..40).map(|index| (format!("^.{{{index}}}x"), json!({"minimum": index}))).collect();
    on_a_small_stack(
        "many patterns",
        json!({"patternProperties": names}),
        json!({"additionalProperties": {"minimum": 3}}),
        NOT_COMPATIBLE,
    );
    let huge = json!({"minLength": 1e300, "minItems": 1e300, "minProperties": 1e300, "multipleOf": 1e-300});
    on_a_small_stack("huge", huge.clone(), json!({"minLength": 5}), ANY);
    on_a_small_stack("huge, refused", huge, json!({"maxLength": 5, "maxItems": 5, "maxProperties": 5}), NOT_COMPATIBLE);
    on_a_small_stack(
        "long",
        json!({"type": "array", "minItems": 100_000, "uniqueItems": true}),
        json!({"items": {"type": "null"}}),
        NOT_COMPATIBLE,
    );
    let wide: Map<String, Value> = (0..3_000).map(|index| (format!("p{index}"), json!({"type": "string"}))).collect();
    let mut wider = wide.clone();
    wider.insert("p7".into(), json!({"type": "integer"}));
    let closed = |properties: &Map<String, Value>| json!({"type": "object", "properties": properties, "additionalProperties": false});
    on_a_small_stack("wide", closed(&wide), closed(&wider), NOT_COMPATIBLE);
    let listed = |from: usize| json!({"enum": (from..8_000).collect::<Vec<_>>()});
    on_a_small_stack("listed", listed(0), listed(1), &[ComparisonOutcome::Breaking]);
    on_a_small_stack("listed", listed(1), listed(0), &[ComparisonOutcome::Compatible]);
}

#[test]
fn comparison_with_an_invalid_schema_is_unknown() {
    let wrong = [
        json!(1),
        json!("x"),
        json!({"type": "text"}),
        json!({"type": 3}),
        json!({"minimum": "1"}),
        json!({"pattern": 1}),
        json!({"minLength": -1}),
        json!({"minLength": 1.5}),
        json!({"multipleOf": 0}),
        json!({"required": "a"}),
        json!({"properties": []}),
        json!({"items": [{}]}),
        json!({"anyOf": {}}),
        json!({"anyOf": []}),
        json!({"enum": 1}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": 1}),
        json!({"not": 1}),
        json!({"allOf": [1]}),
        json!({"uniqueItems": 1}),
        json!({"$defs": {"a": 1}}),
        json!({"dependentRequired": {"a": "b"}}),
        json!({"if": 3, "then": {}}),
        json!({"required": ["a", "a"]}),
        json!({"properties": {"a": {"items": {"type": "text"}}}}),
    ];
    for schema in wrong {
        for (old, new) in [(schema.clone(), json!({"title": "t"})), (json!({"title": "t"}), schema.clone())] {
            let comparison = compare(&old, &new, ComparisonBudget::default());
            assert_eq!(comparison.outcome, ComparisonOutcome::Unknown, "{schema}");
            assert_eq!(comparison.findings[0].rule, NarrowingRule::SchemaInvalid, "{schema}");
        }
    }
}

#[test]
fn comparison_of_compatible_schemas_with_too_small_budget_is_unknown() {
    let (old, new) = (json!({"items": {"minimum": 1}}), json!({"items": {"minimum": 0}}));
    for steps in 0..40 {
        let outcome = compare(&old, &new, ComparisonBudget::new(steps)).outcome;
        assert_ne!(outcome, ComparisonOutcome::Breaking, "{steps}");
    }
    assert_eq!(compare(&old, &new, ComparisonBudget::new(0)).outcome, ComparisonOutcome::Unknown);
    assert_eq!(compare(&old, &new, ComparisonBudget::default()).outcome, ComparisonOutcome::Compatible);
}
