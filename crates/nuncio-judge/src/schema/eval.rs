//! Evaluates whether one value satisfies a constraint; the result is `None` if a keyword is not understood.

use serde_json::Value;

use super::decimal::{Decimal, canonical};
use super::node::{ConstraintLiteral, ValueConstraint};
use super::solve::ConstraintSolver;

impl ConstraintSolver<'_> {
    /// Whether the value satisfies the literal; `None` if that cannot be decided.
    pub(crate) fn fits(&mut self, literal: ConstraintLiteral, value: &Value) -> Option<bool> {
        if !self.spend(1) || !self.enter() {
            return None;
        }
        let holds = self.holds(literal, value);
        self.leave();
        Some(holds? != literal.is_negative())
    }

    pub(crate) fn fits_all(&mut self, literals: &[ConstraintLiteral], value: &Value) -> Option<bool> {
        let mut all = Some(true);
        for literal in literals {
            match self.fits(*literal, value) {
                Some(false) => return Some(false),
                Some(true) => {}
                None => all = None,
            }
        }
        all
    }

    fn count_fitting(&mut self, literals: &[ConstraintLiteral], value: &Value) -> (usize, usize) {
        let (mut yes, mut unsure) = (0, 0);
        for literal in literals {
            match self.fits(*literal, value) {
                Some(true) => yes += 1,
                Some(false) => {}
                None => unsure += 1,
            }
        }
        (yes, unsure)
    }

    fn holds(&mut self, literal: ConstraintLiteral, value: &Value) -> Option<bool> {
        let node = self.pool.shared(literal);
        Some(match (&*node, value) {
            (ValueConstraint::True, _) => true,
            (ValueConstraint::And(parts), _) => return self.fits_all(parts, value),
            (ValueConstraint::OneOf(parts), _) => match self.count_fitting(parts, value) {
                (2.., _) => false,
                (yes, 0) => yes == 1,
                _ => return None,
            },
            (ValueConstraint::Ref(number), _) => {
                let body = self.pool.bodies[*number as usize].filter(|_| !self.pool.unguarded[*number as usize])?;
                return self.fits(body, value);
            }
            (ValueConstraint::Opaque(_), _) => return None,
            (ValueConstraint::Types(types), _) => types & super::node::types::of(value) != 0,
            (ValueConstraint::Enum(values), _) => {
                self.pool.number_of(value).is_some_and(|number| values.binary_search(&number).is_ok())
            }
            (ValueConstraint::AtLeast { bound, exclusive }, Value::Number(number)) => {
                let order = Decimal::of(number)?.compare(*bound);
                order.is_gt() || (order.is_eq() && !exclusive)
            }
            (ValueConstraint::AtMost { bound, exclusive }, Value::Number(number)) => {
                let order = Decimal::of(number)?.compare(*bound);
                order.is_lt() || (order.is_eq() && !exclusive)
            }
            (ValueConstraint::MultipleOf(unit), Value::Number(number)) => {
                let exact = Decimal::of(number)?.is_multiple_of(*unit)?;
                let fraction = unit.to_value().and_then(|unit| Some((number.as_f64()? / unit.as_f64()?).fract()));
                // For fractional units, validators that divide floats may decide differently from exact arithmetic.
                if unit.is_multiple_of(Decimal::ONE) != Some(true) && fraction.is_none_or(|rest| (rest == 0.0) != exact)
                {
                    return None;
                }
                exact
            }
            (ValueConstraint::MinLength(count), Value::String(text)) => text.chars().count() as u64 >= *count,
            (ValueConstraint::MaxLength(count), Value::String(text)) => text.chars().count() as u64 <= *count,
            (ValueConstraint::Pattern(pattern), Value::String(text)) => {
                let regex = self.pool.regex(*pattern, self.dot)?;
                let cost = regex.size() * text.len() / 16 + 1;
                let matched = regex.is_match(text);
                if !self.spend(cost) {
                    return None;
                }
                matched
            }
            (ValueConstraint::MinItems(count), Value::Array(items)) => items.len() as u64 >= *count,
            (ValueConstraint::MaxItems(count), Value::Array(items)) => items.len() as u64 <= *count,
            (ValueConstraint::UniqueItems, Value::Array(items)) => {
                let mut texts: Vec<String> = items.iter().map(canonical).collect();
                texts.sort_unstable();
                texts.windows(2).all(|pair| pair[0] != pair[1])
            }
            (ValueConstraint::SomeItems { from, to, what, count }, Value::Array(items)) => {
                let (yes, unsure) = self.count_items(items, *from, *to, *what);
                if yes >= *count {
                    true
                } else if yes + unsure < *count {
                    false
                } else {
                    return None;
                }
            }
            (ValueConstraint::FewItems { from, to, what, count }, Value::Array(items)) => {
                let (yes, unsure) = self.count_items(items, *from, *to, *what);
                if yes > *count {
                    false
                } else if yes + unsure <= *count {
                    true
                } else {
                    return None;
                }
            }
            (ValueConstraint::MinProperties(count), Value::Object(map)) => map.len() as u64 >= *count,
            (ValueConstraint::MaxProperties(count), Value::Object(map)) => map.len() as u64 <= *count,
            (ValueConstraint::Each { name, value }, Value::Object(map)) => {
                let mut all = Some(true);
                for (key, item) in map {
                    let named = self.fits(*name, &Value::from(key.as_str()));
                    let fits = if named == Some(false) { Some(true) } else { self.fits(*value, item) };
                    match (named, fits) {
                        (Some(false), _) | (_, Some(true)) => {}
                        (Some(true), Some(false)) => return Some(false),
                        _ => all = None,
                    }
                }
                return all;
            }
            _ => true,
        })
    }

    fn count_items(&mut self, items: &[Value], from: u64, to: u64, what: ConstraintLiteral) -> (u64, u64) {
        let (mut yes, mut unsure) = (0, 0);
        for (index, item) in (0..).zip(items) {
            if (from..to).contains(&index) {
                match self.fits(what, item) {
                    Some(true) => yes += 1,
                    Some(false) => {}
                    None => unsure += 1,
                }
            }
        }
        (yes, unsure)
    }
}
