//! Theory of strings: lengths and patterns, solved by a product of automata.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ConstraintSolver, KnownConstraints, SolverResult};
use crate::HashMap;
use crate::schema::node::ValueConstraint;
use crate::schema::regex::{AutomatonRunState, RegexAutomaton};

/// Preferred characters for a readable witness, best first.
const PREFERRED_CHARACTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_- .:/@";
/// Length of the longest string that is generated, in characters.
const MAX_LENGTH: u64 = 20_000;

impl ConstraintSolver<'_> {
    pub(super) fn strings(&mut self, facts: &KnownConstraints) -> SolverResult {
        let (mut shortest, mut longest) = (0, u64::MAX);
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for literal in &facts.known {
            match (self.pool.node(*literal), literal.is_negative()) {
                (ValueConstraint::MinLength(count), false) => shortest = shortest.max(*count),
                (ValueConstraint::MinLength(count), true) => longest = longest.min(count.saturating_sub(1)),
                (ValueConstraint::MaxLength(count), false) => longest = longest.min(*count),
                (ValueConstraint::MaxLength(count), true) => shortest = shortest.max(count + 1),
                (ValueConstraint::Pattern(pattern), false) => wanted.push(*pattern),
                (ValueConstraint::Pattern(pattern), true) => unwanted.push(*pattern),
                _ => {}
            }
        }
        if shortest > longest {
            return SolverResult::Empty;
        }
        if shortest > MAX_LENGTH {
            return SolverResult::Unknown(None);
        }
        // Patterns that are not understood are left out; the caller takes that into account.
        let wanted: Vec<u32> =
            wanted.into_iter().filter(|pattern| self.pool.regex(*pattern, self.dot).is_some()).collect();
        let unwanted: Vec<u32> =
            unwanted.into_iter().filter(|pattern| self.pool.regex(*pattern, self.dot).is_some()).collect();
        let forbidden: Vec<String> =
            self.forbidden(facts).into_iter().filter_map(|value| value.as_str().map(str::to_owned)).collect();
        if wanted.is_empty() && unwanted.is_empty() {
            // If only the length matters, all characters are `a`.
            let text = "a".repeat(usize::try_from(shortest).unwrap_or_default());
            if !forbidden.contains(&text) {
                self.spend(1 + text.len() / 16);
                return SolverResult::model(Value::from(text));
            }
        }
        let mut steps = self.steps_left();
        let answer = {
            let dot = self.dot;
            let regex = |pattern: &u32| self.pool.regex(*pattern, dot);
            let wanted: Vec<&RegexAutomaton> = wanted.iter().filter_map(regex).collect();
            let unwanted: Vec<&RegexAutomaton> = unwanted.iter().filter_map(regex).collect();
            AutomataProduct::new(&wanted, &unwanted, &forbidden, &mut steps).search(shortest, longest)
        };
        self.spend(self.steps_left() - steps);
        answer
    }
}

/// The product of all pattern automata, run in parallel, with the forbidden strings as a trie.
struct AutomataProduct<'r> {
    wanted: &'r [&'r RegexAutomaton],
    unwanted: &'r [&'r RegexAutomaton],
    /// One character of each class of characters that the automata distinguish.
    kinds: Vec<char>,
    tree: Vec<TrieNode>,
    states: Vec<AutomataProductState>,
    numbers: HashMap<AutomataProductState, usize>,
    next: HashMap<usize, Vec<usize>>,
    cost: usize,
    steps: &'r mut usize,
}

