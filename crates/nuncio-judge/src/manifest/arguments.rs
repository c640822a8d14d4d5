//! Finds the calls that a tool no longer accepts, argument by argument.
//!
//! If no keyword relates several arguments, a call is refused because of a single argument that is missing or
//! invalid. So each changed argument is compared alone and the others are left out; required ones are added to every
//! witness with one valid value. Tools of one manifest share many arguments, so results are cached. If arguments may
//! depend on each other, the schemas are compared as wholes.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use nuncio_core::json::pointer;
use serde_json::{Map, Value};

use super::reduce::{ReducedSchemas, refers, refers_to_definitions_only, restore};
use super::sample::sample;
use super::tools::weight;
use crate::HashMap;
use crate::schema::{self, MAX_FINDINGS, NarrowingRule, RemainingComparisonBudget, SchemaNarrowing};

static ANYTHING: Value = Value::Bool(true);
static NOTHING: Value = Value::Bool(false);

/// Limit of the total size of all argument comparisons, as a multiple of the schemas' size.
const MOST_PARTS: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct SchemaPair<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
}

/// Calls that only the old input schema accepts, and calls that only the new one accepts.
#[derive(Default)]
pub(super) struct AcceptanceChanges {
    pub(super) narrowed: Vec<SchemaNarrowing>,
    pub(super) widened: Vec<SchemaNarrowing>,
}

/// Cache of argument comparisons, shared by all tools of a manifest.
#[derive(Default)]
pub(super) struct ComparisonCache<'a> {
    known: HashMap<ArgumentSchemaPair<'a>, Rc<[SchemaNarrowing]>>,
}

impl<'a> ComparisonCache<'a> {
    /// Finds the refused calls in both directions, with the same budget for each direction.
    pub(super) fn refusals(
        &mut self,
        pair: SchemaPair<'a>,
        reduced: &ReducedSchemas<'_>,
        effort: RemainingComparisonBudget,
    ) -> AcceptanceChanges {
        let taken = SeparableSchema::of(pair.old).zip(SeparableSchema::of(pair.new));
        let back = SchemaPair { old: pair.new, new: pair.old };
        let (forth_parts, back_parts) = match &taken {
            Some((old, new)) => (split(old, new, pair), split(new, old, back)),
            None => (None, None),
        };
        AcceptanceChanges {
            narrowed: match forth_parts {
                Some(parts) => self.each(pair, parts, effort),
                None => wholes(pair, reduced, effort),
            },
            widened: match back_parts {
                Some(parts) => self.each(back, parts, effort),
                None => wholes(back, &reduced.turned(), effort),
            },
        }
    }

    fn each(
        &mut self,
        pair: SchemaPair<'a>,
        parts: ArgumentComparisonPlan<'a>,
        mut effort: RemainingComparisonBudget,
    ) -> Vec<SchemaNarrowing> {
        let ArgumentComparisonPlan { plain, parts, samples } = parts;
        let mut found = plain;
        for (argument, part) in parts {
            if found.len() >= MAX_FINDINGS {
                break;
            }
            let gone = argument.is_some_and(|name| !part.new.properties.iter().any(|(named, _)| *named == name));
            for finding in self.one(part, &mut effort).iter() {
                let mut finding = finding.clone();
                let order = match argument {
                    Some(name) if finding.pointer.starts_with("/required/") => {
                        let at = required_at(pair.new, name);
                        finding.pointer = format!("/required/{at}");
                        FindingOrder::Missed(at)
                    }
                    Some(name) if gone => FindingOrder::Gone(name),
                    Some(name) => FindingOrder::Changed(name),
                    None => FindingOrder::Others,
                };
                restore(&mut finding, pair);
                if let Some(Value::Object(arguments)) = &mut finding.witness {
                    let others = samples.iter().filter(|(name, _)| Some(*name) != argument);
                    arguments.extend(others.map(|(name, value)| ((*name).to_owned(), value.clone())));
                }
                found.push((order, finding));
            }
        }
        // Findings about an invalid schema replace all others, because it neither accepts nor refuses anything.
        let is_invalid = |finding: &SchemaNarrowing| finding.rule == NarrowingRule::SchemaInvalid;
        if found.iter().any(|(_, finding)| is_invalid(finding)) {
            found.retain(|(_, finding)| is_invalid(finding));
        }
        found.sort_by_key(|(order, _)| *order);
        found.truncate(MAX_FINDINGS);
        found.into_iter().map(|(_, finding)| finding).collect()
    }

