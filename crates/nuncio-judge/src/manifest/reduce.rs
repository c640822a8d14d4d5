//! Removes equal arguments from two schemas before they are compared: most changes leave most arguments unchanged.
//!
//! An argument that is equal on both sides cannot cause a refusal. If it is optional, the call without it is refused
//! as well; if it is required on both sides, the call with any other valid value is refused too. So it is left out on
//! both sides, and added to every witness with one valid value if it is required. This changes no verdict. It holds
//! only if no keyword counts arguments or relates several of them; otherwise nothing is left out.

use std::borrow::Cow;

use nuncio_core::schema::keywords;
use serde_json::{Map, Value};

use super::arguments::SchemaPair;
use super::locations::ANNOTATIONS;
use super::sample::sample;
use crate::schema::{NarrowingRule, SchemaNarrowing};

/// Schema keywords that constrain arguments independently, or constrain nothing.
const ONE_BY_ONE: [&str; 14] = [
    "$comment",
    "$defs",
    "$schema",
    "additionalProperties",
    "default",
    "deprecated",
    "description",
    "examples",
    "patternProperties",
    "properties",
    "propertyNames",
    "required",
    "title",
    "type",
];
/// Schema keywords that can constrain an argument beside its own schema, and so must be equal in both schemas.
const BESIDE: [&str; 2] = ["patternProperties", "propertyNames"];

/// Two schemas without the arguments that are the same in both.
pub(super) struct ReducedSchemas<'a> {
    pub(super) old: Cow<'a, Value>,
    pub(super) new: Cow<'a, Value>,
    /// Required arguments that were left out, with a valid value each.
    samples: Map<String, Value>,
}

impl<'a> ReducedSchemas<'a> {
    pub(super) fn of(old: &'a Value, new: &'a Value) -> Self {
        let reduced = match (old, new) {
            (Value::Object(old), Value::Object(new)) => reduce(old, new),
            _ => None,
        };
        reduced.unwrap_or_else(|| Self { old: Cow::Borrowed(old), new: Cow::Borrowed(new), samples: Map::new() })
    }