/// A node of the trie of forbidden strings.
#[derive(Default)]
struct TrieNode {
    next: BTreeMap<char, usize>,
    ends: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct AutomataProductState {
    positions: Vec<AutomatonRunState>,
    /// Node in the trie of forbidden strings; `None` once the string has left the trie.
    branch: Option<usize>,
}

/// Predecessor of each product state: the previous state and the character.
type StatePredecessors = BTreeMap<usize, (usize, char)>;

impl<'r> AutomataProduct<'r> {
    fn new(
        wanted: &'r [&'r RegexAutomaton],
        unwanted: &'r [&'r RegexAutomaton],
        forbidden: &[String],
        steps: &'r mut usize,
    ) -> Self {
        let mut tree = vec![TrieNode::default()];
        let mut edges = Vec::new();
        for text in forbidden {
            let mut at = 0;
            for char in text.chars() {
                edges.extend([u32::from(char), u32::from(char) + 1]);
                let fresh = tree.len();
                let next = *tree[at].next.entry(char).or_insert(fresh);
                if next == fresh {
                    tree.push(TrieNode::default());
                }
                at = next;
            }
            tree[at].ends = true;
        }
        for regex in wanted.iter().chain(unwanted) {
            regex.boundaries(&mut edges);
        }
        edges.push(0);
        edges.sort_unstable();
        edges.dedup();
        let mut kinds = BTreeSet::new();
        let mut order = Vec::new();
        let firsts = edges.iter().filter_map(|edge| {
            char::from_u32(*edge).or(char::from_u32(0xe000).filter(|_| (0xd800..0xe000).contains(edge)))
        });
        for char in PREFERRED_CHARACTERS.chars().chain(firsts) {
            let kind = edges.partition_point(|edge| *edge <= u32::from(char));
            if kinds.insert(kind) {
                order.push(char);
            }
        }
        let cost = wanted.iter().chain(unwanted).map(|regex| 1 + regex.size() / 8).sum::<usize>() + 1;
        Self {
            wanted,
            unwanted,
            kinds: order,
            tree,
            states: Vec::new(),
            numbers: HashMap::default(),
            next: HashMap::default(),
            cost,
            steps,
        }
    }

    fn number(&mut self, state: AutomataProductState) -> usize {
        if let Some(&number) = self.numbers.get(&state) {
            return number;
        }
        self.states.push(state.clone());
        self.numbers.insert(state, self.states.len() - 1);
        self.states.len() - 1
    }

    /// The product states after each character class; `None` when the budget is spent.
    fn followers(&mut self, from: usize) -> Option<Vec<usize>> {
        if let Some(known) = self.next.get(&from) {
            return Some(known.clone());
        }
        let cost = self.cost.saturating_mul(self.kinds.len());
        if *self.steps < cost {
            *self.steps = 0;
            return None;
        }
        *self.steps -= cost;
        let state = self.states[from].clone();
        let kinds = std::mem::take(&mut self.kinds);
        let followers: Vec<usize> = kinds
            .iter()
            .map(|char| {
                let automata = self.wanted.iter().chain(self.unwanted);
                let positions =
                    automata.zip(&state.positions).map(|(regex, position)| regex.step(position, *char)).collect();
                let branch = state.branch.and_then(|branch| self.tree[branch].next.get(char).copied());
                self.number(AutomataProductState { positions, branch })
            })
            .collect();
        self.kinds = kinds;
        self.next.insert(from, followers.clone());
        Some(followers)
    }

    fn accepts(&self, number: usize) -> bool {
        let state = &self.states[number];
        let (wanted, unwanted) = state.positions.split_at(self.wanted.len());
        self.wanted.iter().zip(wanted).all(|(regex, position)| regex.accepts(position))
            && !self.unwanted.iter().zip(unwanted).any(|(regex, position)| regex.accepts(position))
            && state.branch.is_none_or(|branch| !self.tree[branch].ends)
    }

    /// The first string of an allowed length that satisfies all pattern automata.
    fn search(mut self, shortest: u64, longest: u64) -> SolverResult {
        let automata = self.wanted.iter().chain(self.unwanted);
        let positions = automata.map(|regex| regex.begin()).collect();
        let start = self.number(AutomataProductState { positions, branch: Some(0) });
        // First step: the states after exactly `shortest` characters.
        let mut trails: Vec<StatePredecessors> = Vec::new();
        let mut layer: Vec<usize> = vec![start];
        let mut settled = None;
        for length in 0..shortest {
            let mut trail = StatePredecessors::new();
            for from in &layer {
                let Some(followers) = self.followers(*from) else { return SolverResult::Unknown(None) };
                for (kind, to) in followers.into_iter().enumerate() {
                    trail.entry(to).or_insert((*from, self.kinds[kind]));
                }
            }
            let next: Vec<usize> = trail.keys().copied().collect();
            trails.push(trail);
            if next == layer {
                settled = Some(length);
                break;
            }
            layer = next;
        }
        // Second step: longer strings; a state seen before leads to nothing new.
        let mut onward = StatePredecessors::new();
        let mut seen = vec![false; self.states.len()];
        for state in &layer {
            seen[*state] = true;
        }
        let mut edge = layer;
        let mut length = shortest;
        loop {
            if let Some(end) = edge.iter().copied().find(|state| self.accepts(*state)) {
                return self.spell(end, start, shortest, &trails, settled, &onward);
            }
            if length >= longest || edge.is_empty() {
                return SolverResult::Empty;
            }
            let mut next = Vec::new();
            for from in &edge {
                let Some(followers) = self.followers(*from) else { return SolverResult::Unknown(None) };
                seen.resize(self.states.len(), false);
                for (kind, to) in followers.into_iter().enumerate() {
                    if !std::mem::replace(&mut seen[to], true) {
                        onward.insert(to, (*from, self.kinds[kind]));
                        next.push(to);
                    }
                }
            }
            edge = next;
            length += 1;
        }
    }

    fn spell(
        &self,
        end: usize,
        start: usize,
        shortest: u64,
        trails: &[StatePredecessors],
        settled: Option<u64>,
        onward: &StatePredecessors,
    ) -> SolverResult {
        let mut chars = Vec::new();
        let mut at = end;
        while let Some((from, char)) = onward.get(&at) {
            chars.push(*char);
            at = *from;
        }
        for length in (0..shortest).rev() {
            let trail = settled.map_or(length, |settled| length.min(settled));
            let Some((from, char)) = usize::try_from(trail).ok().and_then(|trail| trails.get(trail)?.get(&at)) else {
                return SolverResult::Unknown(None);
            };
            chars.push(*char);
            at = *from;
        }
        if at != start {
            return SolverResult::Unknown(None);
        }
        SolverResult::model(Value::from(chars.into_iter().rev().collect::<String>()))
    }
}
