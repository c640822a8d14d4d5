//! Decides whether some value satisfies a set of literals: a tableau that splits by type and by alternative, and leaves
//! the rest to the theory of each type.

mod arrays;
mod distinct;
mod numbers;
mod objects;
mod strings;

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::Value;

use super::node::{ConstraintLiteral, ConstraintNodePool, DotMeaning, ValueConstraint, types};
use crate::HashMap;

/// Recursion limit of the solver, for which a small stack suffices.
const MAX_DEPTH: usize = 160;

/// Result of a satisfiability search.
#[derive(Debug, Clone)]
pub(crate) enum SolverResult {
    /// No value satisfies the goals.
    Empty,
    /// This value satisfies the goals.
    Model(Rc<Value>),
    /// Undecided; this value, if present, may satisfy the goals.
    Unknown(Option<Rc<Value>>),
}

impl SolverResult {
    pub(crate) fn model(value: Value) -> Self {
        Self::Model(Rc::new(value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// The found value, even if it is not proved to satisfy the goals.
    pub(crate) fn candidate(&self) -> Option<&Rc<Value>> {
        match self {
            Self::Model(value) | Self::Unknown(Some(value)) => Some(value),
            _ => None,
        }
    }

    /// The result for either of two cases; `other` is evaluated only if this result does not decide.
    fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Model(_) => self,
            Self::Empty => other(),
            Self::Unknown(candidate) => match other() {
                Self::Empty => Self::Unknown(candidate),
                Self::Unknown(second) => Self::Unknown(candidate.or(second)),
                model @ Self::Model(_) => model,
            },
        }
    }

    /// The result without its proof, for when only part of the goal was tested.
    fn unsure(self) -> Self {
        match self {
            Self::Model(value) => Self::Unknown(Some(value)),
            other => other,
        }
    }
}

/// Cached solver results by goals; valid for one pool of nodes.
pub(crate) type SolverMemo = HashMap<Vec<ConstraintLiteral>, SolverResult>;

/// A search over one pool of nodes with a budget of steps.
pub(crate) struct ConstraintSolver<'p> {
    pub(crate) pool: &'p mut ConstraintNodePool,
    pub(crate) dot: DotMeaning,
    steps: usize,
    depth: usize,
    memo: SolverMemo,
    /// Goals of the search in progress, outermost first.
    asked: Vec<Vec<ConstraintLiteral>>,
    /// Index of the outermost goal that a result assumed to be unsatisfiable.
    lowest: usize,
}

/// Known constraints on one value of one type.
#[derive(Clone, Default)]
struct KnownConstraints {
    /// All known literals, original and derived.
    known: BTreeSet<ConstraintLiteral>,
    /// The original goals and choices, from which all other known literals follow.
    roots: Vec<ConstraintLiteral>,
    todo: Vec<ConstraintLiteral>,
    /// Clauses, of each of which at least one literal must hold.
    clauses: Vec<Vec<ConstraintLiteral>>,
    /// Whether some constraint is not understood.
    opaque: bool,
}

impl<'p> ConstraintSolver<'p> {
    pub(crate) fn new(pool: &'p mut ConstraintNodePool, dot: DotMeaning, steps: usize, memo: SolverMemo) -> Self {
        Self { pool, dot, steps, depth: 0, memo, asked: Vec::new(), lowest: usize::MAX }
    }

    /// Returns the cached results of the solver, for a later search.
    pub(crate) fn into_memo(self) -> SolverMemo {
        self.memo
    }

    pub(crate) fn steps_left(&self) -> usize {
        self.steps
    }

    /// Spends steps of the budget; false if not enough are left.
    pub(crate) fn spend(&mut self, steps: usize) -> bool {
        let enough = self.steps >= steps;
        self.steps = self.steps.saturating_sub(steps);
        enough
    }

