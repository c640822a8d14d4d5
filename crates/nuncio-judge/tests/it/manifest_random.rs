//! Property tests over random manifests and random changes to them.

use std::collections::BTreeSet;

use nuncio_judge::schema::{ComparisonBudget, compare};
use nuncio_judge::{ChangeJudgingPolicy, ManifestChangeVerdict, manifests};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::manifest_judge::{notices, rules, witnesses_hold};
use crate::validators::is_valid;

/// A deterministic random number generator.
struct TestRandom(u64);

impl TestRandom {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % (most as u64)).unwrap()
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn chance(&mut self, in_ten: usize) -> bool {
        self.below(10) < in_ten
    }
}

const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "array"];
const SENSITIVITIES: [&str; 3] = ["low", "medium", "high"];
const SCOPES: [&str; 4] = ["a:read", "a:write", "b:use", "c:send"];

fn words() -> [Value; 5] {
    [json!("x"), json!("y"), json!("z"), json!(1), json!(null)]
}

fn schema(dice: &mut TestRandom, depth: usize) -> Value {
    let mut schema = match dice.below(if depth == 0 { 5 } else { 8 }) {
        0 => json!({"type": "string", "minLength": dice.below(3), "maxLength": 3 + dice.below(3)}),
        1 => json!({"type": "integer", "minimum": dice.below(5), "maximum": 5 + dice.below(5)}),
        2 => json!({"enum": words()[..1 + dice.below(5)]}),
        3 => json!({"type": dice.one(&TYPES)}),
        4 if dice.chance(4) => json!({"$ref": "#/$defs/shared"}),
        4 => json!({"type": "string", "pattern": dice.one(&["^a", "b$", "^[a-c]*$"])}),
        5 => json!({"type": "array", "items": schema(dice, depth - 1), "maxItems": 1 + dice.below(4)}),
        6 => json!({"anyOf": [schema(dice, depth - 1), schema(dice, depth - 1)]}),
        _ => object(dice, depth - 1),
    };
    if dice.chance(2) {
        schema["description"] = json!("said");
    }
    schema
}

fn object(dice: &mut TestRandom, depth: usize) -> Value {
    let names = ["p", "q", "r"];
    let mut properties = Map::new();
    for name in &names[..1 + dice.below(3)] {
        properties.insert((*name).to_owned(), schema(dice, depth));
    }
    let required: Vec<&String> = properties.keys().filter(|_| dice.chance(3)).collect();
    let mut object = json!({"type": "object", "required": required, "additionalProperties": dice.chance(3)});
    object["properties"] = properties.into();
    match dice.below(12) {
        0 => object["patternProperties"] = json!({"^q": schema(dice, 0)}),
        1 => object["propertyNames"] = json!({"maxLength": 1 + dice.below(5)}),
        2 => object["minProperties"] = json!(1 + dice.below(2)),
        3 => object["additionalProperties"] = schema(dice, 0),
        _ => {}
    }
    object
}

/// A random input schema: an object, with definitions that it can refer to.
fn input(dice: &mut TestRandom) -> Value {
    let mut input = object(dice, 2);
    let shared = schema(dice, 0);
    let circle = shared.get("$ref").is_some();
    input["$defs"] = json!({"shared": if circle { json!({"type": "string"}) } else { shared }});
    input
}

fn manifest(dice: &mut TestRandom) -> Value {
    let count = 1 + dice.below(3);
    let scopes: Vec<Value> = SCOPES[..count]
        .iter()
        .map(|id| {
            json!({"id": id, "label_i18n_key": "a.l", "description_i18n_key": "a.d",
                "sensitivity": dice.one(&SENSITIVITIES)})
        })
        .collect();
    let tools: Vec<Value> = (0..1 + dice.below(3))
        .map(|index| {
            json!({"name": format!("tool_{index}"), "description_i18n_key": "a.t", "input_schema": input(dice),
                "permission_scope": SCOPES[dice.below(count)]})
        })
        .collect();
    json!({"schema_version": "1.0", "agent_version": "1.0.0", "tools": tools, "permission_scopes": scopes})
}

