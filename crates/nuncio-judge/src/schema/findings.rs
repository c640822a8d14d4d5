//! Finds each reason why the new schema refuses values, by negating its keywords one by one at every depth.

use std::rc::Rc;

use nuncio_core::json::pointer;
use serde_json::{Map, Value};

use super::SchemaNarrowing;
use super::document::{SchemaDocument, SchemaLocation, SchemaReferenceTarget};
use super::local::{ValuePathFacts, ValuePathStep};
use super::lower::{ConstraintTranslator, END, LocatedSchema, MalformedSchemaPart, SchemaSide};
use super::node::{ConstraintLiteral, DotMeaning, ValueConstraint};
use super::rule::NarrowingRule;
use super::solve::{ConstraintSolver, SolverMemo, SolverResult};
use super::witness_checker::WitnessChecker;

/// Limit of reported findings per schema comparison.
pub(crate) const MAX_FINDINGS: usize = 64;
/// Limit of steps for checking one witness.
const CHECK_STEPS: usize = 100_000;
/// Nesting limit of the search for refusals.
const MAX_DEPTH: usize = 40;

/// The part of the old schema that corresponds to the currently examined location of the new schema.
#[derive(Clone, Copy)]
struct OldSchemaPart<'p, 'a> {
    location: &'p str,
    map: Option<&'a Map<String, Value>>,
}

/// A possible refusal of values by the new schema, proved or not.
pub(crate) struct PossibleRefusal {
    pub(crate) finding: SchemaNarrowing,
    /// Literal that every witness of this refusal satisfies.
    pub(crate) goal: ConstraintLiteral,
}

pub(crate) struct RefusalFinder<'l, 'a> {
    pub(crate) lowering: &'l mut ConstraintTranslator<'a>,
    pub(crate) checker: &'l WitnessChecker<'a>,
    old: ConstraintLiteral,
    dot: DotMeaning,
    pub(crate) steps: usize,
    memo: SolverMemo,
    pub(crate) refusals: Vec<PossibleRefusal>,
    path: Vec<ValuePathStep>,
    /// Facts known at each step of the path, beginning with the whole value.
    known: Vec<ValuePathFacts>,
    open: Vec<String>,
}

impl<'l, 'a> RefusalFinder<'l, 'a> {
    pub(crate) fn new(
        lowering: &'l mut ConstraintTranslator<'a>,
        checker: &'l WitnessChecker<'a>,
        old: ConstraintLiteral,
        dot: DotMeaning,
        steps: usize,
    ) -> Self {
        let known = vec![ValuePathFacts::new(&lowering.pool, vec![old])];
        Self {
            lowering,
            checker,
            old,
            dot,
            steps,
            memo: SolverMemo::default(),
            refusals: Vec::new(),
            path: Vec::new(),
            known,
            open: Vec::new(),
        }
    }

    /// Searches all refusals by the new schema; finds none if the schemas are compatible.
    pub(crate) fn run(&mut self) -> Result<(), MalformedSchemaPart> {
        let (old, new) = (self.lowering.old.root, self.lowering.new.root);
        let (location, map) = counterpart(&self.lowering.old, String::new(), Some(old));
        self.schema("", new, OldSchemaPart { location: &location, map }, NarrowingRule::NothingAllowed)?;
        Ok(())
    }

    /// Descends one step into the checked value.
    fn enter(&mut self, step: ValuePathStep) {
        let mut solver =
            ConstraintSolver::new(&mut self.lowering.pool, self.dot, self.steps, std::mem::take(&mut self.memo));
        let facts = self.known.last().map(|local| local.inside(&mut solver, step)).unwrap_or_default();
        self.steps = solver.steps_left();
        self.memo = solver.into_memo();
        self.known.push(ValuePathFacts::new(&self.lowering.pool, facts));
        self.path.push(step);
    }

    fn leave(&mut self) {
        self.path.pop();
        self.known.pop();
    }

