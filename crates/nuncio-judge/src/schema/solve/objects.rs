//! Theory of objects: constraints on properties by name, required properties, and the number of properties.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::{ConstraintSolver, KnownConstraints, SolverResult};
use crate::schema::node::{ConstraintLiteral, ValueConstraint, types};

/// Limit of distinguished classes of unlisted property names.
const MAX_KINDS: usize = 64;
/// Limit of properties added to reach a minimum count.
const MAX_FILLERS: u64 = 300;

struct ObjectConstraints {
    /// Pairs of literals: a property whose name satisfies the first has a value that satisfies the second.
    rules: Vec<(ConstraintLiteral, ConstraintLiteral)>,
    /// Pairs of literals: some property must have a name that satisfies the first and a value for the second.
    demands: Vec<(ConstraintLiteral, ConstraintLiteral)>,
    fewest: u64,
    most: u64,
    /// Every property name that appears in a schema.
    names: Vec<String>,
    /// Classes of all other property names, computed when needed.
    kinds: Option<Vec<PropertyNameClass>>,
}

/// A class of property names that no constraint distinguishes.
#[derive(Clone)]
struct PropertyNameClass {
    goals: Vec<ConstraintLiteral>,
    /// Constraints on the values of properties with a name of this class.
    values: Vec<ConstraintLiteral>,
    demands: Vec<bool>,
    /// Whether names of this class certainly exist.
    sure: bool,
}

/// A property of the object under construction.
#[derive(Clone)]
struct ConstructedProperty {
    name: String,
    kind: Option<usize>,
    goals: Vec<ConstraintLiteral>,
    value: Rc<Value>,
    sure: bool,
}

