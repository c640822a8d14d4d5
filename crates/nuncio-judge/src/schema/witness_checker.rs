//! Confirmation of witnesses by a real validator: only a confirmed value counts as a witness.

use std::cell::OnceCell;

use jsonschema::{Draft, PatternOptions, Validator};
use nuncio_core::schema::keywords::{LIST, ONE};
use nuncio_core::schema::{MAX_DEPTH, depth};
use serde_json::Value;

use super::document::{SchemaDocument, SchemaLocation, SchemaReferenceTarget, is_map};
use crate::HashMap;

/// Limit of backtracking steps per pattern in the validator.
const BACKTRACKS: usize = 20_000;
/// Limit of schemas that a validator may have to visit per value, with references followed.
const MAX_WEIGHT: u64 = 100_000;
/// Limit of nested schemas for the validator, with references followed.
const MAX_CHAIN: usize = 150;

/// Limit of values that are tried as witnesses.
pub(crate) const MOST_TRIES: usize = 600;

/// Both schemas, compiled for the validator when first needed.
pub(crate) struct WitnessChecker<'a> {
    old: &'a Value,
    new: &'a Value,
    circular: bool,
    compiled: OnceCell<Option<CompiledValidators>>,
}

struct CompiledValidators {
    old: Validator,
    new: Validator,
    weight: u64,
}

impl<'a> WitnessChecker<'a> {
    /// A checker of witnesses for two schemas. It confirms none if a validator could exhaust stack or time on them.
    pub(crate) fn new(old: &'a Value, new: &'a Value, circular: bool) -> Self {
        Self { old, new, circular, compiled: OnceCell::new() }
    }

    fn compiled(&self) -> Option<&CompiledValidators> {
        let compile_both = || {
            if self.circular {
                return None;
            }
            let weight = weight(&SchemaDocument::new(self.old)).max(weight(&SchemaDocument::new(self.new)));
            if weight > MAX_WEIGHT {
                return None;
            }
            Some(CompiledValidators { old: compile(self.old)?, new: compile(self.new)?, weight })
        };
        self.compiled.get_or_init(compile_both).as_ref()
    }

    /// Number of values that may be tried as witnesses: fewer for larger schemas, none if a schema does not compile.
    pub(crate) fn patience(&self) -> usize {
        let tries = |compiled: &CompiledValidators| {
            usize::try_from(200_000 / compiled.weight.max(1)).unwrap_or(0).clamp(20, MOST_TRIES)
        };
        self.compiled().map_or(0, tries)
    }

    /// Whether the old schema accepts the value and the new one refuses it.
    pub(crate) fn confirms(&self, value: &Value) -> bool {
        depth(value) <= MAX_DEPTH
            && self.compiled().is_some_and(|both| both.old.is_valid(value) && !both.new.is_valid(value))
    }
}

fn compile(schema: &Value) -> Option<Validator> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS))
        .build(schema)
        .ok()
}

/// Estimate of the schemas that a validator visits per value, with references followed; `u64::MAX` if they nest deeper
/// than [`MAX_CHAIN`].
fn weight(document: &SchemaDocument<'_>) -> u64 {
    SchemaWeightEstimator { document, known: HashMap::default() }.weigh(SchemaLocation::ROOT, document.root, 0)
}

struct SchemaWeightEstimator<'d, 'a> {
    document: &'d SchemaDocument<'a>,
    /// Weights of referenced schemas; 1 while being computed, because a cycle descends into the value.
    known: HashMap<String, u64>,
}

impl SchemaWeightEstimator<'_, '_> {
    fn weigh(&mut self, location: SchemaLocation<'_>, schema: &Value, nested: usize) -> u64 {
        let Value::Object(map) = schema else { return 1 };
        if nested > MAX_CHAIN {
            return u64::MAX;
        }
        let mut sum = 1u64;
        for (keyword, value) in map {
            let at = SchemaLocation::Named(&location, keyword);
            let more = match value {
                Value::Array(list) if LIST.contains(&keyword.as_str()) => list
                    .iter()
                    .enumerate()
                    .map(|(index, schema)| self.weigh(SchemaLocation::Numbered(&at, index), schema, nested + 1))
                    .fold(0, u64::saturating_add),
                Value::Object(members) if is_map(keyword) && !keyword.starts_with('$') && keyword != "definitions" => {
                    members
                        .iter()
                        .map(|(name, schema)| self.weigh(SchemaLocation::Named(&at, name), schema, nested + 1))
                        .fold(0, u64::saturating_add)
                }
                Value::Object(_) if ONE.contains(&keyword.as_str()) => self.weigh(at, value, nested + 1),
                Value::String(reference) if matches!(keyword.as_str(), "$ref" | "$dynamicRef") => {
                    self.target(reference, location, nested)
                }
                _ => 0,
            };
            sum = sum.saturating_add(more);
        }
        // With these keywords, validators evaluate a schema again to find which parts its branches evaluated.
        let looks =
            if map.contains_key("unevaluatedProperties") || map.contains_key("unevaluatedItems") { 3 } else { 1 };
        sum.saturating_mul(looks)
    }

    fn target(&mut self, reference: &str, location: SchemaLocation<'_>, nested: usize) -> u64 {
        let Some(SchemaReferenceTarget::Here(at, schema)) = self.document.resolve(reference, location) else {
            return 1;
        };
        if let Some(weight) = self.known.get(&at) {
            return *weight;
        }
        self.known.insert(at.clone(), 1);
        let weight = self.weigh(SchemaLocation::At(&at), schema, nested + 1);
        self.known.insert(at, weight);
        weight
    }
}