/// Changes one keyword somewhere in a schema, but never a `type`.
fn mutate(dice: &mut TestRandom, schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    let inner: Vec<String> = map
        .keys()
        .filter(|name| matches!(name.as_str(), "properties" | "items" | "anyOf" | "$defs"))
        .cloned()
        .collect();
    if !inner.is_empty() && dice.chance(6) {
        let inner = map.get_mut(dice.one(&inner)).unwrap();
        let chosen = match inner {
            Value::Array(items) => Some(dice.below(items.len())).map(|index| &mut items[index]),
            Value::Object(parts)
                if !parts.contains_key("type") && !parts.contains_key("enum") && !parts.contains_key("anyOf") =>
            {
                let index = dice.below(parts.len().max(1));
                parts.values_mut().nth(index)
            }
            other => Some(other),
        };
        return chosen.into_iter().for_each(|chosen| mutate(dice, chosen));
    }
    match dice.below(8) {
        0 => drop(map.insert("minimum".to_owned(), dice.below(8).into())),
        1 => drop(map.insert("maxLength".to_owned(), dice.below(8).into())),
        2 => drop(map.insert("enum".to_owned(), json!(words()[dice.below(4)..]))),
        3 => drop(map.shift_remove("enum")),
        4 => drop(map.insert("additionalProperties".to_owned(), dice.chance(5).into())),
        5 => drop(map.insert("required".to_owned(), json!(["p", "q"][..dice.below(3)]))),
        6 => {
            drop(map.shift_remove(*dice.one(&["minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems"])));
        }
        _ => drop(map.insert("title".to_owned(), "another".into())),
    }
}