    /// The same reduction with old and new schema exchanged.
    pub(super) fn turned(&self) -> ReducedSchemas<'_> {
        ReducedSchemas { old: Cow::Borrowed(&self.new), new: Cow::Borrowed(&self.old), samples: self.samples.clone() }
    }

    /// Translates a finding about the reduced schemas to the complete ones.
    pub(super) fn whole(&self, mut finding: SchemaNarrowing, pair: SchemaPair<'_>) -> SchemaNarrowing {
        // A removed part is in the old schema.
        let pointed = if finding.new.is_none() { pair.old } else { pair.new };
        restore(&mut finding, pair);
        finding.pointer = self.whole_pointer(finding.pointer, pointed);
        if let Some(Value::Object(arguments)) = &mut finding.witness {
            arguments.extend(self.samples.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        finding
    }

    /// Translates a pointer into the reduced schema to the complete one. Only items of `required` have other indexes.
    fn whole_pointer(&self, location: String, whole: &Value) -> String {
        let index = location.strip_prefix("/required/").and_then(|index| index.parse().ok());
        let (Some(index), Some(Value::Array(names))) = (index, whole.get("required")) else { return location };
        let kept = |name: &&Value| name.as_str().is_none_or(|name| !self.samples.contains_key(name));
        let found = names.iter().enumerate().filter(|(_, name)| kept(name)).nth(index);
        found.map_or(location, |(index, _)| format!("/required/{index}"))
    }
}

/// Replaces quoted parts of reduced schemas in a finding by those of the complete schemas.
pub(super) fn restore(finding: &mut SchemaNarrowing, pair: SchemaPair<'_>) {
    let location = match finding.pointer.as_str() {
        "" => "",
        location if location.starts_with("/required") => "/required",
        _ => return,
    };
    // The reduced `required` list may be empty.
    let listed = finding.rule == NarrowingRule::RequiredAdded;
    let restored = |part: Option<Value>, schema: &Value| match part {
        None if listed => schema.pointer(location).cloned(),
        Some(Value::Object(_) | Value::Array(_)) => schema.pointer(location).cloned().or(part),
        part => part,
    };
    finding.old = restored(finding.old.take(), pair.old);
    finding.new = restored(finding.new.take(), pair.new);
}

fn reduce<'a>(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<ReducedSchemas<'a>> {
    let plain = |map: &Map<String, Value>| map.keys().all(|name| ONE_BY_ONE.contains(&name.as_str()));
    if !plain(old) || !plain(new) || BESIDE.iter().any(|name| old.get(*name) != new.get(*name)) {
        return None;
    }
    let (before, after) = (old.get("properties")?.as_object()?, new.get("properties")?.as_object()?);
    if !refers_to_definitions_only(old) || !refers_to_definitions_only(new) {
        return None;
    }
    let same_definitions = old.get("$defs") == new.get("$defs");
    let alone = !BESIDE.iter().any(|name| old.contains_key(*name));
    let mut out = Vec::new();
    let mut samples = Map::new();
    for (name, schema) in before {
        if after.get(name) != Some(schema) || (!same_definitions && refers(schema)) {
            continue;
        }
        match (is_required(old, name)?, is_required(new, name)?) {
            (false, false) => out.push(name.as_str()),
            (true, true) if alone => {
                if let Some(value) = sample(schema) {
                    samples.insert(name.clone(), value);
                    out.push(name);
                }
            }
            _ => {}
        }
    }
    if out.is_empty() {
        return None;
    }
    let (old, new) = (Cow::Owned(without(old, &out, &samples)), Cow::Owned(without(new, &out, &samples)));
    Some(ReducedSchemas { old, new, samples })
}

/// A schema without the given arguments, whose names must be sorted.
fn without(map: &Map<String, Value>, out: &[&str], samples: &Map<String, Value>) -> Value {
    let closed = map.get("additionalProperties") == Some(&Value::Bool(false)) && !map.contains_key("patternProperties");
    let mut kept = Map::new();
    let mut refers_still = false;
    for (keyword, value) in map.iter().filter(|(keyword, _)| *keyword != "$defs") {
        let value = match value {
            Value::Object(properties) if keyword == "properties" => {
                let left = properties.iter().filter_map(|(name, schema)| {
                    match (out.binary_search(&name.as_str()).is_ok(), closed) {
                        (false, _) => Some((name.clone(), schema.clone())),
                        // If the schema accepts any name, the argument must be forbidden explicitly.
                        (true, false) => Some((name.clone(), Value::Bool(false))),
                        (true, true) => None,
                    }
                });
                Value::Object(left.collect())
            }
            Value::Array(names) if keyword == "required" => {
                let left = |name: &&Value| name.as_str().is_none_or(|name| !samples.contains_key(name));
                Value::Array(names.iter().filter(left).cloned().collect())
            }
            other => other.clone(),
        };
        look_within(keyword, &value, &mut |keyword, _| refers_still |= keyword == "$ref");
        kept.insert(keyword.clone(), value);
    }
    if refers_still && let Some(definitions) = map.get("$defs") {
        kept.insert("$defs".to_owned(), definitions.clone());
    }
    Value::Object(kept)
}

/// Whether an argument is required; `None` if `required` is malformed in the schema.
fn is_required(map: &Map<String, Value>, name: &str) -> Option<bool> {
    match map.get("required") {
        None => Some(false),
        Some(Value::Array(names)) => Some(names.iter().any(|required| required.as_str() == Some(name))),
        Some(_) => None,
    }
}

/// Whether all references lead to `$defs`, so that arguments do not refer to each other.
pub(super) fn refers_to_definitions_only(map: &Map<String, Value>) -> bool {
    let mut only = true;
    for (keyword, value) in map {
        look_within(keyword, value, &mut |keyword, value| {
            only &= match keyword {
                "$ref" => value.as_str().is_some_and(|target| target.starts_with("#/$defs/")),
                "$dynamicRef" | "$anchor" | "$dynamicAnchor" | "$id" => false,
                _ => true,
            };
        });
    }
    only
}

/// Whether a schema contains a reference.
pub(super) fn refers(schema: &Value) -> bool {
    let mut found = false;
    each(schema, &mut |keyword, _| found |= matches!(keyword, "$ref" | "$dynamicRef"));
    found
}

/// Calls `look` with every keyword of a schema and of all its subschemas.
fn each(schema: &Value, look: &mut impl FnMut(&str, &Value)) {
    let Value::Object(map) = schema else { return };
    for (keyword, value) in map {
        look(keyword, value);
        look_within(keyword, value, look);
    }
}

/// Calls `look` with every keyword of the subschemas under one keyword.
fn look_within(keyword: &str, value: &Value, look: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(_) if keywords::ONE.contains(&keyword) => each(value, look),
        Value::Object(named) if keywords::NAMED.contains(&keyword) => {
            named.values().for_each(|schema| each(schema, look));
        }
        Value::Array(list) if keywords::LIST.contains(&keyword) => list.iter().for_each(|schema| each(schema, look)),
        _ => {}
    }
}

/// Whether two schemas differ only in annotations.
pub(super) fn differs_only_in_annotations(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    let enforced = |map: &Map<String, Value>| map.keys().filter(|name| !is_annotation_keyword(name)).count();
    enforced(old) == enforced(new)
        && old.iter().filter(|(name, _)| !is_annotation_keyword(name)).all(|(name, before)| {
            new.get(name).is_some_and(|after| match (before, after) {
                _ if before == after => true,
                _ if keywords::ONE.contains(&name.as_str()) => differs_only_in_annotations(before, after),
                (Value::Object(before), Value::Object(after)) if keywords::NAMED.contains(&name.as_str()) => {
                    before.len() == after.len()
                        && before.iter().all(|(name, one)| {
                            after.get(name).is_some_and(|other| differs_only_in_annotations(one, other))
                        })
                }
                (Value::Array(before), Value::Array(after)) if keywords::LIST.contains(&name.as_str()) => {
                    before.len() == after.len()
                        && before.iter().zip(after).all(|(one, other)| differs_only_in_annotations(one, other))
                }
                _ => false,
            })
        })
}

/// Whether a keyword is an annotation.
pub(super) fn is_annotation_keyword(keyword: &str) -> bool {
    keyword == "format" || ANNOTATIONS.contains(&keyword)
}
