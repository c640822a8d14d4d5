//! Facts known about one part of a value. They often suffice to prove that the new schema accepts the part.

use serde_json::Value;

use super::node::{ConstraintLiteral, ConstraintNodePool, ValueConstraint};
use super::solve::ConstraintSolver;
use crate::{HashMap, HashSet};

/// A step from a value to a part of it.
#[derive(Clone, Copy)]
pub(crate) enum ValuePathStep {
    /// Descends to a property whose name satisfies the literal.
    Property(ConstraintLiteral),
    /// Descends to an item with an index in the range.
    Item(u64, u64),
    /// Stays at the same value, and assumes this condition.
    Given(ConstraintLiteral),
}

/// Facts that hold for the part at the end of a path, for every value that the old schema accepts.
pub(crate) struct ValuePathFacts {
    pub(crate) facts: Vec<ConstraintLiteral>,
    /// All literals into which the facts decompose.
    pub(crate) granted: HashSet<ConstraintLiteral>,
    named: HashMap<ConstraintLiteral, Vec<ConstraintLiteral>>,
    other_names: Vec<(ConstraintLiteral, ConstraintLiteral)>,
    items: Vec<(u64, u64, ConstraintLiteral)>,
}

impl ValuePathFacts {
    pub(crate) fn new(pool: &ConstraintNodePool, facts: Vec<ConstraintLiteral>) -> Self {
        let mut local = Self {
            granted: HashSet::default(),
            named: HashMap::default(),
            other_names: Vec::new(),
            items: Vec::new(),
            facts: Vec::new(),
        };
        let mut left = facts.clone();
        local.facts = facts;
        while let Some(literal) = left.pop() {
            if !local.granted.insert(literal) || literal.is_negative() {
                continue;
            }
            match pool.node(literal) {
                ValueConstraint::And(parts) => left.extend(parts.iter().copied()),
                ValueConstraint::Ref(number) if !pool.unguarded[*number as usize] => {
                    left.extend(pool.bodies[*number as usize]);
                }
                ValueConstraint::Each { name, value } => match pool.node(*name) {
                    ValueConstraint::Enum(names) if !name.is_negative() && names.len() == 1 => {
                        local.named.entry(*name).or_default().push(*value);
                    }
                    _ => local.other_names.push((*name, *value)),
                },
                ValueConstraint::FewItems { from, to, what, count: 0 } => local.items.push((*from, *to, !*what)),
                _ => {}
            }
        }
        local
    }

    /// The facts that hold after one more step of the path.
    pub(crate) fn inside(&self, solver: &mut ConstraintSolver<'_>, step: ValuePathStep) -> Vec<ConstraintLiteral> {
        match step {
            ValuePathStep::Given(condition) => self.facts.iter().copied().chain([condition]).collect(),
            ValuePathStep::Item(from, to) => {
                let rules = self.items.iter().filter(|rule| rule.0 <= from && rule.1 >= to);
                rules.map(|(.., what)| *what).collect()
            }
            ValuePathStep::Property(name) => {
                let mut facts = self.named.get(&name).cloned().unwrap_or_default();
                let key: Option<Value> = match solver.pool.node(name) {
                    ValueConstraint::Enum(names) if !name.is_negative() && names.len() == 1 => {
                        Some(solver.pool.value(names[0]).clone())
                    }
                    _ => None,
                };
                for (names, value) in &self.other_names {
                    let covers =
                        *names == name || key.as_ref().is_some_and(|key| solver.fits(*names, key) == Some(true));
                    if covers {
                        facts.push(*value);
                    }
                }
                facts
            }
        }
    }
}