impl ConstraintSolver<'_> {
    pub(super) fn objects(&mut self, facts: &KnownConstraints) -> SolverResult {
        let mut objects = ObjectConstraints {
            rules: Vec::new(),
            demands: Vec::new(),
            fewest: 0,
            most: u64::MAX,
            names: Vec::new(),
            kinds: None,
        };
        for literal in &facts.known {
            match (self.pool.node(*literal), literal.is_negative()) {
                (ValueConstraint::MinProperties(count), false) => objects.fewest = objects.fewest.max(*count),
                (ValueConstraint::MinProperties(count), true) => {
                    objects.most = objects.most.min(count.saturating_sub(1));
                }
                (ValueConstraint::MaxProperties(count), false) => objects.most = objects.most.min(*count),
                (ValueConstraint::MaxProperties(count), true) => objects.fewest = objects.fewest.max(count + 1),
                (ValueConstraint::Each { name, value }, false) => objects.rules.push((*name, *value)),
                (ValueConstraint::Each { name, value }, true) => objects.demands.push((*name, !*value)),
                _ => {}
            }
        }
        if objects.fewest > objects.most {
            return SolverResult::Empty;
        }
        for (name, _) in objects.rules.iter().chain(&objects.demands) {
            self.collect_names(*name, &mut objects.names);
        }
        objects.names.sort_unstable();
        objects.names.dedup();
        // Demands with only one possible property name come first.
        objects.demands.sort_by_key(|(name, _)| match self.pool.node(*name) {
            ValueConstraint::Enum(values) if !name.is_negative() => values.len(),
            _ => usize::MAX,
        });
        self.assign_names(&mut objects, 0, &mut Vec::new())
    }

    fn collect_names(&self, literal: ConstraintLiteral, into: &mut Vec<String>) {
        match self.pool.node(literal) {
            ValueConstraint::And(parts) | ValueConstraint::OneOf(parts) => {
                parts.iter().for_each(|part| self.collect_names(*part, into));
            }
            ValueConstraint::Enum(values) => {
                let names = values.iter().filter_map(|number| self.pool.value(*number).as_str());
                into.extend(names.map(str::to_owned));
            }
            _ => {}
        }
    }

    /// Satisfies the demands for properties from `index` on.
    fn assign_names(
        &mut self,
        objects: &mut ObjectConstraints,
        index: usize,
        slots: &mut Vec<ConstructedProperty>,
    ) -> SolverResult {
        let Some(&(name, value)) = objects.demands.get(index) else { return self.fill(objects, slots) };
        if !self.spend(1 + slots.len()) || !self.enter() {
            return SolverResult::Unknown(None);
        }
        let answer = self.place_one(objects, index, slots, name, value);
        self.leave();
        answer
    }

    fn place_one(
        &mut self,
        objects: &mut ObjectConstraints,
        index: usize,
        slots: &mut Vec<ConstructedProperty>,
        name: ConstraintLiteral,
        value: ConstraintLiteral,
    ) -> SolverResult {
        let mut answer = SolverResult::Empty;
        // First, the demand is satisfied by a property that already exists.
        for position in 0..slots.len() {
            let fits = match slots[position].kind {
                Some(kind) => objects.kinds.as_ref().map(|kinds| kinds[kind].demands[index]),
                None => self.fits(name, &Value::from(slots[position].name.as_str())),
            };
            if fits == Some(false) {
                continue;
            }
            let mut goals = slots[position].goals.clone();
            goals.push(value);
            let before = slots[position].clone();
            let sure = before.sure && fits.is_some();
            let Some(slot) = self.slot(before.name.clone(), before.kind, goals, sure, &mut answer) else { continue };
            slots[position] = slot;
            answer = answer.or_else(|| self.assign_names(objects, index + 1, slots));
            slots[position] = before;
            if matches!(answer, SolverResult::Model(_)) {
                return answer;
            }
        }
        if slots.len() as u64 >= objects.most {
            return answer;
        }
        // Second, the demand is satisfied by a new property with a listed name.
        let only_written = matches!(self.pool.node(name), ValueConstraint::Enum(_)) && !name.is_negative();
        let mut candidates = Vec::new();
        if only_written {
            self.collect_names(name, &mut candidates);
        } else {
            candidates.clone_from(&objects.names);
        }
        for key in candidates {
            if slots.iter().any(|slot| slot.name == key) {
                continue;
            }
            let as_value = Value::from(key.as_str());
            let fits = self.fits(name, &as_value);
            if fits == Some(false) {
                continue;
            }
            let (mut goals, sure) = self.value_goals(objects, &as_value);
            goals.push(value);
            let Some(slot) = self.slot(key, None, goals, sure && fits.is_some(), &mut answer) else { continue };
            slots.push(slot);
            answer = answer.or_else(|| self.assign_names(objects, index + 1, slots));
            slots.pop();
            if matches!(answer, SolverResult::Model(_)) {
                return answer;
            }
        }
        if only_written {
            return answer;
        }
        // Third, the demand is satisfied by a new property with any other name.
        let Some(kinds) = self.kinds(objects) else { return answer.or_else(|| SolverResult::Unknown(None)) };
        for (number, kind) in kinds.iter().enumerate() {
            if !kind.demands[index] {
                continue;
            }
            let mut goals = kind.values.clone();
            goals.push(value);
            let (key, sure) = match self.fresh(kind, slots) {
                (SolverResult::Empty, _) => continue,
                (found, sure) => match found.candidate().and_then(|value| value.as_str()) {
                    Some(key) => (key.to_owned(), sure),
                    None => {
                        answer = answer.or_else(|| SolverResult::Unknown(None));
                        continue;
                    }
                },
            };
            let Some(slot) = self.slot(key, Some(number), goals, sure, &mut answer) else { continue };
            slots.push(slot);
            answer = answer.or_else(|| self.assign_names(objects, index + 1, slots));
            slots.pop();
            if matches!(answer, SolverResult::Model(_)) {
                return answer;
            }
        }
        answer
    }

    /// Makes a property with a valid value; `answer` becomes unknown if none is certain.
    fn slot(
        &mut self,
        name: String,
        kind: Option<usize>,
        goals: Vec<ConstraintLiteral>,
        sure: bool,
        answer: &mut SolverResult,
    ) -> Option<ConstructedProperty> {
        match self.satisfy(goals.clone()) {
            SolverResult::Empty => None,
            SolverResult::Model(value) => Some(ConstructedProperty { name, kind, goals, value, sure }),
            SolverResult::Unknown(Some(value)) => Some(ConstructedProperty { name, kind, goals, value, sure: false }),
            SolverResult::Unknown(None) => {
                let before = std::mem::replace(answer, SolverResult::Empty);
                *answer = before.or_else(|| SolverResult::Unknown(None));
                None
            }
        }
    }

    /// The constraints on the value of a property of this name, and whether all of them are known.
    fn value_goals(&mut self, objects: &ObjectConstraints, name: &Value) -> (Vec<ConstraintLiteral>, bool) {
        let (mut goals, mut sure) = (Vec::new(), true);
        for (names, value) in &objects.rules {
            match self.fits(*names, name) {
                Some(true) => goals.push(*value),
                Some(false) => {}
                None => sure = false,
            }
        }
        (goals, sure)
    }

    /// An unused property name of this class, and whether it certainly belongs to the class.
    fn fresh(&mut self, kind: &PropertyNameClass, slots: &[ConstructedProperty]) -> (SolverResult, bool) {
        let mut goals = kind.goals.clone();
        let taken: Vec<Value> =
            slots.iter().filter(|slot| slot.kind.is_some()).map(|slot| Value::from(slot.name.as_str())).collect();
        goals.push(!self.pool.values_of(&taken));
        let answer = self.satisfy(goals);
        let sure = kind.sure && matches!(answer, SolverResult::Model(_));
        (answer, sure)
    }

    /// The classes of unlisted property names; `None` if there are too many.
    fn kinds(&mut self, objects: &mut ObjectConstraints) -> Option<Vec<PropertyNameClass>> {
        if let Some(kinds) = &objects.kinds {
            return Some(kinds.clone());
        }
        let written: Vec<Value> = objects.names.iter().map(|name| Value::from(name.as_str())).collect();
        let other = !self.pool.values_of(&written);
        let string = self.pool.types(types::STRING);
        let mut kinds =
            vec![PropertyNameClass { goals: vec![string, other], values: Vec::new(), demands: Vec::new(), sure: true }];
        let all = objects.rules.len() + objects.demands.len();
        for index in 0..all {
            let rule = objects.rules.get(index).copied();
            let name = rule.map_or_else(|| objects.demands[index - objects.rules.len()].0, |(name, _)| name);
            let mut next = Vec::new();
            for kind in kinds {
                for (literal, inside) in [(name, true), (!name, false)] {
                    let mut part = kind.clone();
                    match self.of_unwritten(name) {
                        Some(known) if known != inside => continue,
                        Some(_) => {}
                        None => {
                            part.goals.push(literal);
                            match self.satisfy(part.goals.clone()) {
                                SolverResult::Empty => continue,
                                SolverResult::Model(_) => {}
                                SolverResult::Unknown(_) => part.sure = false,
                            }
                        }
                    }
                    match rule {
                        Some((_, value)) if inside => part.values.push(value),
                        Some(_) => {}
                        None => part.demands.push(inside),
                    }
                    next.push(part);
                }
            }
            if next.len() > MAX_KINDS || !self.spend(next.len()) {
                return None;
            }
            kinds = next;
        }
        objects.kinds = Some(kinds.clone());
        Some(kinds)
    }

    /// Whether all unlisted property names satisfy the literal, or none do; `None` if they differ.
    fn of_unwritten(&self, name: ConstraintLiteral) -> Option<bool> {
        if self.pool.fails(name) & types::STRING == 0 {
            return Some(true);
        }
        if self.pool.holds(name) & types::STRING == 0 {
            return Some(false);
        }
        let holds = match self.pool.node(name) {
            ValueConstraint::Enum(_) => false,
            ValueConstraint::And(parts) => {
                let parts: Vec<Option<bool>> = parts.iter().map(|part| self.of_unwritten(*part)).collect();
                if parts.contains(&Some(false)) {
                    false
                } else if parts.iter().all(|part| *part == Some(true)) {
                    true
                } else {
                    return None;
                }
            }
            _ => return None,
        };
        Some(holds != name.is_negative())
    }

    /// Adds properties to the object until the minimum count is reached.
    fn fill(&mut self, objects: &mut ObjectConstraints, slots: &[ConstructedProperty]) -> SolverResult {
        let mut slots = slots.to_vec();
        let mut unsure = slots.iter().any(|slot| !slot.sure);
        if objects.fewest > slots.len() as u64 {
            if objects.fewest > MAX_FILLERS {
                return SolverResult::Unknown(None);
            }
            for key in objects.names.clone() {
                if slots.len() as u64 >= objects.fewest {
                    break;
                }
                if slots.iter().any(|slot| slot.name == key) {
                    continue;
                }
                let (goals, sure) = self.value_goals(objects, &Value::from(key.as_str()));
                match self.satisfy(goals.clone()) {
                    SolverResult::Empty => {}
                    SolverResult::Model(value) if sure => {
                        slots.push(ConstructedProperty { name: key, kind: None, goals, value, sure });
                    }
                    _ => unsure = true,
                }
            }
        }
        if objects.fewest > slots.len() as u64 {
            let Some(kinds) = self.kinds(objects) else { return SolverResult::Unknown(None) };
            for (number, kind) in kinds.iter().enumerate() {
                let value = match self.satisfy(kind.values.clone()) {
                    SolverResult::Empty => continue,
                    SolverResult::Model(value) => value,
                    SolverResult::Unknown(_) => {
                        unsure = true;
                        continue;
                    }
                };
                while (slots.len() as u64) < objects.fewest {
                    let (found, sure) = self.fresh(kind, &slots);
                    if found.is_empty() {
                        break;
                    }
                    let Some(name) = found.candidate().and_then(|name| name.as_str().map(str::to_owned)) else {
                        unsure = true;
                        break;
                    };
                    unsure |= !sure;
                    let goals = kind.values.clone();
                    slots.push(ConstructedProperty { name, kind: Some(number), goals, value: Rc::clone(&value), sure });
                }
            }
        }
        if (slots.len() as u64) < objects.fewest {
            return if unsure { SolverResult::Unknown(None) } else { SolverResult::Empty };
        }
        let map: Map<String, Value> = slots.into_iter().map(|slot| (slot.name, (*slot.value).clone())).collect();
        let answer = SolverResult::model(Value::Object(map));
        if unsure { answer.unsure() } else { answer }
    }
}
