//! Comparison of two schemas location by location, for the rules that depend on the text of a schema rather than on
//! the values it accepts.
//!
//! A location is everything that constrains one part of the arguments: a schema, the schemas it refers to, and all of
//! its `allOf`. So a schema that is only rearranged has the same locations.

use std::collections::{BTreeSet, VecDeque};

use nuncio_core::json::pointer;
use serde_json::Value;

use super::NonBreakingChangeRule;
use super::reduce::refers;
use super::schema_index::SchemaAnchorIndex;
use crate::HashSet;

/// Limit of visited schema locations and compared branches per comparison.
const MAX_STEPS: usize = 50_000;

/// JSON Schema keywords that constrain nothing.
pub(super) const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];
/// JSON Schema keywords whose subschemas all apply to the same part of the value.
const TOGETHER: [&str; 5] =
    ["additionalProperties", "items", "propertyNames", "unevaluatedItems", "unevaluatedProperties"];
/// JSON Schema keywords with named subschemas that all apply to the same part of the value.
const NAMED: [&str; 3] = ["dependentSchemas", "patternProperties", "properties"];
/// JSON Schema keywords whose subschemas apply alternatively or conditionally.
const APART: [&str; 7] = ["anyOf", "contains", "else", "if", "not", "oneOf", "then"];

#[derive(Default)]
pub(super) struct SchemaDifferences {
    /// Schema locations with a different `type`.
    pub(super) types: Vec<SchemaDifference>,
    /// Schema locations with different annotations.
    pub(super) notices: Vec<(NonBreakingChangeRule, SchemaDifference)>,
    /// Whether the comparison reached its limit of steps.
    pub(super) exhausted: bool,
}

/// Selects the old or the new schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldOrNewSchema {
    Old,
    New,
}

impl OldOrNewSchema {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Old => Self::New,
            Self::New => Self::Old,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SchemaDifference {
    pub(super) pointer: String,
    /// The schema that `pointer` points into: the new one, or the old one if the location was removed.
    pub(super) side: OldOrNewSchema,
    pub(super) old: Option<Value>,
    pub(super) new: Option<Value>,
}

impl SchemaDifference {
    /// A difference at a location of the new schema.
    pub(super) fn new_at(pointer: &str) -> Self {
        Self { pointer: pointer.to_owned(), side: OldOrNewSchema::New, old: None, new: None }
    }
}

pub(super) fn compare(old: &Value, new: &Value) -> SchemaDifferences {
    let (old, new) = (SchemaAnchorIndex::new(old), SchemaAnchorIndex::new(new));
    let todo = vec![(flat(&old, [ApplicableSchema::root(&old)]), flat(&new, [ApplicableSchema::root(&new)]))];
    let mut walk = SchemaDifferenceFinder {
        old,
        new,
        todo,
        seen: HashSet::default(),
        steps: 0,
        found: SchemaDifferences::default(),
    };
    while let Some((old, new)) = walk.todo.pop() {
        walk.visit(&old, &new);
    }
    walk.found.types.sort_by(|one, other| one.pointer.cmp(&other.pointer));
    walk.found.notices.sort_by(|one, other| one.1.pointer.cmp(&other.1.pointer));
    walk.found
}

/// One of the schemas that apply at a location.
#[derive(Clone)]
struct ApplicableSchema<'a> {
    location: String,
    schema: &'a Value,
}

impl<'a> ApplicableSchema<'a> {
    fn root(document: &SchemaAnchorIndex<'a>) -> Self {
        Self { location: String::new(), schema: document.root() }
    }
}

type ApplicableSchemas<'a> = Vec<ApplicableSchema<'a>>;

/// Collects all schemas that apply at the location of the given ones, following references and `allOf`.
fn flat<'a>(
    document: &SchemaAnchorIndex<'a>,
    layers: impl IntoIterator<Item = ApplicableSchema<'a>>,
) -> ApplicableSchemas<'a> {
    let mut location: ApplicableSchemas<'a> = Vec::new();
    let mut waiting: VecDeque<ApplicableSchema<'a>> = layers.into_iter().collect();
    while let Some(layer) = waiting.pop_front() {
        if location.iter().any(|known| std::ptr::eq(known.schema, layer.schema)) {
            continue;
        }
        for keyword in ["$ref", "$dynamicRef"] {
            let target = layer.schema.get(keyword).and_then(Value::as_str);
            let target = target.and_then(|target| document.resolve(target));
            waiting.extend(target.map(|(location, schema)| ApplicableSchema { location, schema }));
        }
        waiting.extend(branches(&layer, "allOf"));
        location.push(layer);
    }
    location
}