/// A random value that may be valid under the generated schemas.
fn value(dice: &mut TestRandom, depth: usize) -> Value {
    match dice.below(if depth == 0 { 5 } else { 8 }) {
        0 => json!(dice.below(12)),
        1 => json!(["", "a", "ab", "abc", "cab", "x", "y", "z", "abcdef"][dice.below(9)]),
        2 => json!(dice.chance(5)),
        3 => [json!(null), json!(1.5), json!("x")][dice.below(3)].clone(),
        4 => json!([]),
        5 => (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => arguments(dice, depth - 1),
    }
}

fn arguments(dice: &mut TestRandom, depth: usize) -> Value {
    let names = ["p", "q", "r", "other"];
    let chosen: Vec<&str> = names.iter().filter(|_| dice.chance(5)).copied().collect();
    chosen.into_iter().map(|name| (name.to_owned(), value(dice, depth))).collect::<Map<_, _>>().into()
}

fn judge(old: &Value, new: &Value) -> ManifestChangeVerdict {
    manifests(Some(old), Some(new), &[], &ChangeJudgingPolicy::default())
}

fn hangs_together(verdict: &ManifestChangeVerdict) {
    assert_eq!(verdict.breaking, !verdict.findings.is_empty(), "{verdict:?}");
    let scopes: BTreeSet<String> = verdict.findings.iter().filter_map(|finding| finding.scope.clone()).collect();
    assert_eq!(verdict.scopes_requiring_reauth, scopes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_manifest_unchanged_or_reordered_gives_no_change(seed: u64) {
        let manifest = manifest(&mut TestRandom(seed));
        prop_assert_eq!(judge(&manifest, &manifest), ManifestChangeVerdict::default());
        // A different order of unordered parts is no change either.
        let mut turned = manifest.clone();
        turned["tools"].as_array_mut().unwrap().reverse();
        turned["permission_scopes"].as_array_mut().unwrap().reverse();
        prop_assert_eq!(judge(&manifest, &turned), ManifestChangeVerdict::default());
    }

    #[test]
    fn random_schema_change_gives_the_verdict_of_the_schema_comparison(seed: u64) {
        let dice = &mut TestRandom(seed);
        let old = manifest(dice);
        let mut new = old.clone();
        let index = dice.below(old["tools"].as_array().unwrap().len());
        for _ in 0..1 + dice.below(3) {
            mutate(dice, &mut new["tools"][index]["input_schema"]);
        }
        let (before, after) = (&old["tools"][index]["input_schema"], &new["tools"][index]["input_schema"]);
        let verdict = judge(&old, &new);
        hangs_together(&verdict);
        prop_assert!(!rules(&verdict).contains("type_changed"), "no type was touched: {before} {after}");
        prop_assert_eq!(verdict.breaking, compare(before, after, ComparisonBudget::default()).outcome.breaking());
        let scope = new["tools"][index]["permission_scope"].as_str().unwrap();
        prop_assert!(verdict.scopes_requiring_reauth.iter().all(|found| found == scope));
        prop_assert_eq!(before == after, verdict == ManifestChangeVerdict::default(), "{} {}", before, after);
        witnesses_hold(&old, &new, &[], &verdict);
        // The same findings result if the tool is removed and added again.
        let mut without = old.clone();
        without["tools"].as_array_mut().unwrap().remove(index);
        let hidden = manifests(Some(&without), Some(&new), std::slice::from_ref(&old), &ChangeJudgingPolicy::default());
        prop_assert_eq!(&hidden.findings, &verdict.findings);
        // The stricter policy reports a breaking change at least as often.
        let strict = ChangeJudgingPolicy { reauth_on_widening: true, ..ChangeJudgingPolicy::default() };
        let strict = manifests(Some(&old), Some(&new), &[], &strict);
        hangs_together(&strict);
        prop_assert_eq!(strict.breaking, verdict.breaking || notices(&verdict).contains("input_widened"));
        // A pair judged compatible has no counterexample among random arguments.
        if !verdict.breaking {
            for _ in 0..40 {
                let arguments = arguments(dice, 2);
                prop_assert!(!is_valid(before, &arguments) || is_valid(after, &arguments), "{arguments} {before} {after}");
            }
        }
    }

    #[test]
    fn random_type_change_in_an_input_schema_is_breaking(seed: u64) {
        let dice = &mut TestRandom(seed);
        let mut old = manifest(dice);
        let mut places = Vec::new();
        nuncio_core::schema::keywords::each(&old["tools"][0]["input_schema"], "", &mut |schema, place| {
            let unused = place.starts_with("/$defs") && !old["tools"][0].to_string().contains("#/$defs");
            if schema.get("type").is_some() && !unused {
                places.push(format!("/tools/0/input_schema{place}/type"));
            }
        });
        let place = dice.one(&places).clone();
        old["tools"][0]["input_schema"]["$comment"] = json!(seed);
        let mut new = old.clone();
        let found = new.pointer_mut(&place).unwrap();
        *found = if dice.chance(5) { json!([found.clone(), "null"]) } else { json!("null") };
        let verdict = judge(&old, &new);
        hangs_together(&verdict);
        prop_assert!(verdict.breaking, "{place} in {old}");
        witnesses_hold(&old, &new, &[], &verdict);
    }

    #[test]
    fn random_manifest_change_outside_schemas_gives_the_expected_rule(seed: u64) {
        let dice = &mut TestRandom(seed);
        let old = manifest(dice);
        let mut new = old.clone();
        let scopes = new["permission_scopes"].as_array().unwrap().len();
        let tools = new["tools"].as_array().unwrap().len();
        let (scope, tool) = (dice.below(scopes), dice.below(tools));
        let id = old["permission_scopes"][scope]["id"].as_str().unwrap();
        // The change, the scope that needs consent, and the expected rule.
        let (needs, rule): (Option<&str>, &str) = match dice.below(8) {
            0 => {
                new["permission_scopes"].as_array_mut().unwrap().push(json!({"id": "new:one", "sensitivity": "low"}));
                (Some("new:one"), "scope_added")
            }
            1 => {
                let before = SENSITIVITIES.iter().position(|word| old["permission_scopes"][scope]["sensitivity"] == *word);
                let after = (before.unwrap() + 1 + dice.below(2)) % 3;
                new["permission_scopes"][scope]["sensitivity"] = json!(SENSITIVITIES[after]);
                if after > before.unwrap() { (Some(id), "sensitivity_raised") } else { (None, "sensitivity_lowered") }
            }
            2 => {
                let mut more = old["tools"][tool].clone();
                more["name"] = json!("another");
                new["tools"].as_array_mut().unwrap().push(more);
                (None, "tool_added")
            }
            3 => {
                new["tools"].as_array_mut().unwrap().remove(tool);
                (None, "tool_removed")
            }
            4 if old["tools"][tool]["permission_scope"] != id => {
                new["tools"][tool]["permission_scope"] = json!(id);
                (Some(id), "tool_moved")
            }
            5 => {
                new["tools"][tool]["timeout_ms"] = json!(1 + dice.below(9000));
                (None, "timeout_changed")
            }
            6 => {
                new["permission_scopes"][scope]["label_fallback"] = json!("said");
                (None, "display_text_changed")
            }
            _ => {
                new["agent_version"] = json!("1.0.1");
                (None, "agent_version_changed")
            }
        };
        let verdict = judge(&old, &new);
        hangs_together(&verdict);
        let wanted: BTreeSet<String> = needs.into_iter().map(str::to_owned).collect();
        prop_assert_eq!(&verdict.scopes_requiring_reauth, &wanted);
        let told: BTreeSet<&str> = rules(&verdict).into_iter().chain(notices(&verdict)).collect();
        prop_assert_eq!(told, BTreeSet::from([rule]));
    }
}
