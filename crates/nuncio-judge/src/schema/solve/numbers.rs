//! Theory of numbers: an interval, required divisors and excluded divisors.

use std::cmp::Ordering;

use super::{ConstraintSolver, KnownConstraints, SolverResult};
use crate::schema::decimal::Decimal;
use crate::schema::node::ValueConstraint;

/// Limit of multiples that are tried as a solution.
const MAX_TRIES: usize = 4_096;

/// Limit of multiples skipped to find one on which all validators agree.
const DISPUTED: i128 = 64;

#[derive(Default)]
struct NumberConstraints {
    low: Option<(Decimal, bool)>,
    high: Option<(Decimal, bool)>,
    units: Vec<Decimal>,
    not_units: Vec<Decimal>,
    forbidden: Vec<Decimal>,
}

impl NumberConstraints {
    fn raise(&mut self, bound: Decimal, exclusive: bool) {
        let tighter = self.low.is_none_or(|(low, open)| match bound.compare(low) {
            Ordering::Greater => true,
            Ordering::Equal => exclusive && !open,
            Ordering::Less => false,
        });
        if tighter {
            self.low = Some((bound, exclusive));
        }
    }

    fn lower(&mut self, bound: Decimal, exclusive: bool) {
        let tighter = self.high.is_none_or(|(high, open)| match bound.compare(high) {
            Ordering::Less => true,
            Ordering::Equal => exclusive && !open,
            Ordering::Greater => false,
        });
        if tighter {
            self.high = Some((bound, exclusive));
        }
    }

    /// Whether some divisor is fractional, so that validators may disagree.
    fn fractional(&self) -> bool {
        self.units.iter().chain(&self.not_units).any(|unit| unit.is_multiple_of(Decimal::ONE) != Some(true))
    }

    /// Whether validators that divide floats agree with exact arithmetic on this number.
    fn undisputed(&self, number: Decimal) -> bool {
        number.to_value().and_then(|value| value.as_f64()).is_some_and(|float| self.divides(float))
    }

    /// Whether a number is a multiple of all required divisors and of no excluded one, in float arithmetic.
    fn divides(&self, number: f64) -> bool {
        let whole = |unit: &Decimal| {
            let unit = unit.to_value().and_then(|value| value.as_f64());
            unit.is_some_and(|unit| (number / unit).fract() == 0.0)
        };
        self.units.iter().all(whole) && !self.not_units.iter().any(whole)
    }

    /// Whether a number is in the allowed interval and not forbidden.
    fn within(&self, number: Decimal) -> bool {
        let above = self.low.is_none_or(|(low, open)| match number.compare(low) {
            Ordering::Greater => true,
            Ordering::Equal => !open,
            Ordering::Less => false,
        });
        let below = self.high.is_none_or(|(high, open)| match number.compare(high) {
            Ordering::Less => true,
            Ordering::Equal => !open,
            Ordering::Greater => false,
        });
        above && below && !self.forbidden.contains(&number)
    }

