//! Theory of arrays: length, items by position, counts by kind, and equal items.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::{ConstraintSolver, KnownConstraints, SolverResult};
use crate::schema::node::{ConstraintLiteral, ValueConstraint};

/// Length of the longest array that the solver considers.
const MAX_LENGTH: u64 = 3_000;
/// Limit of literals whose satisfying items are counted together.
const MAX_COUNTED: usize = 6;
/// Limit of different counts that the solver follows at once.
const MAX_TALLIES: usize = 4_000;

pub(super) struct ArrayConstraints {
    pub(super) shortest: u64,
    pub(super) longest: u64,
    /// Ranges of positions with a literal that their items must satisfy.
    rules: Vec<(u64, u64, ConstraintLiteral)>,
    pub(super) counts: Vec<ItemCountRule>,
    /// Literals whose satisfying items are counted, without duplicates.
    pub(super) counted: Vec<ConstraintLiteral>,
    distinct: bool,
    repeated: bool,
    /// Position from which on all positions have the same constraints.
    tail: u64,
}

/// How many items of a range may or must satisfy a counted literal.
pub(super) struct ItemCountRule {
    from: u64,
    to: u64,
    /// Index into `counted`.
    what: usize,
    pub(super) count: u64,
    pub(super) at_least: bool,
}

/// Bit set of the counted literals that an item is assumed to satisfy.
pub(super) type CountedLiteralSet = u32;
/// Numbers of items so far that satisfy each counted literal, each capped where further items no longer matter.
pub(super) type CappedCounts = Vec<u64>;

/// Predecessor of each state of a built array: previous counts, previous literal set, and the item's value.
type TallyPredecessors = BTreeMap<(CappedCounts, CountedLiteralSet), (CappedCounts, CountedLiteralSet, Rc<Value>)>;

impl ArrayConstraints {
    /// Adds the constraints on an item at a position that do not depend on its counted literals.
    fn base(&self, position: u64, into: &mut Vec<ConstraintLiteral>) {
        into.extend(self.rules.iter().filter(|(from, to, _)| (*from..*to).contains(&position)).map(|(.., what)| *what));
    }

    /// The counted literals that apply at a position.
    fn relevant(&self, position: u64) -> CountedLiteralSet {
        let here = self.counts.iter().filter(|count| (count.from..count.to).contains(&position));
        here.fold(0, |all, count| all | 1 << count.what)
    }

    /// Adds the constraints on an item at a position that follow from its assumed counted literals.
    fn profile(&self, position: u64, profile: CountedLiteralSet, into: &mut Vec<ConstraintLiteral>) {
        for count in self.counts.iter().filter(|count| (count.from..count.to).contains(&position)) {
            let claimed = profile & 1 << count.what != 0;
            // An item not assumed to satisfy a minimum may still do so; one assumed to satisfy a maximum need not.
            match (claimed, count.at_least) {
                (true, true) => into.push(self.counted[count.what]),
                (false, false) => into.push(!self.counted[count.what]),
                _ => {}
            }
        }
    }

    pub(super) fn goals(&self, position: u64, profile: CountedLiteralSet) -> Vec<ConstraintLiteral> {
        let mut goals = Vec::new();
        self.base(position, &mut goals);
        self.profile(position, profile, &mut goals);
        goals
    }

    /// The counts after one more item; `None` if a maximum is exceeded.
    pub(super) fn tally(
        &self,
        position: u64,
        profile: CountedLiteralSet,
        tally: &CappedCounts,
    ) -> Option<CappedCounts> {
        let mut next = tally.clone();
        for (count, value) in self.counts.iter().zip(&mut next) {
            if (count.from..count.to).contains(&position) && profile & 1 << count.what != 0 {
                if count.at_least {
                    *value = count.count.min(*value + 1);
                } else if *value >= count.count {
                    return None;
                } else {
                    *value += 1;
                }
            }
        }
        Some(next)
    }

    pub(super) fn is_met(&self, tally: &CappedCounts) -> bool {
        self.counts.iter().zip(tally).all(|(count, value)| !count.at_least || *value >= count.count)
    }