    /// Whether the facts known at the end of the path alone contradict the literal.
    fn is_ruled_out(&mut self, literal: ConstraintLiteral) -> bool {
        let Some(local) = self.known.last() else { return false };
        if local.granted.contains(&!literal) {
            return true;
        }
        let goals = local.facts.iter().copied().chain([literal]).collect();
        self.satisfy(goals).is_empty()
    }

    fn satisfy(&mut self, goals: Vec<ConstraintLiteral>) -> SolverResult {
        let mut solver =
            ConstraintSolver::new(&mut self.lowering.pool, self.dot, self.steps, std::mem::take(&mut self.memo));
        let answer = solver.satisfy(goals);
        self.steps = solver.steps_left();
        self.memo = solver.into_memo();
        answer
    }

    /// Searches a value that the old schema accepts and that satisfies the literal at the end of the path.
    fn ask(&mut self, literal: ConstraintLiteral) -> (ConstraintLiteral, SolverResult) {
        // A contradiction at the end of the path is a contradiction for the whole value.
        if self.is_ruled_out(literal) { (literal, SolverResult::Empty) } else { self.ask_whole(literal) }
    }

    /// [`Self::ask`] for a literal that the facts known at the end of the path do not contradict.
    fn ask_whole(&mut self, literal: ConstraintLiteral) -> (ConstraintLiteral, SolverResult) {
        let pool = &mut self.lowering.pool;
        let mut goal = literal;
        for step in self.path.iter().rev() {
            goal = match *step {
                ValuePathStep::Property(name) => !pool.add(ValueConstraint::Each { name, value: !goal }),
                ValuePathStep::Item(from, to) => {
                    !pool.add(ValueConstraint::FewItems { from, to, what: goal, count: 0 })
                }
                ValuePathStep::Given(condition) => pool.and([condition, goal]),
            };
        }
        let answer = self.satisfy(vec![self.old, goal]);
        (goal, answer)
    }

    /// Searches for values that the old schema accepts and one subschema of the new schema refuses. Adds each refusal that
    /// is found; true if there is any.
    fn schema(
        &mut self,
        location: &str,
        schema: &Value,
        before: OldSchemaPart<'_, 'a>,
        refused: NarrowingRule,
    ) -> Result<bool, MalformedSchemaPart> {
        let Value::Object(map) = schema else {
            if *schema == Value::Bool(true) {
                return Ok(false);
            }
            let (goal, answer) = self.ask(ConstraintLiteral::TRUE);
            return Ok(self.refuse(refused, location, None, Some(schema), goal, &answer));
        };
        if self.open.len() > MAX_DEPTH || self.open.iter().any(|open| open == location) {
            return Ok(false);
        }
        self.open.push(location.to_owned());
        let site = LocatedSchema { side: SchemaSide::New, location: SchemaLocation::At(location), map };
        let mut any = false;
        for keyword in map.keys() {
            if self.refusals.len() >= MAX_FINDINGS {
                break;
            }
            if matches!(keyword.as_str(), "properties" | "patternProperties" | "dependentSchemas" | "dependentRequired")
            {
                any |= self.members(site, keyword, before)?;
                continue;
            }
            let literal = self.lowering.keyword(site, keyword)?;
            if literal != ConstraintLiteral::TRUE {
                any |= self.keyword(site, keyword, literal, before)?;
            }
        }
        self.open.pop();
        Ok(any)
    }