    fn one(&mut self, part: ArgumentSchemaPair<'a>, effort: &mut RemainingComparisonBudget) -> Rc<[SchemaNarrowing]> {
        let unknown = match self.known.entry(part) {
            Entry::Occupied(known) => return Rc::clone(known.get()),
            Entry::Vacant(unknown) => unknown,
        };
        let ArgumentSchemaPair { old, new } = unknown.key();
        let found: Rc<[SchemaNarrowing]> = schema::compare_within(&old.schema(), &new.schema(), effort).findings.into();
        // An undecided result is not cached: another tool may have more steps left for it.
        if found.iter().all(|finding| finding.witness.is_some()) {
            unknown.insert(Rc::clone(&found));
        }
        found
    }
}

fn wholes(
    pair: SchemaPair<'_>,
    reduced: &ReducedSchemas<'_>,
    mut effort: RemainingComparisonBudget,
) -> Vec<SchemaNarrowing> {
    let found = schema::compare_within(reduced.old.as_ref(), reduced.new.as_ref(), &mut effort).findings;
    found.into_iter().map(|finding| reduced.whole(finding, pair)).collect()
}

/// Index of an argument in the schema's `required` list.
fn required_at(schema: &Value, name: &str) -> usize {
    let names = schema.get("required").and_then(Value::as_array);
    names.and_then(|names| names.iter().position(|required| required == name)).unwrap_or_default()
}

/// Position of a finding in the report, in the order of the keywords in a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FindingOrder<'a> {
    Gone(&'a str),
    Others,
    Changed(&'a str),
    Missed(usize),
}

struct ArgumentComparisonPlan<'a> {
    /// Findings that need no search: an argument that was removed or became required.
    plain: Vec<(FindingOrder<'a>, SchemaNarrowing)>,
    /// Comparisons by argument; `None` stands for all argument names that are not listed.
    parts: Vec<(Option<&'a str>, ArgumentSchemaPair<'a>)>,
    /// Required arguments with one valid value each.
    samples: Vec<(&'a str, Value)>,
}

/// Both schemas' constraints on one argument.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ArgumentSchemaPair<'a> {
    old: ArgumentSchema<'a>,
    new: ArgumentSchema<'a>,
}

/// One schema's constraints on one argument, and on the required arguments that cannot be left out.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct ArgumentSchema<'a> {
    properties: Vec<(&'a str, &'a Value)>,
    required: Vec<&'a str>,
    others: Option<&'a Value>,
    definitions: Option<&'a Value>,
}

impl ArgumentSchema<'_> {
    fn schema(&self) -> Value {
        let mut schema = Map::new();
        let properties = self.properties.iter().map(|(name, schema)| ((*name).to_owned(), (*schema).clone()));
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), Value::Object(properties.collect()));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.iter().copied().collect());
        }
        if let Some(others) = self.others {
            schema.insert("additionalProperties".to_owned(), others.clone());
        }
        if let Some(definitions) = self.definitions {
            schema.insert("$defs".to_owned(), definitions.clone());
        }
        Value::Object(schema)
    }

    fn weight(&self) -> usize {
        let schemas = self.properties.iter().map(|(_, schema)| *schema).chain(self.definitions);
        schemas.map(weight).sum::<usize>() + self.required.len()
    }
}

/// A schema whose arguments can be compared independently.
struct SeparableSchema<'a> {
    properties: Option<&'a Map<String, Value>>,
    required: BTreeSet<&'a str>,
    others: Option<&'a Value>,
    definitions: Option<&'a Value>,
}