    /// The possible sets of counted literals of an item at a position.
    pub(super) fn profiles(&self, position: u64) -> impl Iterator<Item = CountedLiteralSet> + use<> {
        let relevant = self.relevant(position);
        (0..=relevant).filter(move |profile| profile & !relevant == 0)
    }
}

impl ConstraintSolver<'_> {
    pub(super) fn arrays(&mut self, facts: &KnownConstraints) -> SolverResult {
        let mut arrays = ArrayConstraints {
            shortest: 0,
            longest: u64::MAX,
            rules: Vec::new(),
            counts: Vec::new(),
            counted: Vec::new(),
            distinct: false,
            repeated: false,
            tail: 0,
        };
        for literal in &facts.known {
            let negative = literal.is_negative();
            match (self.pool.node(*literal), negative) {
                (ValueConstraint::MinItems(count), false) => arrays.shortest = arrays.shortest.max(*count),
                (ValueConstraint::MinItems(count), true) => {
                    arrays.longest = arrays.longest.min(count.saturating_sub(1));
                }
                (ValueConstraint::MaxItems(count), false) => arrays.longest = arrays.longest.min(*count),
                (ValueConstraint::MaxItems(count), true) => arrays.shortest = arrays.shortest.max(count + 1),
                (ValueConstraint::UniqueItems, false) => arrays.distinct = true,
                (ValueConstraint::UniqueItems, true) => arrays.repeated = true,
                (ValueConstraint::SomeItems { from, to, what, count }, _) => {
                    arrays.count(
                        (*from, *to),
                        *what,
                        if negative { count.saturating_sub(1) } else { *count },
                        !negative,
                    );
                }
                (ValueConstraint::FewItems { from, to, what, count }, _) => {
                    arrays.count((*from, *to), *what, if negative { count + 1 } else { *count }, negative);
                }
                _ => {}
            }
        }
        if arrays.repeated {
            arrays.shortest = arrays.shortest.max(2);
        }
        let demanded = arrays.counts.iter().filter(|count| count.at_least);
        let demanded = demanded.fold(0u64, |sum, count| sum.saturating_add(count.count));
        if arrays.shortest > arrays.longest {
            return SolverResult::Empty;
        }
        // A position that no item can take limits the array's length.
        let mut position = 0;
        while position <= arrays.tail && position < arrays.longest {
            if !self.spend(1) {
                return SolverResult::Unknown(None);
            }
            let mut goals = Vec::new();
            arrays.base(position, &mut goals);
            if self.satisfy(goals).is_empty() {
                arrays.longest = position;
            }
            position += 1;
        }
        if arrays.shortest > arrays.longest {
            return SolverResult::Empty;
        }
        // More items than this number never help to satisfy the constraints.
        let enough = arrays.tail.saturating_add(demanded).saturating_add(if arrays.repeated { 2 } else { 0 });
        let limit = arrays.longest.min(arrays.shortest.max(enough));
        if limit > MAX_LENGTH || arrays.counted.len() > MAX_COUNTED {
            return SolverResult::Unknown(None);
        }
        if arrays.distinct {
            return self.distinct(&arrays, limit);
        }
        if !arrays.repeated {
            return self.lay_out(&arrays, limit, None);
        }
        // Two equal items can be assumed in the prefix, or at the first positions after it.
        let last = (arrays.tail + 1).min(limit.saturating_sub(1));
        let mut answer = SolverResult::Empty;
        for second in 1..=last {
            for first in 0..second {
                answer = answer.or_else(|| self.lay_out(&arrays, limit, Some((first, second))));
                if matches!(answer, SolverResult::Model(_)) {
                    return answer;
                }
            }
        }
        answer
    }

    /// Builds the array item by item, following all possible counts at once. With `pair`, the items at these two
    /// positions are equal.
    fn lay_out(&mut self, arrays: &ArrayConstraints, limit: u64, pair: Option<(u64, u64)>) -> SolverResult {
        let mut layers: Vec<TallyPredecessors> = Vec::new();
        let mut tallies: Vec<(CappedCounts, CountedLiteralSet)> = vec![(vec![0; arrays.counts.len()], 0)];
        let mut unsure = false;
        for length in 0..=limit {
            let done = length >= arrays.shortest && pair.is_none_or(|(_, second)| length > second);
            if done && let Some(end) = tallies.iter().find(|(tally, _)| arrays.is_met(tally)) {
                let list = spell(&layers, end.clone());
                return list.map_or(SolverResult::Unknown(None), |list| {
                    if unsure { SolverResult::Unknown(Some(Rc::new(list))) } else { SolverResult::model(list) }
                });
            }
            if length == limit || tallies.is_empty() {
                break;
            }
            let mut layer = TallyPredecessors::new();
            let paired = pair.filter(|(first, second)| [*first, *second].contains(&length));
            for (profile, value) in self.items(arrays, length, paired, &mut unsure) {
                for (tally, shared) in &tallies {
                    if !self.spend(1) {
                        return SolverResult::Unknown(None);
                    }
                    // The second item of the pair satisfies the same counted literals as the first.
                    let is_second = paired.is_some_and(|(_, second)| second == length);
                    if is_second && *shared != profile {
                        continue;
                    }
                    let Some(next) = arrays.tally(length, profile, tally) else { continue };
                    let keeps = if paired.is_some() && !is_second { profile } else { *shared };
                    layer.entry((next, keeps)).or_insert_with(|| (tally.clone(), *shared, Rc::clone(&value)));
                }
            }
            if layer.len() > MAX_TALLIES {
                return SolverResult::Unknown(None);
            }
            tallies = layer.keys().cloned().collect();
            layers.push(layer);
        }
        if unsure { SolverResult::Unknown(None) } else { SolverResult::Empty }
    }

    /// The possible sets of counted literals of an item at a position, with a value for each.
    fn items(
        &mut self,
        arrays: &ArrayConstraints,
        position: u64,
        pair: Option<(u64, u64)>,
        unsure: &mut bool,
    ) -> Vec<(CountedLiteralSet, Rc<Value>)> {
        let relevant =
            pair.map_or(arrays.relevant(position), |(first, second)| arrays.relevant(first) | arrays.relevant(second));
        let mut found = Vec::new();
        for profile in (0..=relevant).filter(|profile| profile & !relevant == 0) {
            let goals = match pair {
                None => arrays.goals(position, profile),
                Some((first, second)) => {
                    let mut goals = arrays.goals(first, profile);
                    goals.extend(arrays.goals(second, profile));
                    goals
                }
            };
            match self.satisfy(goals) {
                SolverResult::Empty => {}
                SolverResult::Model(value) => found.push((profile, value)),
                SolverResult::Unknown(value) => {
                    *unsure = true;
                    found.extend(value.map(|value| (profile, value)));
                }
            }
        }
        found
    }
}

impl ArrayConstraints {
    fn count(&mut self, (from, to): (u64, u64), what: ConstraintLiteral, count: u64, at_least: bool) {
        let beyond = if to == u64::MAX { from } else { to };
        self.tail = self.tail.max(beyond);
        match (at_least, count) {
            (true, 0) => {}
            (false, 0) => self.rules.push((from, to, !what)),
            _ => {
                let known = self.counted.iter().position(|counted| *counted == what);
                let what = known.unwrap_or_else(|| {
                    self.counted.push(what);
                    self.counted.len() - 1
                });
                self.counts.push(ItemCountRule { from, to, what, count, at_least });
            }
        }
    }
}

fn spell(layers: &[TallyPredecessors], end: (CappedCounts, CountedLiteralSet)) -> Option<Value> {
    let mut items = Vec::new();
    let mut at = end;
    for layer in layers.iter().rev() {
        let (tally, shared, value) = layer.get(&at)?;
        items.push((**value).clone());
        at = (tally.clone(), *shared);
    }
    items.reverse();
    Some(Value::Array(items))
}