    /// Searches all refusals by one keyword of the new schema; true if there is any.
    fn keyword(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
        literal: ConstraintLiteral,
        before: OldSchemaPart<'_, 'a>,
    ) -> Result<bool, MalformedSchemaPart> {
        let location = pointer(&site.location.text(), keyword);
        let value = site.map.get(keyword);
        if let ("allOf" | "prefixItems", Some(Value::Array(schemas))) = (keyword, value) {
            let mut any = false;
            for (index, schema) in schemas.iter().enumerate() {
                let step = (keyword == "prefixItems").then_some(ValuePathStep::Item(index as u64, index as u64 + 1));
                let inner = before.at(&self.lowering.old, keyword, Some(&index.to_string()));
                let inner = if keyword == "allOf" && inner.1.is_none() { before.owned() } else { inner };
                let at = pointer(&location, &index.to_string());
                let part = self.lowering.schema(SchemaSide::New, SchemaLocation::At(&at), schema)?;
                any |= self.inside(
                    &at,
                    schema,
                    part,
                    step,
                    OldSchemaPart { location: &inner.0, map: inner.1 },
                    NarrowingRule::ItemsClosed,
                )?;
            }
            return Ok(any);
        }
        if let ("required", Some(Value::Array(names))) = (keyword, value) {
            let mut any = false;
            for (index, name) in names.iter().enumerate() {
                if let Some(name) = name.as_str() {
                    let literal = self.lowering.required(name);
                    let (goal, answer) = self.ask(!literal);
                    let at = pointer(&location, &index.to_string());
                    let old = before.value("required");
                    any |= self.refuse(NarrowingRule::RequiredAdded, &at, old, value, goal, &answer);
                }
            }
            return Ok(any);
        }
        if self.is_ruled_out(!literal) {
            return Ok(false);
        }
        // A refusal deeper inside is more specific; the keyword itself is tested only if there is none.
        let found = match (keyword, value) {
            ("$ref" | "$dynamicRef", Some(Value::String(reference))) => {
                let target = self.lowering.new.resolve(reference, site.location);
                match target {
                    Some(SchemaReferenceTarget::Here(at, schema)) => {
                        self.schema(&at, schema, before, NarrowingRule::NothingAllowed)?
                    }
                    _ => false,
                }
            }
            ("items", Some(schema)) => {
                let inner = before.at(&self.lowering.old, keyword, None);
                self.enter(ValuePathStep::Item(site.prefix(), END));
                let found = self.schema(
                    &location,
                    schema,
                    OldSchemaPart { location: &inner.0, map: inner.1 },
                    NarrowingRule::ItemsClosed,
                );
                self.leave();
                found?
            }
            ("additionalProperties", Some(schema)) => self.additional(site, schema, before)?,
            ("enum", Some(Value::Array(_))) => self.removed_values(literal, before)?,
            ("anyOf" | "oneOf", Some(_)) => self.removed_branches(literal, before)?,
            _ => false,
        };
        if found {
            return Ok(true);
        }
        let (goal, answer) = self.ask_whole(!literal);
        let rule = NarrowingRule::of_keyword(keyword);
        Ok(self.refuse(rule, &location, before.value(keyword), value, goal, &answer))
    }

    /// Searches refusals by the members of an object of schemas, such as `properties`.
    fn members(
        &mut self,
        site: LocatedSchema<'_>,
        keyword: &str,
        before: OldSchemaPart<'_, 'a>,
    ) -> Result<bool, MalformedSchemaPart> {
        let mut any = false;
        for (name, schema) in site.members(keyword)? {
            if self.refusals.len() >= MAX_FINDINGS {
                break;
            }
            let literal = self.lowering.member(site, keyword, name)?;
            if literal == ConstraintLiteral::TRUE {
                continue;
            }
            let at = pointer(&pointer(&site.location.text(), keyword), name);
            let step = match keyword {
                "properties" => Some(ValuePathStep::Property(self.lowering.pool.name(name))),
                "patternProperties" => Some(ValuePathStep::Property(self.lowering.pool.pattern(name))),
                "dependentSchemas" => Some(ValuePathStep::Given(!self.lowering.absent(name))),
                _ => None,
            };
            if self.known.last().is_some_and(|local| local.granted.contains(&literal)) {
                continue;
            }
            let inner = before.at(&self.lowering.old, keyword, Some(name));
            let mut found = false;
            if let Some(step) = step {
                let part = self.lowering.schema(SchemaSide::New, SchemaLocation::At(&at), schema)?;
                self.enter(step);
                if self.is_ruled_out(!part) {
                    self.leave();
                    continue;
                }
                let inner = if keyword == "dependentSchemas" && inner.1.is_none() { before.owned() } else { inner };
                let result = self.schema(
                    &at,
                    schema,
                    OldSchemaPart { location: &inner.0, map: inner.1 },
                    NarrowingRule::PropertyRefused,
                );
                self.leave();
                found = result?;
            }
            if !found {
                let (goal, answer) = self.ask(!literal);
                let old = before.value(keyword).and_then(|members| members.get(name));
                found = self.refuse(NarrowingRule::of_keyword(keyword), &at, old, Some(schema), goal, &answer);
            }
            any |= found;
        }
        Ok(any)
    }