impl<'a> SeparableSchema<'a> {
    fn of(schema: &'a Value) -> Option<Self> {
        let map = schema.as_object()?;
        if !map.iter().all(|(name, value)| is_one_by_one(name, value)) {
            return None;
        }
        let mut taken = Self {
            properties: None,
            required: BTreeSet::new(),
            others: map.get("additionalProperties"),
            definitions: map.get("$defs"),
        };
        if let Some(properties) = map.get("properties") {
            taken.properties = Some(properties.as_object()?);
        }
        if let Some(names) = map.get("required") {
            for name in names.as_array()? {
                if !taken.required.insert(name.as_str()?) {
                    return None;
                }
            }
        }
        (map.contains_key("type") && refers_to_definitions_only(map)).then_some(taken)
    }

    fn is_closed(&self) -> bool {
        self.others == Some(&NOTHING)
    }

    fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
    }

    /// The schema's constraint on an argument of this name; `None` if no such argument is allowed.
    fn constraint(&self, name: &str) -> Option<&'a Value> {
        let listed = self.properties.and_then(|properties| properties.get(name));
        listed.or_else(|| (!self.is_closed()).then_some(&ANYTHING))
    }

    /// The schema restricted to these arguments.
    fn half(&self, properties: Vec<(&'a str, &'a Value)>, required: Vec<&'a str>) -> ArgumentSchema<'a> {
        let definitions = self.definitions.filter(|_| properties.iter().any(|(_, schema)| refers(schema)));
        ArgumentSchema { properties, required, others: Some(&NOTHING), definitions }
    }
}

/// Whether a schema keyword constrains arguments independently, or constrains nothing.
fn is_one_by_one(keyword: &str, value: &Value) -> bool {
    match keyword {
        "$defs" | "properties" | "required" => true,
        "additionalProperties" => value.is_boolean(),
        "type" => value == "object",
        "$schema" => value == "https://json-schema.org/draft/2020-12/schema",
        _ => is_annotation(keyword, value),
    }
}

/// Whether a schema keyword is well-formed and constrains nothing.
fn is_annotation(keyword: &str, value: &Value) -> bool {
    match keyword {
        "default" => true,
        "$comment" | "contentEncoding" | "contentMediaType" | "description" | "format" | "title" => value.is_string(),
        "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "examples" => value.is_array(),
        _ => false,
    }
}

/// A valid value of a schema without subschemas, if one is obvious.
fn plain_sample(schema: &Value) -> Option<Value> {
    let flat = |(keyword, value): (&String, &Value)| match keyword.as_str() {
        "const" | "enum" | "maxLength" | "maximum" | "minLength" | "minimum" | "type" => true,
        other => is_annotation(other, value),
    };
    schema.as_object()?.iter().all(flat).then(|| sample(schema))?
}