    /// Whether a number satisfies all number constraints; `None` if it is too large to compute.
    fn fits(&self, number: Decimal) -> Option<bool> {
        if !self.within(number) {
            return Some(false);
        }
        for unit in &self.units {
            if !number.is_multiple_of(*unit)? {
                return Some(false);
            }
        }
        for unit in &self.not_units {
            if number.is_multiple_of(*unit)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

impl ConstraintSolver<'_> {
    pub(super) fn numbers(&mut self, facts: &KnownConstraints) -> SolverResult {
        let mut numbers = NumberConstraints::default();
        for literal in &facts.known {
            match (self.pool.node(*literal), literal.is_negative()) {
                (ValueConstraint::AtLeast { bound, exclusive }, false) => numbers.raise(*bound, *exclusive),
                (ValueConstraint::AtLeast { bound, exclusive }, true) => numbers.lower(*bound, !*exclusive),
                (ValueConstraint::AtMost { bound, exclusive }, false) => numbers.lower(*bound, *exclusive),
                (ValueConstraint::AtMost { bound, exclusive }, true) => numbers.raise(*bound, !*exclusive),
                (ValueConstraint::MultipleOf(unit), false) => numbers.units.push(*unit),
                (ValueConstraint::MultipleOf(unit), true) => numbers.not_units.push(*unit),
                _ => {}
            }
        }
        numbers.forbidden =
            self.forbidden(facts).into_iter().filter_map(|value| Decimal::of(value.as_number()?)).collect();
        if let (Some((low, low_open)), Some((high, high_open))) = (numbers.low, numbers.high) {
            match low.compare(high) {
                Ordering::Greater => return SolverResult::Empty,
                Ordering::Equal if low_open || high_open => return SolverResult::Empty,
                Ordering::Equal => {
                    let Some(value) = low.to_value() else { return SolverResult::Unknown(None) };
                    return match numbers.fits(low) {
                        Some(true) => SolverResult::model(value),
                        Some(false) if numbers.fractional() && numbers.within(low) && numbers.undisputed(low) => {
                            SolverResult::Unknown(Some(std::rc::Rc::new(value)))
                        }
                        Some(false) => SolverResult::Empty,
                        None => SolverResult::Unknown(None),
                    };
                }
                Ordering::Less => {}
            }
        }
        let Some(first) = numbers.units.first() else { return self.between(&numbers) };
        let unit = numbers.units.iter().try_fold(*first, |all, unit| all.common_multiple(*unit));
        unit.and_then(|unit| self.multiples(&numbers, unit)).unwrap_or(SolverResult::Unknown(None))
    }

    /// Searches the multiples of one divisor. `None` if they are too large to compute.
    fn multiples(&mut self, numbers: &NumberConstraints, unit: Decimal) -> Option<SolverResult> {
        for not in &numbers.not_units {
            if unit.is_multiple_of(*not)? {
                return Some(self.undivided(numbers, unit));
            }
        }
        // A bound too far away to count in multiples is ignored here; each number is compared with the bound below.
        let first = numbers.low.and_then(|(low, open)| {
            let (floor, whole) = low.floor_div(unit)?;
            if whole && !open { Some(floor) } else { floor.checked_add(1) }
        });
        let last = numbers.high.and_then(|(high, open)| {
            let (floor, whole) = high.floor_div(unit)?;
            if whole && open { floor.checked_sub(1) } else { Some(floor) }
        });
        if let (Some(first), Some(last)) = (first, last)
            && first > last
        {
            return Some(SolverResult::Empty);
        }
        // The search goes outwards from the multiple nearest to zero.
        let middle = first.unwrap_or(i128::MIN).max(0).min(last.unwrap_or(i128::MAX));
        let inside = |factor: i128| first.is_none_or(|first| factor >= first) && last.is_none_or(|last| factor <= last);
        let mut exact = true;
        let mut disputed = None;
        for distance in 0..=MAX_TRIES as i128 {
            let (up, down) = (middle.checked_add(distance)?, middle.checked_sub(distance)?);
            let mut any = false;
            for factor in if distance == 0 { vec![up] } else { vec![up, down] } {
                if !inside(factor) {
                    continue;
                }
                any = true;
                if !self.spend(1) {
                    return None;
                }
                match unit.times(factor).map(|number| (number, numbers.fits(number))) {
                    Some((_, Some(false))) => {}
                    Some((number, Some(true))) => match number.to_value() {
                        Some(value) if numbers.undisputed(number) || distance > DISPUTED => {
                            return Some(SolverResult::model(value));
                        }
                        Some(value) => disputed = disputed.or(Some(value)),
                        None => exact = false,
                    },
                    _ => exact = false,
                }
            }
            if !any {
                return Some(match disputed {
                    Some(value) => SolverResult::model(value),
                    None if exact => SolverResult::Empty,
                    None => SolverResult::Unknown(None),
                });
            }
        }
        None
    }

    /// Searches multiples that exact arithmetic excludes, but a validator that divides floats may accept.
    fn undivided(&mut self, numbers: &NumberConstraints, unit: Decimal) -> SolverResult {
        if !numbers.fractional() {
            return SolverResult::Empty;
        }
        for factor in (1..=MAX_TRIES as i128).flat_map(|factor| [factor, -factor]) {
            if !self.spend(1) {
                return SolverResult::Unknown(None);
            }
            let Some(number) = unit.times(factor) else { break };
            if numbers.within(number)
                && let Some(value) = number.to_value()
                && value.as_f64().is_some_and(|float| numbers.divides(float))
            {
                return SolverResult::Unknown(Some(std::rc::Rc::new(value)));
            }
        }
        SolverResult::Empty
    }

    /// Searches a number in an interval that has more than one, among those that JSON can represent.
    fn between(&mut self, numbers: &NumberConstraints) -> SolverResult {
        let half = Decimal::ZERO.towards(Decimal::ONE, 500);
        let small = [Some(Decimal::ZERO), Some(Decimal::ONE), half];
        let both_ways = move |from: Decimal, offset: Option<Decimal>| {
            [offset.and_then(|offset| from.plus(offset)), offset.and_then(|offset| from.plus(offset.negated()))]
        };
        let near_zero = small.into_iter().flat_map(|number| [number, number.map(Decimal::negated)]);
        let bounds = [numbers.low, numbers.high].into_iter().flatten();
        let near_bounds = bounds.flat_map(move |(bound, _)| {
            let around = small.into_iter().flat_map(move |offset| both_ways(bound, offset));
            around.chain([bound.times(2)])
        });
        let inner = numbers.low.zip(numbers.high).into_iter().flat_map(|((low, _), (high, _))| {
            [500, 250, 750, 100, 900, 333, 617, 1, 999].into_iter().map(move |part| low.towards(high, part))
        });
        // With many forbidden numbers and divisors, ever finer fractions are tried.
        let origin = numbers.low.or(numbers.high).map_or(Decimal::ZERO, |(bound, _)| bound);
        let strange = (1..=(numbers.forbidden.len() as i128 + 16)).map_while(|nth| {
            let small = Decimal::ZERO.towards(Decimal::ONE, 1).and_then(|small| small.times(nth))?;
            Some((Decimal::of_int(nth)?, small))
        });
        let strange = strange.flat_map(|(up, small)| {
            let offsets = [Some(up), Some(small), small.towards(Decimal::ZERO, 137), up.plus(small)];
            offsets.into_iter().flat_map(move |offset| both_ways(origin, offset))
        });
        for number in near_zero.chain(near_bounds).chain(inner).chain(strange).flatten() {
            if !self.spend(1) {
                break;
            }
            if numbers.fits(number) == Some(true)
                && let Some(value) = number.to_value()
            {
                return SolverResult::model(value);
            }
        }
        SolverResult::Unknown(None)
    }
}
