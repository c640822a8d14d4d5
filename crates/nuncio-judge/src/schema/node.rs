//! Schemas as shared constraint nodes: equal parts of both schemas are one node.

use std::cell::OnceCell;
use std::rc::Rc;

use serde_json::Value;

use super::decimal::{Decimal, canonical};
use super::regex::RegexAutomaton;
use crate::HashMap;

/// The six JSON types as bits. An integer is a number that is a multiple of one.
pub(crate) mod types {
    pub(crate) const NULL: u8 = 1;
    pub(crate) const BOOLEAN: u8 = 2;
    pub(crate) const NUMBER: u8 = 4;
    pub(crate) const STRING: u8 = 8;
    pub(crate) const ARRAY: u8 = 16;
    pub(crate) const OBJECT: u8 = 32;
    pub(crate) const ALL: u8 = 63;

    pub(crate) fn of(value: &serde_json::Value) -> u8 {
        match value {
            serde_json::Value::Null => NULL,
            serde_json::Value::Bool(_) => BOOLEAN,
            serde_json::Value::Number(_) => NUMBER,
            serde_json::Value::String(_) => STRING,
            serde_json::Value::Array(_) => ARRAY,
            serde_json::Value::Object(_) => OBJECT,
        }
    }
}

/// A constraint node or its negation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConstraintLiteral(u32);

impl ConstraintLiteral {
    pub(crate) const TRUE: Self = Self(0);
    pub(crate) const FALSE: Self = Self(1);

    pub(crate) fn negated(self) -> Self {
        Self(self.0 ^ 1)
    }

    pub(crate) fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }

    fn index(self) -> usize {
        (self.0 >> 1) as usize
    }
}

impl std::ops::Not for ConstraintLiteral {
    type Output = Self;

    fn not(self) -> Self {
        self.negated()
    }
}

/// One constraint on a value. A constraint on one type holds for all values of other types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ValueConstraint {
    True,
    And(Box<[ConstraintLiteral]>),
    /// Exactly one of the literals holds.
    OneOf(Box<[ConstraintLiteral]>),
    /// The constraint of the schema that the reference with this number leads to.
    Ref(u32),
    /// A constraint that is not understood; equal numbers mean equal constraints.
    Opaque(u32),
    /// The value has one of these JSON types (bits).
    Types(u8),
    /// The value is one of the constants with these numbers in the pool.
    Enum(Box<[u32]>),
    AtLeast {
        bound: Decimal,
        exclusive: bool,
    },
    AtMost {
        bound: Decimal,
        exclusive: bool,
    },
    MultipleOf(Decimal),
    MinLength(u64),
    MaxLength(u64),
    Pattern(u32),
    MinItems(u64),
    MaxItems(u64),
    UniqueItems,
    /// At least this many of the items at `from..to` satisfy the literal.
    SomeItems {
        from: u64,
        to: u64,
        what: ConstraintLiteral,
        count: u64,
    },
    /// At most this many of the items at `from..to` satisfy the literal.
    FewItems {
        from: u64,
        to: u64,
        what: ConstraintLiteral,
        count: u64,
    },
    MinProperties(u64),
    MaxProperties(u64),
    /// Every property whose name satisfies `name` has a value that satisfies `value`.
    Each {
        name: ConstraintLiteral,
        value: ConstraintLiteral,
    },
}

/// The JSON types for which a literal can hold, and those for which it can fail.
#[derive(Debug, Clone, Copy)]
struct PossibleTypes {
    holds: u8,
    fails: u8,
}

/// All constraint nodes of a comparison.
pub(crate) struct ConstraintNodePool {
    nodes: Vec<Rc<ValueConstraint>>,
    reach: Vec<PossibleTypes>,
    by_node: HashMap<Rc<ValueConstraint>, u32>,
    values: Vec<Value>,
    by_value: HashMap<String, u32>,
    /// Pool numbers of text values, which are the most frequent.
    by_text: HashMap<String, u32>,
    patterns: Vec<RegexPattern>,
    by_pattern: HashMap<String, u32>,
    by_opaque: HashMap<String, u32>,
    /// The literal of each reference; `None` until its schema is translated.
    pub(crate) bodies: Vec<Option<ConstraintLiteral>>,
    /// For each reference, whether it leads back to itself without descending into the value.
    pub(crate) unguarded: Vec<bool>,
}

/// A regular expression.
struct RegexPattern {
    text: String,
    /// The compiled expression for each [`DotMeaning`], set when first needed; `None` if the expression is not
    /// supported.
    readings: [OnceCell<Option<RegexAutomaton>>; 2],
}

/// Meaning of a dot in a regular expression: it excludes only the line feed, or all four line terminators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DotMeaning {
    NotLineFeed,
    NotLineTerminator,
}

impl ConstraintNodePool {
    pub(crate) fn new() -> Self {
        let mut pool = Self {
            nodes: Vec::new(),
            reach: Vec::new(),
            by_node: HashMap::default(),
            values: Vec::new(),
            by_value: HashMap::default(),
            by_text: HashMap::default(),
            patterns: Vec::new(),
            by_pattern: HashMap::default(),
            by_opaque: HashMap::default(),
            bodies: Vec::new(),
            unguarded: Vec::new(),
        };
        pool.add(ValueConstraint::True);
        pool
    }