    fn inside(
        &mut self,
        at: &str,
        schema: &Value,
        part: ConstraintLiteral,
        step: Option<ValuePathStep>,
        before: OldSchemaPart<'_, 'a>,
        refused: NarrowingRule,
    ) -> Result<bool, MalformedSchemaPart> {
        if let Some(step) = step {
            self.enter(step);
        }
        let (goal, answer) = self.ask(!part);
        let mut found = Ok(false);
        if !answer.is_empty() {
            found = self.schema(at, schema, before, refused);
            if matches!(found, Ok(false)) {
                found = Ok(self.refuse(refused, at, None, Some(schema), goal, &answer));
            }
        }
        if step.is_some() {
            self.leave();
        }
        found
    }

    /// Searches refusals of properties that the new schema does not list: first those that the old schema listed, then
    /// all others.
    fn additional(
        &mut self,
        site: LocatedSchema<'_>,
        schema: &Value,
        before: OldSchemaPart<'_, 'a>,
    ) -> Result<bool, MalformedSchemaPart> {
        let location = pointer(&site.location.text(), "additionalProperties");
        let names = self.lowering.additional_names(site)?;
        let value = self.lowering.schema(SchemaSide::New, SchemaLocation::At(&location), schema)?;
        let mut any = false;
        let mut named = Vec::new();
        if let Some(Value::Object(members)) = before.value("properties") {
            for (name, member) in members {
                if site.map.get("properties").is_some_and(|new| new.get(name).is_some()) {
                    continue;
                }
                if self.refusals.len() >= MAX_FINDINGS {
                    break;
                }
                named.push(Value::from(name.as_str()));
                let one = self.lowering.pool.name(name);
                let both = self.lowering.pool.and([one, names]);
                let rule = self.lowering.each(both, value);
                let (goal, answer) = self.ask(!rule);
                let at = pointer(&pointer(before.location, "properties"), name);
                any |= self.refuse(NarrowingRule::PropertyRefused, &at, Some(member), None, goal, &answer);
            }
        }
        let others = !self.lowering.pool.values_of(&named);
        let names = self.lowering.pool.and([names, others]);
        let rule = self.lowering.each(names, value);
        let (goal, answer) = self.ask(!rule);
        let old = before.value("additionalProperties");
        any |= self.refuse(NarrowingRule::AdditionalPropertiesClosed, &location, old, Some(schema), goal, &answer);
        Ok(any)
    }

    /// Searches refusals of values that the old schema enumerated.
    fn removed_values(
        &mut self,
        listed: ConstraintLiteral,
        before: OldSchemaPart<'_, 'a>,
    ) -> Result<bool, MalformedSchemaPart> {
        let Some(Value::Array(values)) = before.value("enum") else { return Ok(false) };
        let mut any = false;
        for (index, value) in values.iter().enumerate() {
            if self.refusals.len() >= MAX_FINDINGS {
                break;
            }
            let one = self.lowering.pool.one_value(value);
            let gone = self.lowering.pool.and([one, !listed]);
            if gone == ConstraintLiteral::FALSE {
                continue;
            }
            let (goal, answer) = self.ask(gone);
            let at = pointer(&pointer(before.location, "enum"), &index.to_string());
            any |= self.refuse(NarrowingRule::EnumValueRemoved, &at, Some(value), None, goal, &answer);
        }
        Ok(any)
    }

