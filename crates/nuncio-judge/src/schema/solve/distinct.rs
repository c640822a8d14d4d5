//! Theory of arrays without equal items: each position takes a value that no other has.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::arrays::{Arrays, Profile, Tally};
use super::{Solver, SolverResult};
use crate::schema::decimal::canonical;
use crate::schema::node::Lit;

/// The longest such array considered.
const MAX_LENGTH: u64 = 80;

/// Some values that satisfy a set of goals.
#[derive(Clone)]
struct Domain {
    values: Vec<Rc<Value>>,
    /// Whether further values may exist that were not found.
    unsure: bool,
}

/// State of the search for one array length.
struct Tries {
    length: u64,
    domains: BTreeMap<Vec<Lit>, Domain>,
    unsure: bool,
}

impl Solver<'_> {
    pub(super) fn distinct(&mut self, arrays: &Arrays, limit: u64) -> SolverResult {
        let mut unsure = false;
        for length in arrays.shortest..=limit {
            if length > MAX_LENGTH {
                return SolverResult::Unknown(None);
            }
            let mut tries = Tries { length, domains: BTreeMap::new(), unsure: false };
            let tally = vec![0; arrays.counts.len()];
            if let Some(list) = self.choose(arrays, &mut tries, &tally, &mut Vec::new()) {
                return SolverResult::model(list);
            }
            unsure |= tries.unsure;
        }
        if unsure { SolverResult::Unknown(None) } else { SolverResult::Empty }
    }

    /// Chooses a profile for the next position, then for the positions after it.
    fn choose(
        &mut self,
        arrays: &Arrays,
        tries: &mut Tries,
        tally: &Tally,
        chosen: &mut Vec<Vec<Lit>>,
    ) -> Option<Value> {
        let position = chosen.len() as u64;
        if !self.spend(1) || !self.enter() {
            tries.unsure = true;
            return None;
        }
        let mut found = None;
        if position == tries.length {
            if arrays.is_met(tally) {
                found = self.assign(tries, chosen);
            }
        } else {
            let profiles: Vec<Profile> = arrays.profiles(position).collect();
            for profile in profiles {
                let Some(next) = arrays.tally(position, profile, tally) else { continue };
                let mut goals = arrays.goals(position, profile);
                goals.sort_unstable();
                goals.dedup();
                if self.domain(tries, &goals).is_empty() {
                    continue;
                }
                chosen.push(goals);
                found = self.choose(arrays, tries, &next, chosen);
                chosen.pop();
                if found.is_some() {
                    break;
                }
            }
        }
        self.leave();
        found
    }

    /// As many different values as the array has positions, or all there are.
    fn domain(&mut self, tries: &mut Tries, goals: &[Lit]) -> Vec<Rc<Value>> {
        if let Some(domain) = tries.domains.get(goals) {
            tries.unsure |= domain.unsure;
            return domain.values.clone();
        }
        let mut domain = Domain { values: Vec::new(), unsure: false };
        while (domain.values.len() as u64) < tries.length {
            let mut asked = goals.to_vec();
            let taken = self.pool.values_of(domain.values.iter().map(|value| &**value));
            asked.push(!taken);
            match self.satisfy(asked) {
                SolverResult::Empty => break,
                SolverResult::Model(value) => domain.values.push(value),
                SolverResult::Unknown(_) => {
                    domain.unsure = true;
                    break;
                }
            }
        }
        tries.unsure |= domain.unsure;
        let values = domain.values.clone();
        tries.domains.insert(goals.to_vec(), domain);
        values
    }

    /// Assigns a different value to each position by augmenting paths.
    fn assign(&mut self, tries: &mut Tries, chosen: &[Vec<Lit>]) -> Option<Value> {
        let domains: Vec<Vec<Rc<Value>>> = chosen.iter().map(|goals| self.domain(tries, goals)).collect();
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
            self.spend(1 + choices[position].len());
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