/// Splits two schemas by argument; `None` if the parts would be too large.
fn split<'a>(
    old: &SeparableSchema<'a>,
    new: &SeparableSchema<'a>,
    pair: SchemaPair<'_>,
) -> Option<ArgumentComparisonPlan<'a>> {
    let same_definitions = old.definitions == new.definitions;
    let mut samples = Vec::new();
    // Required arguments without an obvious valid value cannot be left out of the comparison.
    let mut fixed = Vec::new();
    for name in &old.required {
        let schema = old.constraint(name).unwrap_or(&NOTHING);
        match sample(schema) {
            Some(value) => samples.push((*name, value)),
            None => fixed.push((*name, schema)),
        }
    }
    let mut split =
        ArgumentComparisonCollector { parts: Vec::new(), room: MOST_PARTS * (weight(pair.old) + weight(pair.new)) };
    let mut plain = Vec::new();
    let written: BTreeSet<&str> = old.names().chain(new.names()).collect();
    for name in new.required.iter().filter(|name| !old.required.contains(*name)).take(MAX_FINDINGS) {
        if fixed.is_empty() {
            let at = required_at(pair.new, name);
            let witness = samples.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let finding = SchemaNarrowing {
                rule: NarrowingRule::RequiredAdded,
                pointer: format!("/required/{at}"),
                old: pair.old.get("required").cloned(),
                new: pair.new.get("required").cloned(),
                witness: Some(Value::Object(witness.collect())),
            };
            plain.push((FindingOrder::Missed(at), finding));
        } else {
            split.add(Some(name), old.half(fixed.clone(), names_of(&fixed)), new.half(anything(&fixed), vec![name]))?;
        }
    }
    for name in &written {
        let Some(before) = old.constraint(name) else { continue };
        let after = new.constraint(name);
        let same = after == Some(before) && (same_definitions || !refers(before));
        if same || after == Some(&ANYTHING) {
            continue;
        }
        if plain.len() >= 2 * MAX_FINDINGS {
            break;
        }
        if after.is_none()
            && fixed.is_empty()
            && let Some(value) = plain_sample(before)
        {
            let others = samples.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let finding = SchemaNarrowing {
                rule: NarrowingRule::PropertyRefused,
                pointer: pointer("/properties", name),
                old: Some(before.clone()),
                new: None,
                witness: Some(Value::Object(others.chain([((*name).to_owned(), value)]).collect())),
            };
            plain.push((FindingOrder::Gone(name), finding));
            continue;
        }
        let others: Vec<(&str, &Value)> = fixed.iter().filter(|(other, _)| other != name).copied().collect();
        let required = names_of(&others).into_iter().chain(old.required.get(name).copied()).collect();
        let (mut old_ones, mut new_ones) = (others.clone(), anything(&others));
        old_ones.push((name, before));
        new_ones.extend(after.map(|after| (*name, after)));
        split.add(Some(name), old.half(old_ones, required), new.half(new_ones, Vec::new()))?;
    }
    if !old.is_closed() && new.is_closed() {
        // The comparison of unlisted names includes the arguments that cannot be left out.
        let mut named: Vec<(&str, &Value)> = written.iter().map(|name| (*name, &NOTHING)).collect();
        named.retain(|(name, _)| !old.required.contains(name) || !fixed.iter().any(|(other, _)| other == name));
        let before = old.half([named.as_slice(), &fixed].concat(), names_of(&fixed));
        let after = new.half([named, anything(&fixed)].concat(), Vec::new());
        split.add(None, ArgumentSchema { others: old.others, ..before }, after)?;
    }
    let needed =
        |of: fn(&ArgumentSchemaPair<'a>) -> Option<&'a Value>| split.parts.iter().any(|(_, part)| of(part).is_some());
    let unneeded_old = old.definitions.is_some() && !needed(|part| part.old.definitions);
    let unneeded_new = new.definitions.is_some() && !needed(|part| part.new.definitions);
    if !same_definitions && (unneeded_old || unneeded_new) {
        // Unused definitions are still checked to be valid schemas.
        let half = |definitions| ArgumentSchema { definitions, ..ArgumentSchema::default() };
        split.add(None, half(old.definitions), half(new.definitions))?;
    }
    Some(ArgumentComparisonPlan { plain, parts: split.parts, samples })
}

fn names_of<'a>(arguments: &[(&'a str, &'a Value)]) -> Vec<&'a str> {
    arguments.iter().map(|(name, _)| *name).collect()
}

/// The same arguments without their constraints.
fn anything<'a>(arguments: &[(&'a str, &'a Value)]) -> Vec<(&'a str, &'a Value)> {
    arguments.iter().map(|(name, _)| (*name, &ANYTHING)).collect()
}

/// Collects argument comparisons up to the size limit.
struct ArgumentComparisonCollector<'a> {
    parts: Vec<(Option<&'a str>, ArgumentSchemaPair<'a>)>,
    room: usize,
}

impl<'a> ArgumentComparisonCollector<'a> {
    fn add(&mut self, argument: Option<&'a str>, old: ArgumentSchema<'a>, new: ArgumentSchema<'a>) -> Option<()> {
        self.room = self.room.checked_sub(old.weight() + new.weight())?;
        self.parts.push((argument, ArgumentSchemaPair { old, new }));
        Some(())
    }
}
