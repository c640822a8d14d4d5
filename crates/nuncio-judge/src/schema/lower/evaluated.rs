//! Translates `unevaluatedProperties` and `unevaluatedItems`. The unevaluated parts depend on which branches are valid,
//! so each combination of branches becomes a case.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{ConstraintTranslator, END, LocatedSchema, MalformedSchemaPart, SchemaSide};
use crate::schema::document::{SchemaLocation, SchemaReferenceTarget};
use crate::schema::node::ConstraintLiteral;

/// Limit of combinations of branches per schema.
const MAX_CASES: usize = 128;

/// Limit of schemas examined for `unevaluatedProperties` and `unevaluatedItems` per comparison.
const MAX_ASKED: u32 = 4_000;

/// Reason why the combinations of branches of a schema cannot be listed.
enum EvaluatedPartsError {
    Malformed(MalformedSchemaPart),
    TooMany,
}

impl From<MalformedSchemaPart> for EvaluatedPartsError {
    fn from(malformed: MalformedSchemaPart) -> Self {
        Self::Malformed(malformed)
    }
}

/// The parts of a value that other keywords evaluate, and the condition under which they do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct EvaluatedPartsCase {
    when: BTreeSet<ConstraintLiteral>,
    names: BTreeSet<String>,
    patterns: BTreeSet<ConstraintLiteral>,
    all_names: bool,
    prefix: u64,
    items: BTreeSet<ConstraintLiteral>,
    all_items: bool,
}

impl EvaluatedPartsCase {
    fn when(condition: ConstraintLiteral) -> Self {
        Self { when: BTreeSet::from([condition]), ..Self::default() }
    }

    fn merged(&self, other: &Self) -> Self {
        fn both<T: Ord + Clone>(left: &BTreeSet<T>, right: &BTreeSet<T>) -> BTreeSet<T> {
            left.union(right).cloned().collect()
        }
        Self {
            when: both(&self.when, &other.when),
            names: both(&self.names, &other.names),
            patterns: both(&self.patterns, &other.patterns),
            all_names: self.all_names || other.all_names,
            prefix: self.prefix.max(other.prefix),
            items: both(&self.items, &other.items),
            all_items: self.all_items || other.all_items,
        }
    }

    fn saw_nothing(&self) -> bool {
        Self { when: BTreeSet::new(), ..self.clone() } == Self::default()
    }
}