    /// The literal of a node, which is added if it is new.
    pub(crate) fn add(&mut self, node: ValueConstraint) -> ConstraintLiteral {
        if let Some(&index) = self.by_node.get(&node) {
            return ConstraintLiteral(index << 1);
        }
        let reach = self.reach_of(&node);
        let index = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX >> 1);
        let node = Rc::new(node);
        self.nodes.push(Rc::clone(&node));
        self.reach.push(reach);
        self.by_node.insert(node, index);
        ConstraintLiteral(index << 1)
    }

    fn reach_of(&self, node: &ValueConstraint) -> PossibleTypes {
        use types::{ALL, ARRAY, NUMBER, OBJECT, STRING};
        let only = |fails| PossibleTypes { holds: ALL, fails };
        match node {
            ValueConstraint::True => only(0),
            ValueConstraint::And(parts) => parts.iter().fold(only(0), |sum, part| PossibleTypes {
                holds: sum.holds & self.holds(*part),
                fails: sum.fails | self.fails(*part),
            }),
            ValueConstraint::OneOf(parts) => {
                PossibleTypes { holds: parts.iter().fold(0, |sum, part| sum | self.holds(*part)), fails: ALL }
            }
            ValueConstraint::Ref(_) | ValueConstraint::Opaque(_) => only(ALL),
            ValueConstraint::Types(types) => PossibleTypes { holds: *types, fails: ALL & !types },
            ValueConstraint::Enum(values) => {
                let holds = values.iter().fold(0, |sum, value| sum | types::of(self.value(*value)));
                PossibleTypes { holds, fails: if holds & types::NULL == 0 { ALL } else { ALL & !types::NULL } }
            }
            ValueConstraint::AtLeast { .. } | ValueConstraint::AtMost { .. } | ValueConstraint::MultipleOf(_) => {
                only(NUMBER)
            }
            ValueConstraint::MinLength(_) | ValueConstraint::MaxLength(_) | ValueConstraint::Pattern(_) => only(STRING),
            ValueConstraint::MinItems(_)
            | ValueConstraint::MaxItems(_)
            | ValueConstraint::UniqueItems
            | ValueConstraint::SomeItems { .. }
            | ValueConstraint::FewItems { .. } => only(ARRAY),
            ValueConstraint::MinProperties(_) | ValueConstraint::MaxProperties(_) | ValueConstraint::Each { .. } => {
                only(OBJECT)
            }
        }
    }

    pub(crate) fn node(&self, literal: ConstraintLiteral) -> &ValueConstraint {
        &self.nodes[literal.index()]
    }

    /// A shared handle of a literal's node, which stays valid while the pool grows.
    pub(crate) fn shared(&self, literal: ConstraintLiteral) -> Rc<ValueConstraint> {
        Rc::clone(&self.nodes[literal.index()])
    }

    /// The JSON types whose values can satisfy the literal.
    pub(crate) fn holds(&self, literal: ConstraintLiteral) -> u8 {
        let reach = self.reach[literal.index()];
        if literal.is_negative() { reach.fails } else { reach.holds }
    }

    /// The JSON types whose values can violate the literal.
    pub(crate) fn fails(&self, literal: ConstraintLiteral) -> u8 {
        self.holds(!literal)
    }

    pub(crate) fn and(&mut self, parts: impl IntoIterator<Item = ConstraintLiteral>) -> ConstraintLiteral {
        let mut flat: Vec<ConstraintLiteral> = Vec::new();
        for part in parts {
            match self.node(part) {
                ValueConstraint::And(inner) if !part.is_negative() => flat.extend_from_slice(inner),
                _ => flat.push(part),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        flat.retain(|part| *part != ConstraintLiteral::TRUE);
        // In sorted order a node and its negation are adjacent.
        if flat.contains(&ConstraintLiteral::FALSE) || flat.windows(2).any(|pair| pair[0] == !pair[1]) {
            return ConstraintLiteral::FALSE;
        }
        match flat.as_slice() {
            [] => ConstraintLiteral::TRUE,
            [only] => *only,
            _ => self.add(ValueConstraint::And(flat.into())),
        }
    }

    pub(crate) fn or(&mut self, parts: impl IntoIterator<Item = ConstraintLiteral>) -> ConstraintLiteral {
        let negated: Vec<ConstraintLiteral> = parts.into_iter().map(ConstraintLiteral::negated).collect();
        !self.and(negated)
    }

    pub(crate) fn one_of(&mut self, mut parts: Vec<ConstraintLiteral>) -> ConstraintLiteral {
        parts.retain(|part| *part != ConstraintLiteral::FALSE);
        parts.sort_unstable();
        match parts.as_slice() {
            [] => ConstraintLiteral::FALSE,
            [only] => *only,
            _ => self.add(ValueConstraint::OneOf(parts.into())),
        }
    }

    pub(crate) fn types(&mut self, mask: u8) -> ConstraintLiteral {
        match mask {
            types::ALL => ConstraintLiteral::TRUE,
            0 => ConstraintLiteral::FALSE,
            _ => self.add(ValueConstraint::Types(mask)),
        }
    }

    pub(crate) fn one_value(&mut self, value: &Value) -> ConstraintLiteral {
        self.values_of([value])
    }

    pub(crate) fn values_of<'a>(&mut self, values: impl IntoIterator<Item = &'a Value>) -> ConstraintLiteral {
        let numbers = values.into_iter().map(|value| self.intern(value)).collect();
        self.numbered(numbers)
    }

    fn numbered(&mut self, mut numbers: Vec<u32>) -> ConstraintLiteral {
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() { ConstraintLiteral::FALSE } else { self.add(ValueConstraint::Enum(numbers.into())) }
    }

    pub(crate) fn name(&mut self, name: &str) -> ConstraintLiteral {
        let number = self.intern_text(name);
        self.add(ValueConstraint::Enum([number].into()))
    }

    /// The literal for a property name that is one of these names.
    pub(crate) fn names<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> ConstraintLiteral {
        let numbers = names.into_iter().map(|name| self.intern_text(name)).collect();
        self.numbered(numbers)
    }

    fn intern(&mut self, value: &Value) -> u32 {
        if let Value::String(text) = value {
            return self.intern_text(text);
        }
        let text = canonical(value);
        if let Some(&number) = self.by_value.get(&text) {
            return number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.by_value.insert(text, number);
        number
    }

    fn intern_text(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.by_text.get(text) {
            return number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(Value::from(text));
        self.by_text.insert(text.to_owned(), number);
        number
    }

    /// The pool number of a value that some schema or search has used.
    pub(crate) fn number_of(&self, value: &Value) -> Option<u32> {
        match value {
            Value::String(text) => self.by_text.get(text).copied(),
            other => self.by_value.get(&canonical(other)).copied(),
        }
    }

    pub(crate) fn value(&self, number: u32) -> &Value {
        &self.values[number as usize]
    }

    pub(crate) fn pattern(&mut self, text: &str) -> ConstraintLiteral {
        if let Some(&number) = self.by_pattern.get(text) {
            return self.add(ValueConstraint::Pattern(number));
        }
        let number = u32::try_from(self.patterns.len()).unwrap_or(u32::MAX);
        self.patterns.push(RegexPattern { text: text.to_owned(), readings: [OnceCell::new(), OnceCell::new()] });
        self.by_pattern.insert(text.to_owned(), number);
        self.add(ValueConstraint::Pattern(number))
    }

    /// The automaton of a pattern; `None` if the pattern is not understood.
    pub(crate) fn regex(&self, pattern: u32, dot: DotMeaning) -> Option<&RegexAutomaton> {
        let RegexPattern { text, readings } = &self.patterns[pattern as usize];
        readings[dot as usize].get_or_init(|| RegexAutomaton::parse(text, dot)).as_ref()
    }

    /// Whether any pattern has a dot, whose meaning differs between validators.
    pub(crate) fn has_dots(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.text.contains('.'))
    }

    /// A constraint that is not understood; equal texts give the same literal.
    pub(crate) fn opaque(&mut self, text: String) -> ConstraintLiteral {
        let next = u32::try_from(self.by_opaque.len()).unwrap_or(u32::MAX);
        let number = *self.by_opaque.entry(text).or_insert(next);
        self.add(ValueConstraint::Opaque(number))
    }

    pub(crate) fn new_reference(&mut self) -> u32 {
        self.bodies.push(None);
        self.unguarded.push(false);
        u32::try_from(self.bodies.len() - 1).unwrap_or(u32::MAX)
    }

    /// Finds references that lead back to themselves without descending into the value, which have no finite meaning.
    pub(crate) fn find_unguarded(&mut self) {
        let next: Vec<Vec<u32>> = self
            .bodies
            .iter()
            .map(|body| {
                let mut found = Vec::new();
                let mut left: Vec<ConstraintLiteral> = body.iter().copied().collect();
                while let Some(literal) = left.pop() {
                    match self.node(literal) {
                        ValueConstraint::And(parts) | ValueConstraint::OneOf(parts) => {
                            left.extend(parts.iter().copied());
                        }
                        ValueConstraint::Ref(number) => found.push(*number),
                        _ => {}
                    }
                }
                found
            })
            .collect();
        let mut open: Vec<usize> = next.iter().map(Vec::len).collect();
        let mut used_by: Vec<Vec<usize>> = vec![Vec::new(); next.len()];
        for (index, targets) in next.iter().enumerate() {
            for target in targets {
                used_by[*target as usize].push(index);
            }
        }
        let mut ready: Vec<usize> = (0..next.len()).filter(|index| open[*index] == 0).collect();
        self.unguarded.fill(true);
        while let Some(index) = ready.pop() {
            self.unguarded[index] = false;
            for user in &used_by[index] {
                open[*user] -= 1;
                if open[*user] == 0 {
                    ready.push(*user);
                }
            }
        }
    }
}
