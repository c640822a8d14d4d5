//! Theory of arrays without equal items: each position takes a value that no other has.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::arrays::{ArrayConstraints, CappedCounts, CountedLiteralSet};
use super::{ConstraintSolver, SolverResult};
use crate::schema::decimal::canonical;
use crate::schema::node::ConstraintLiteral;

/// Length of the longest array without equal items that the solver considers.
const MAX_LENGTH: u64 = 80;

/// Some values that satisfy a set of goals.
#[derive(Clone)]
struct CandidateValues {
    values: Vec<Rc<Value>>,
    /// Whether further values may exist that the search did not find.
    unsure: bool,
}

/// Search for an array without equal items of one length.
struct ArraySearch<'s, 'p> {
    solver: &'s mut ConstraintSolver<'p>,
    arrays: &'s ArrayConstraints,
    length: u64,
    domains: BTreeMap<Vec<ConstraintLiteral>, CandidateValues>,
    unsure: bool,
}

impl ConstraintSolver<'_> {
    pub(super) fn distinct(&mut self, arrays: &ArrayConstraints, limit: u64) -> SolverResult {
        let mut unsure = false;
        for length in arrays.shortest..=limit {
            if length > MAX_LENGTH {
                return SolverResult::Unknown(None);
            }
            let mut search = ArraySearch { solver: self, arrays, length, domains: BTreeMap::new(), unsure: false };
            let tally = vec![0; arrays.counts.len()];
            if let Some(list) = search.choose(&tally, &mut Vec::new()) {
                return SolverResult::model(list);
            }
            unsure |= search.unsure;
        }
        if unsure { SolverResult::Unknown(None) } else { SolverResult::Empty }
    }
}

impl ArraySearch<'_, '_> {
    /// Chooses the counted literals of the item at the next position, then at the positions after it.
    fn choose(&mut self, tally: &CappedCounts, chosen: &mut Vec<Vec<ConstraintLiteral>>) -> Option<Value> {
        let position = chosen.len() as u64;
        if !self.solver.spend(1) || !self.solver.enter() {
            self.unsure = true;
            return None;
        }
        let mut found = None;
        if position == self.length {
            if self.arrays.is_met(tally) {
                found = self.assign(chosen);
            }
        } else {
            let profiles: Vec<CountedLiteralSet> = self.arrays.profiles(position).collect();
            for profile in profiles {
                let Some(next) = self.arrays.tally(position, profile, tally) else { continue };
                let mut goals = self.arrays.goals(position, profile);
                goals.sort_unstable();
                goals.dedup();
                if self.domain(&goals).is_empty() {
                    continue;
                }
                chosen.push(goals);
                found = self.choose(&next, chosen);
                chosen.pop();
                if found.is_some() {
                    break;
                }
            }
        }
        self.solver.leave();
        found
    }

    /// As many different values of these goals as the array has positions, or all values there are.
    fn domain(&mut self, goals: &[ConstraintLiteral]) -> Vec<Rc<Value>> {
        if let Some(domain) = self.domains.get(goals) {
            self.unsure |= domain.unsure;
            return domain.values.clone();
        }
        let mut domain = CandidateValues { values: Vec::new(), unsure: false };
        while (domain.values.len() as u64) < self.length {
            let mut asked = goals.to_vec();
            let taken = self.solver.pool.values_of(domain.values.iter().map(|value| &**value));
            asked.push(!taken);
            match self.solver.satisfy(asked) {
                SolverResult::Empty => break,
                SolverResult::Model(value) => domain.values.push(value),
                SolverResult::Unknown(_) => {
                    domain.unsure = true;
                    break;
                }
            }
        }
        self.unsure |= domain.unsure;
        let values = domain.values.clone();
        self.domains.insert(goals.to_vec(), domain);
        values
    }

    /// Assigns a different value to each position by augmenting paths.
    fn assign(&mut self, chosen: &[Vec<ConstraintLiteral>]) -> Option<Value> {
        let domains: Vec<Vec<Rc<Value>>> = chosen.iter().map(|goals| self.domain(goals)).collect();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut values: Vec<Rc<Value>> = Vec::new();
        let choices: Vec<Vec<usize>> = domains
            .iter()
            .map(|domain| {
                let number = |value: &Rc<Value>| {
                    *numbers.entry(canonical(value)).or_insert_with(|| {
                        values.push(Rc::clone(value));
                        values.len() - 1
                    })
                };
                domain.iter().map(number).collect()
            })
            .collect();
        let mut owner: Vec<Option<usize>> = vec![None; values.len()];
        for position in 0..choices.len() {
            self.solver.spend(1 + choices[position].len());
            if !claim(position, &choices, &mut owner, &mut vec![false; values.len()]) {
                return None;
            }
        }
        let mut list = vec![Value::Null; choices.len()];
        for (value, owner) in values.iter().zip(&owner) {
            if let Some(position) = owner {
                list[*position] = (**value).clone();
            }
        }
        Some(Value::Array(list))
    }
}

fn claim(position: usize, choices: &[Vec<usize>], owner: &mut [Option<usize>], seen: &mut [bool]) -> bool {
    for value in &choices[position] {
        if std::mem::replace(&mut seen[*value], true) {
            continue;
        }
        if owner[*value].is_none_or(|other| claim(other, choices, owner, seen)) {
            owner[*value] = Some(position);
            return true;
        }
    }
    false
}