    /// Searches refusals of values that an alternative of the old schema accepted.
    fn removed_branches(
        &mut self,
        kept: ConstraintLiteral,
        before: OldSchemaPart<'_, 'a>,
    ) -> Result<bool, MalformedSchemaPart> {
        let mut any = false;
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(branches)) = before.value(keyword) else { continue };
            for (index, branch) in branches.iter().enumerate() {
                if self.refusals.len() >= MAX_FINDINGS {
                    break;
                }
                let at = pointer(&pointer(before.location, keyword), &index.to_string());
                let taken = self.lowering.schema(SchemaSide::Old, SchemaLocation::At(&at), branch)?;
                let gone = self.lowering.pool.and([taken, !kept]);
                let (goal, answer) = self.ask(gone);
                if matches!(answer, SolverResult::Model(_)) {
                    any |= self.refuse(NarrowingRule::BranchRemoved, &at, Some(branch), None, goal, &answer);
                }
            }
        }
        Ok(any)
    }

    /// Records a refusal, unless the search proved that there is none.
    fn refuse(
        &mut self,
        rule: NarrowingRule,
        location: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        goal: ConstraintLiteral,
        answer: &SolverResult,
    ) -> bool {
        if answer.is_empty() {
            return false;
        }
        let candidate = answer.candidate().map(Rc::clone).filter(|value| self.is_light(value, goal));
        let witness = candidate.filter(|value| self.checker.confirms(value));
        let finding = SchemaNarrowing {
            rule,
            pointer: location.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
            witness: witness.map(|value| (*value).clone()),
        };
        if self.refusals.len() < MAX_FINDINGS {
            self.refusals.push(PossibleRefusal { finding, goal });
        }
        true
    }
}

impl RefusalFinder<'_, '_> {
    /// Whether few steps suffice to check a value, so that a validator is fast too.
    fn is_light(&mut self, value: &Value, goal: ConstraintLiteral) -> bool {
        let mut solver = ConstraintSolver::new(&mut self.lowering.pool, self.dot, CHECK_STEPS, SolverMemo::default());
        solver.fits(self.old, value);
        solver.fits(goal, value);
        solver.steps_left() > 0
    }
}

impl<'a> OldSchemaPart<'_, 'a> {
    fn value(&self, keyword: &str) -> Option<&'a Value> {
        self.map?.get(keyword)
    }

    fn owned(&self) -> (String, Option<&'a Map<String, Value>>) {
        (self.location.to_owned(), self.map)
    }

    /// The corresponding part of the old schema after descending into a keyword and optionally a member.
    fn at(
        &self,
        document: &SchemaDocument<'a>,
        keyword: &str,
        member: Option<&str>,
    ) -> (String, Option<&'a Map<String, Value>>) {
        let mut location = pointer(self.location, keyword);
        let mut value = self.value(keyword);
        if let Some(member) = member {
            value = value.and_then(|value| match value {
                Value::Array(list) => member.parse::<usize>().ok().and_then(|index| list.get(index)),
                Value::Object(map) => map.get(member),
                _ => None,
            });
            location = pointer(&location, member);
        }
        counterpart(document, location, value)
    }
}

/// A schema of the old document with its references followed, if it consists of little else.
fn counterpart<'a>(
    document: &SchemaDocument<'a>,
    location: String,
    schema: Option<&'a Value>,
) -> (String, Option<&'a Map<String, Value>>) {
    let (mut location, mut schema) = (location, schema);
    for _ in 0..8 {
        match schema {
            Some(Value::Object(map)) => match map.get("$ref").and_then(Value::as_str) {
                Some(reference) if map.len() <= 2 || !map.contains_key("properties") => {
                    match document.resolve(reference, SchemaLocation::At(&location)) {
                        Some(SchemaReferenceTarget::Here(at, target)) => (location, schema) = (at, Some(target)),
                        _ => return (location, Some(map)),
                    }
                }
                _ => return (location, Some(map)),
            },
            _ => return (location, None),
        }
    }
    (location, None)
}