impl ConstraintTranslator<'_> {
    pub(super) fn unevaluated(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
    ) -> Result<ConstraintLiteral, MalformedSchemaPart> {
        let what = self.at(site, keyword)?;
        let cases = match self.cases(site, true) {
            Ok(cases) => cases,
            Err(EvaluatedPartsError::Malformed(malformed)) => return Err(malformed),
            Err(EvaluatedPartsError::TooMany) => {
                let text = format!("{:?} {} {keyword}", site.side, site.location.text());
                return Ok(self.pool.opaque(text));
            }
        };
        let mut parts = Vec::new();
        for case in cases {
            let rest = if keyword == "unevaluatedProperties" {
                if case.all_names {
                    continue;
                }
                let names: Vec<Value> = case.names.iter().map(|name| Value::from(name.as_str())).collect();
                let names = self.pool.values_of(&names);
                let others = std::iter::once(!names).chain(case.patterns.iter().map(|pattern| !*pattern));
                let name = self.pool.and(others);
                self.each(name, what)
            } else {
                if case.all_items {
                    continue;
                }
                let fits = self.pool.or(std::iter::once(what).chain(case.items.iter().copied()));
                self.all_items(case.prefix, END, fits)
            };
            let either = case.when.iter().map(|condition| !*condition).chain([rest]);
            parts.push(self.pool.or(either));
        }
        Ok(self.pool.and(parts))
    }

    fn cases(&mut self, site: LocatedSchema<'_>, asking: bool) -> Result<Vec<EvaluatedPartsCase>, EvaluatedPartsError> {
        self.asked += 1;
        if self.depth >= super::MAX_DEPTH || self.asked > MAX_ASKED {
            return Err(EvaluatedPartsError::TooMany);
        }
        self.depth += 1;
        let cases = self.cases_of(site, asking);
        self.depth -= 1;
        cases
    }

    fn cases_of(
        &mut self,
        site: LocatedSchema<'_>,
        asking: bool,
    ) -> Result<Vec<EvaluatedPartsCase>, EvaluatedPartsError> {
        let has = |keyword| site.map.contains_key(keyword);
        let mut fixed = EvaluatedPartsCase { prefix: site.prefix(), ..EvaluatedPartsCase::default() };
        if has("properties") {
            fixed.names = site.members("properties")?.keys().cloned().collect();
        }
        if has("patternProperties") {
            fixed.patterns = site.members("patternProperties")?.keys().map(|text| self.pool.pattern(text)).collect();
        }
        if has("contains") {
            fixed.items.insert(self.at(site, "contains")?);
        }
        fixed.all_names = has("additionalProperties") || (has("unevaluatedProperties") && !asking);
        fixed.all_items = has("items") || (has("unevaluatedItems") && !asking);
        if has("dependencies") {
            return Err(EvaluatedPartsError::TooMany);
        }
        let mut cases = vec![fixed];
        for keyword in ["$ref", "$dynamicRef"] {
            if let Some(reference) = site.map.get(keyword).and_then(Value::as_str) {
                let document = self.document(site.side);
                if keyword == "$dynamicRef" && document.is_compound() {
                    return Err(EvaluatedPartsError::TooMany);
                }
                let Some(SchemaReferenceTarget::Here(location, schema)) = document.resolve(reference, site.location)
                else {
                    return Err(EvaluatedPartsError::TooMany);
                };
                let inner = self.inner(site.side, SchemaLocation::At(&location), schema)?;
                cases = product(&cases, &inner)?;
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            if !has(keyword) {
                continue;
            }
            let mut exactly_one = Vec::new();
            for (index, schema) in site.list(keyword)?.iter().enumerate() {
                let list = SchemaLocation::Named(&site.location, keyword);
                let location = SchemaLocation::Numbered(&list, index);
                let inner = self.inner(site.side, location, schema)?;
                if keyword == "allOf" {
                    cases = product(&cases, &inner)?;
                    continue;
                }
                let branch = self.schema(site.side, location, schema)?;
                let inner = product(&[EvaluatedPartsCase::when(branch)], &inner)?;
                if keyword == "oneOf" {
                    exactly_one.extend(inner);
                } else if !inner.iter().all(EvaluatedPartsCase::saw_nothing) {
                    let mut ways = vec![EvaluatedPartsCase::when(!branch)];
                    ways.extend(inner);
                    cases = product(&cases, &ways)?;
                }
            }
            if !exactly_one.iter().all(EvaluatedPartsCase::saw_nothing) {
                cases = product(&cases, &exactly_one)?;
            }
        }
        if has("if") {
            let condition = self.at(site, "if")?;
            let mut ways = Vec::new();
            for (keywords, when) in [(["if", "then"].as_slice(), condition), (["else"].as_slice(), !condition)] {
                let mut branch = vec![EvaluatedPartsCase::when(when)];
                for keyword in keywords {
                    if let Some(schema) = site.map.get(*keyword) {
                        let inner = self.inner(site.side, SchemaLocation::Named(&site.location, keyword), schema)?;
                        branch = product(&branch, &inner)?;
                    }
                }
                ways.extend(branch);
            }
            cases = product(&cases, &ways)?;
        }
        if has("dependentSchemas") {
            for (name, schema) in site.members("dependentSchemas")? {
                let all = SchemaLocation::Named(&site.location, "dependentSchemas");
                let inner = self.inner(site.side, SchemaLocation::Named(&all, name), schema)?;
                if inner.iter().all(EvaluatedPartsCase::saw_nothing) {
                    continue;
                }
                let absent = self.absent(name);
                let mut ways = vec![EvaluatedPartsCase::when(absent)];
                ways.extend(product(&[EvaluatedPartsCase::when(!absent)], &inner)?);
                cases = product(&cases, &ways)?;
            }
        }
        Ok(cases)
    }

    fn inner(
        &mut self,
        side: SchemaSide,
        location: SchemaLocation<'_>,
        schema: &Value,
    ) -> Result<Vec<EvaluatedPartsCase>, EvaluatedPartsError> {
        match schema {
            Value::Object(map) => self.cases(LocatedSchema { side, location, map }, false),
            _ => Ok(vec![EvaluatedPartsCase::default()]),
        }
    }
}

fn product(
    left: &[EvaluatedPartsCase],
    right: &[EvaluatedPartsCase],
) -> Result<Vec<EvaluatedPartsCase>, EvaluatedPartsError> {
    if left.len().saturating_mul(right.len()) > MAX_CASES {
        return Err(EvaluatedPartsError::TooMany);
    }
    Ok(left.iter().flat_map(|left| right.iter().map(|right| left.merged(right))).collect())
}