    /// Enters one more level of recursion; false at the recursion limit.
    pub(crate) fn enter(&mut self) -> bool {
        if self.depth >= MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        true
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Whether some value satisfies all goals.
    pub(crate) fn satisfy(&mut self, mut goals: Vec<ConstraintLiteral>) -> SolverResult {
        goals.sort_unstable();
        goals.dedup();
        goals.retain(|goal| *goal != ConstraintLiteral::TRUE);
        if goals.contains(&ConstraintLiteral::FALSE) {
            return SolverResult::Empty;
        }
        if let Some(answer) = self.memo.get(&goals) {
            return answer.clone();
        }
        if !self.spend(1 + goals.len()) {
            return SolverResult::Unknown(None);
        }
        // A smallest value that satisfies the goals has no part that again satisfies all of them.
        if let Some(index) = self.asked.iter().position(|asked| is_subset(asked, &goals)) {
            self.lowest = self.lowest.min(index);
            return SolverResult::Empty;
        }
        if !self.enter() {
            return SolverResult::Unknown(None);
        }
        let own = self.asked.len();
        let before = std::mem::replace(&mut self.lowest, usize::MAX);
        self.asked.push(goals.clone());
        let possible = goals.iter().fold(types::ALL, |all, goal| all & self.pool.holds(*goal));
        let mut answer = SolverResult::Empty;
        for bit in [types::OBJECT, types::STRING, types::NUMBER, types::ARRAY, types::BOOLEAN, types::NULL] {
            if possible & bit != 0 {
                let facts =
                    KnownConstraints { roots: goals.clone(), todo: goals.clone(), ..KnownConstraints::default() };
                answer = answer.or_else(|| self.branch(bit, facts));
            }
            if matches!(answer, SolverResult::Model(_)) {
                break;
            }
        }
        self.asked.pop();
        self.leave();
        // A result that assumed an outer goal to be unsatisfiable is valid only inside that goal.
        let depends = self.lowest < own;
        if !depends || !answer.is_empty() {
            self.memo.insert(goals, answer.clone());
        }
        self.lowest = if depends { before.min(self.lowest) } else { before };
        answer
    }

    /// Whether some value of one JSON type satisfies the facts.
    fn branch(&mut self, bit: u8, mut facts: KnownConstraints) -> SolverResult {
        loop {
            if !self.expand(bit, &mut facts) {
                return SolverResult::Empty;
            }
            let listed = facts.known.iter().filter(|literal| !literal.is_negative());
            let listed = listed.filter_map(|literal| match self.pool.node(*literal) {
                ValueConstraint::Enum(values) => Some((values.len(), *literal)),
                _ => None,
            });
            if let Some((_, literal)) = listed.min() {
                return self.among(bit, literal, &facts);
            }
            if self.steps == 0 {
                return SolverResult::Unknown(None);
            }
            if !self.simplify(bit, &mut facts) {
                return SolverResult::Empty;
            }
            if facts.todo.is_empty() {
                break;
            }
        }
        let Some(shortest) = (0..facts.clauses.len()).min_by_key(|index| facts.clauses[*index].len()) else {
            let answer = self.theory(bit, &facts);
            return if facts.opaque { answer.unsure() } else { answer };
        };
        let choices = facts.clauses.swap_remove(shortest);
        if !self.enter() {
            return SolverResult::Unknown(None);
        }
        let mut answer = SolverResult::Empty;
        for choice in choices {
            if !self.spend(1 + facts.known.len() / 8) {
                answer = answer.or_else(|| SolverResult::Unknown(None));
                break;
            }
            let mut chosen = facts.clone();
            chosen.roots.push(choice);
            chosen.todo.push(choice);
            answer = answer.or_else(|| self.branch(bit, chosen));
            if matches!(answer, SolverResult::Model(_)) {
                break;
            }
        }
        self.leave();
        answer
    }

    /// Decomposes the pending literals of the facts; false on a contradiction.
    fn expand(&mut self, bit: u8, facts: &mut KnownConstraints) -> bool {
        while let Some(literal) = facts.todo.pop() {
            self.spend(1);
            if self.pool.holds(literal) & bit == 0 || facts.known.contains(&!literal) {
                return false;
            }
            if self.pool.fails(literal) & bit == 0 || !facts.known.insert(literal) {
                continue;
            }
            let node = self.pool.shared(literal);
            match (&*node, literal.is_negative()) {
                (ValueConstraint::And(parts), false) => facts.todo.extend(parts.iter().copied()),
                (ValueConstraint::And(parts), true) => facts.clauses.push(parts.iter().map(|part| !*part).collect()),
                (ValueConstraint::OneOf(parts), negative) => {
                    let clause = self.one_of(bit, parts, negative);
                    facts.clauses.push(clause);
                }
                (ValueConstraint::Ref(number), negative) => {
                    let body = self.pool.bodies[*number as usize].filter(|_| !self.pool.unguarded[*number as usize]);
                    match body {
                        Some(body) => facts.todo.push(if negative { !body } else { body }),
                        None => facts.opaque = true,
                    }
                }
                (ValueConstraint::Opaque(_), _) => facts.opaque = true,
                (ValueConstraint::Pattern(pattern), _) => facts.opaque |= self.pool.regex(*pattern, self.dot).is_none(),
                (ValueConstraint::Enum(values), true) if bit & (types::ARRAY | types::OBJECT) != 0 => {
                    for number in values {
                        let value = self.pool.value(*number).clone();
                        if types::of(&value) == bit {
                            let clause = self.differs(&value);
                            facts.clauses.push(clause);
                        }
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// The constraint "exactly one of these literals holds", or its negation, as alternatives.
    fn one_of(&mut self, bit: u8, parts: &[ConstraintLiteral], negative: bool) -> Vec<ConstraintLiteral> {
        let mut clause = Vec::new();
        if negative {
            let none: Vec<ConstraintLiteral> = parts.iter().map(|part| !*part).collect();
            clause.push(self.pool.and(none));
            let possible: Vec<ConstraintLiteral> =
                parts.iter().copied().filter(|part| self.pool.holds(*part) & bit != 0).collect();
            for (index, left) in possible.iter().enumerate() {
                if !self.spend(possible.len()) {
                    // No restriction is returned, so that the search soon ends as unknown.
                    return vec![ConstraintLiteral::TRUE];
                }
                for right in &possible[index + 1..] {
                    clause.push(self.pool.and([*left, *right]));
                }
            }
        } else {
            for (index, part) in parts.iter().enumerate() {
                if self.pool.holds(*part) & bit != 0 && self.spend(parts.len()) {
                    let others = parts.iter().enumerate().filter(|(other, _)| *other != index);
                    let all: Vec<ConstraintLiteral> = others.map(|(_, other)| !*other).chain([*part]).collect();
                    clause.push(self.pool.and(all));
                }
            }
            if self.steps == 0 {
                return vec![ConstraintLiteral::TRUE];
            }
        }
        clause
    }

    /// Literals of which at least one holds for every array or object that differs from this value.
    fn differs(&mut self, value: &Value) -> Vec<ConstraintLiteral> {
        let mut clause = Vec::new();
        match value {
            Value::Array(items) => {
                let count = items.len() as u64;
                clause.push(self.pool.add(ValueConstraint::MinItems(count + 1)));
                if count > 0 {
                    clause.push(self.pool.add(ValueConstraint::MaxItems(count - 1)));
                }
                for (index, item) in (0..).zip(items) {
                    let what = !self.pool.one_value(item);
                    clause.push(self.pool.add(ValueConstraint::SomeItems {
                        from: index,
                        to: index + 1,
                        what,
                        count: 1,
                    }));
                }
            }
            Value::Object(map) => {
                clause.push(self.pool.add(ValueConstraint::MinProperties(map.len() as u64 + 1)));
                for (key, item) in map {
                    let name = self.pool.name(key);
                    clause.push(self.pool.add(ValueConstraint::Each { name, value: ConstraintLiteral::FALSE }));
                    let value = self.pool.one_value(item);
                    clause.push(!self.pool.add(ValueConstraint::Each { name, value }));
                }
            }
            _ => {}
        }
        clause
    }

    /// Removes impossible alternatives from the clauses; false if a clause has none left.
    fn simplify(&mut self, bit: u8, facts: &mut KnownConstraints) -> bool {
        let clauses = std::mem::take(&mut facts.clauses);
        for mut clause in clauses {
            self.spend(clause.len());
            if clause.iter().any(|part| self.pool.fails(*part) & bit == 0 || facts.known.contains(part)) {
                continue;
            }
            clause.retain(|part| {
                self.pool.holds(*part) & bit != 0
                    && !facts.known.contains(&!*part)
                    && match self.pool.node(*part) {
                        ValueConstraint::And(inner) if !part.is_negative() => {
                            !inner.iter().any(|inner| facts.known.contains(&!*inner))
                        }
                        _ => true,
                    }
            });
            match clause.as_slice() {
                [] => return false,
                [only] => {
                    facts.roots.push(*only);
                    facts.todo.push(*only);
                }
                _ => facts.clauses.push(clause),
            }
        }
        true
    }

    /// The first enumerated value of this JSON type that satisfies all facts.
    fn among(&mut self, bit: u8, listed: ConstraintLiteral, facts: &KnownConstraints) -> SolverResult {
        let node = self.pool.shared(listed);
        let ValueConstraint::Enum(values) = &*node else { return SolverResult::Unknown(None) };
        let mut answer = SolverResult::Empty;
        for number in values {
            let value = self.pool.value(*number).clone();
            if types::of(&value) != bit {
                continue;
            }
            match self.fits_all(&facts.roots, &value) {
                Some(true) => return SolverResult::model(value),
                Some(false) => {}
                None => answer = answer.or_else(|| SolverResult::Unknown(Some(Rc::new(value)))),
            }
        }
        answer
    }

    /// Decides the remaining constraints with the theory of the type, when no alternatives are left.
    fn theory(&mut self, bit: u8, facts: &KnownConstraints) -> SolverResult {
        match bit {
            types::NULL => SolverResult::model(Value::Null),
            types::BOOLEAN => {
                for value in [true, false] {
                    let value = Value::from(value);
                    let excluded = facts.known.iter().any(|literal| {
                        literal.is_negative()
                            && matches!(self.pool.node(*literal), ValueConstraint::Enum(values)
                                if self.pool.number_of(&value).is_some_and(|number| values.contains(&number)))
                    });
                    if !excluded {
                        return SolverResult::model(value);
                    }
                }
                SolverResult::Empty
            }
            types::NUMBER => self.numbers(facts),
            types::STRING => self.strings(facts),
            types::ARRAY => self.arrays(facts),
            _ => self.objects(facts),
        }
    }

    /// The values that negated enumerations forbid.
    fn forbidden(&self, facts: &KnownConstraints) -> Vec<&Value> {
        let lists = facts.known.iter().filter(|literal| literal.is_negative());
        lists
            .filter_map(|literal| match self.pool.node(*literal) {
                ValueConstraint::Enum(values) => Some(values),
                _ => None,
            })
            .flatten()
            .map(|number| self.pool.value(*number))
            .collect()
    }
}

/// Whether all literals of `small` are in `large`; both lists must be sorted.
fn is_subset(small: &[ConstraintLiteral], large: &[ConstraintLiteral]) -> bool {
    if small.len() > large.len() {
        return false;
    }
    let mut rest = large.iter();
    small.iter().all(|wanted| rest.any(|literal| literal == wanted))
}