/// The subschemas under a keyword that holds one schema or a list of them.
fn branches<'a>(layer: &ApplicableSchema<'a>, keyword: &str) -> ApplicableSchemas<'a> {
    let location = || pointer(&layer.location, keyword);
    match layer.schema.get(keyword) {
        Some(Value::Array(items)) => {
            let location = location();
            let item = |(index, schema)| ApplicableSchema { location: format!("{location}/{index}"), schema };
            items.iter().enumerate().map(item).collect()
        }
        Some(schema) => vec![ApplicableSchema { location: location(), schema }],
        None => Vec::new(),
    }
}

struct SchemaDifferenceFinder<'a> {
    old: SchemaAnchorIndex<'a>,
    new: SchemaAnchorIndex<'a>,
    /// Pairs of locations still to compare. A list, because references can chain deeper than the stack.
    todo: Vec<(ApplicableSchemas<'a>, ApplicableSchemas<'a>)>,
    seen: HashSet<(Vec<usize>, Vec<usize>)>,
    steps: usize,
    found: SchemaDifferences,
}

impl<'a> SchemaDifferenceFinder<'a> {
    fn visit(&mut self, old: &ApplicableSchemas<'a>, new: &ApplicableSchemas<'a>) {
        if !self.step() {
            return self.todo.clear();
        }
        // Without references, equal text means equal schemas.
        if let ([old], [new]) = (old.as_slice(), new.as_slice())
            && old.schema == new.schema
            && !(self.refers() && refers(old.schema))
        {
            return;
        }
        let refuses =
            |location: &ApplicableSchemas<'_>| location.iter().any(|layer| *layer.schema == Value::Bool(false));
        let key = |location: &ApplicableSchemas<'_>| {
            let mut key: Vec<usize> = location.iter().map(|layer| std::ptr::from_ref(layer.schema).addr()).collect();
            key.sort_unstable();
            key
        };
        if refuses(old) || refuses(new) || !self.seen.insert((key(old), key(new))) {
            return;
        }
        self.types(old, new);
        self.annotations(old, new);
        for keyword in TOGETHER {
            // For unnamed parts, the schema `true` is the same as an absent schema.
            let constrains = |layer: &ApplicableSchema<'_>| *layer.schema != Value::Bool(true);
            self.together(old, new, |layer| branches(layer, keyword).into_iter().filter(constrains).collect());
        }
        for keyword in NAMED {
            self.named(old, new, keyword);
        }
        self.tuple(old, new);
        for keyword in APART {
            let all =
                |location: &ApplicableSchemas<'a>| location.iter().flat_map(|layer| branches(layer, keyword)).collect();
            self.apart(all(old), all(new));
        }
    }

    fn refers(&self) -> bool {
        self.old.refers() || self.new.refers()
    }

    fn step(&mut self) -> bool {
        self.steps += 1;
        self.found.exhausted |= self.steps > MAX_STEPS;
        !self.found.exhausted
    }

    /// Applies the specification's rule "type of a field changed". Order and array notation are not a change.
    fn types(&mut self, old: &ApplicableSchemas<'a>, new: &ApplicableSchemas<'a>) {
        if types(old) == types(new) {
            return;
        }
        let declared = |location: &ApplicableSchemas<'a>| {
            let mut declared =
                location.iter().filter_map(|layer| Some((layer.location.clone(), layer.schema.get("type")?)));
            declared.next()
        };
        let (before, after) = (declared(old), declared(new));
        let Some((location, _)) = after.as_ref().or(before.as_ref()) else { return };
        self.found.types.push(SchemaDifference {
            pointer: pointer(location, "type"),
            side: if after.is_some() { OldOrNewSchema::New } else { OldOrNewSchema::Old },
            old: before.map(|(_, declared)| declared.clone()),
            new: after.map(|(_, declared)| declared.clone()),
        });
    }

    fn annotations(&mut self, old: &ApplicableSchemas<'a>, new: &ApplicableSchemas<'a>) {
        let annotations = ANNOTATIONS.into_iter().map(|keyword| (keyword, NonBreakingChangeRule::AnnotationChanged));
        for (keyword, rule) in annotations.chain([("format", NonBreakingChangeRule::FormatChanged)]) {
            let declared = |location: &ApplicableSchemas<'a>| -> Vec<(String, &'a Value)> {
                location.iter().filter_map(|layer| Some((layer.location.clone(), layer.schema.get(keyword)?))).collect()
            };
            let (before, after) = (declared(old), declared(new));
            let has = |all: &[(String, &Value)], one: &Value| all.iter().any(|(_, other)| *other == one);
            let removed = before.iter().find(|(_, declared)| !has(&after, declared));
            let added = after.iter().find(|(_, declared)| !has(&before, declared));
            let Some((location, _)) = added.or(removed) else { continue };
            let difference = SchemaDifference {
                pointer: pointer(location, keyword),
                side: if added.is_some() { OldOrNewSchema::New } else { OldOrNewSchema::Old },
                old: removed.map(|(_, declared)| (*declared).clone()),
                new: added.map(|(_, declared)| (*declared).clone()),
            };
            self.found.notices.push((rule, difference));
        }
    }

    fn together(
        &mut self,
        old: &ApplicableSchemas<'a>,
        new: &ApplicableSchemas<'a>,
        inner: impl Fn(&ApplicableSchema<'a>) -> ApplicableSchemas<'a>,
    ) {
        let before: ApplicableSchemas<'a> = old.iter().flat_map(&inner).collect();
        let after: ApplicableSchemas<'a> = new.iter().flat_map(&inner).collect();
        if !before.is_empty() && !after.is_empty() {
            self.todo.push((flat(&self.old, before), flat(&self.new, after)));
        }
    }

    fn named(&mut self, old: &ApplicableSchemas<'a>, new: &ApplicableSchemas<'a>, keyword: &str) {
        let members = |location: &ApplicableSchemas<'a>| -> BTreeSet<&'a str> {
            let maps = location.iter().filter_map(|layer| layer.schema.get(keyword)?.as_object());
            maps.flat_map(|map| map.keys().map(String::as_str)).collect()
        };
        for name in members(old).intersection(&members(new)) {
            self.together(old, new, |layer| {
                let schema = layer.schema.get(keyword).and_then(|map| map.get(name));
                let location = || pointer(&pointer(&layer.location, keyword), name);
                schema.map(|schema| ApplicableSchema { location: location(), schema }).into_iter().collect()
            });
        }
    }

    fn tuple(&mut self, old: &ApplicableSchemas<'a>, new: &ApplicableSchemas<'a>) {
        let length = |location: &ApplicableSchemas<'a>| {
            let lists = location.iter().filter_map(|layer| layer.schema.get("prefixItems")?.as_array());
            lists.map(Vec::len).max().unwrap_or(0)
        };
        for index in 0..length(old).min(length(new)) {
            self.together(old, new, |layer| {
                branches(layer, "prefixItems").into_iter().nth(index).into_iter().collect()
            });
        }
    }

    /// Pairs alternatives of both schemas, which have no names: equal ones first, then by type, then by order.
    fn apart(&mut self, mut old: ApplicableSchemas<'a>, mut new: ApplicableSchemas<'a>) {
        let mut pairs = Vec::new();
        self.pair(&mut old, &mut new, &mut pairs, |_, old, new| old.schema == new.schema);
        if !self.refers() {
            pairs.clear();
        }
        self.pair(&mut old, &mut new, &mut pairs, |walk, old, new| {
            types(&flat(&walk.old, [old.clone()])) == types(&flat(&walk.new, [new.clone()]))
        });
        pairs.extend(old.into_iter().zip(new));
        for (old, new) in pairs {
            self.todo.push((flat(&self.old, [old]), flat(&self.new, [new])));
        }
    }

    fn pair(
        &mut self,
        old: &mut ApplicableSchemas<'a>,
        new: &mut ApplicableSchemas<'a>,
        pairs: &mut Vec<(ApplicableSchema<'a>, ApplicableSchema<'a>)>,
        fit: impl Fn(&Self, &ApplicableSchema<'a>, &ApplicableSchema<'a>) -> bool,
    ) {
        for layer in std::mem::take(old) {
            let found = new.iter().position(|other| self.step() && fit(self, &layer, other));
            match found {
                Some(index) => pairs.push((layer, new.remove(index))),
                None => old.push(layer),
            }
        }
    }
}

/// The JSON types that a schema location allows; `None` if it names none.
fn types<'a>(location: &ApplicableSchemas<'a>) -> Option<BTreeSet<&'a str>> {
    let mut all: Option<BTreeSet<&str>> = None;
    for declared in location.iter().filter_map(|layer| layer.schema.get("type")) {
        let declared: BTreeSet<&str> = match declared {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        all = Some(all.map_or_else(|| declared.clone(), |before| common(&before, &declared)));
    }
    all
}

/// Intersection of two sets of JSON types, where an integer is also a number.
fn common<'a>(one: &BTreeSet<&'a str>, other: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut both: BTreeSet<&str> = one.intersection(other).copied().collect();
    let whole = |some: &BTreeSet<&str>, others: &BTreeSet<&str>| some.contains("integer") && others.contains("number");
    if whole(one, other) || whole(other, one) {
        both.insert("integer");
    }
    if both.contains("number") {
        both.remove("integer");
    }
    both
}
