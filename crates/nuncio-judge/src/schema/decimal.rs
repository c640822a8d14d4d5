//! Exact decimal numbers: a JSON number has its written value, not the nearest binary fraction.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Upper limit of a decimal's coefficient in exact computations.
const LIMIT: u128 = 10u128.pow(37);

/// An exact decimal number: `±coefficient × 10^exponent`, the coefficient without trailing zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Decimal {
    negative: bool,
    coefficient: u128,
    exponent: i32,
}

impl Decimal {
    pub(crate) const ZERO: Self = Self { negative: false, coefficient: 0, exponent: 0 };
    pub(crate) const ONE: Self = Self { negative: false, coefficient: 1, exponent: 0 };

    fn new(negative: bool, mut coefficient: u128, mut exponent: i32) -> Option<Self> {
        if coefficient == 0 {
            return Some(Self::ZERO);
        }
        while coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        (coefficient < LIMIT).then_some(Self { negative, coefficient, exponent })
    }

    pub(crate) fn of(number: &Number) -> Option<Self> {
        if let Some(value) = number.as_u64() {
            return Self::new(false, value.into(), 0);
        }
        if let Some(value) = number.as_i64() {
            return Self::new(true, value.unsigned_abs().into(), 0);
        }
        Self::of_float(number.as_f64()?)
    }

    /// The shortest decimal that parses to this float.
    fn of_float(value: f64) -> Option<Self> {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e')?;
        let mut exponent: i32 = exponent.parse().ok()?;
        let (negative, digits) = digits.strip_prefix('-').map_or((false, digits), |rest| (true, rest));
        let mut coefficient: u128 = 0;
        let mut after_point = false;
        for byte in digits.bytes() {
            if byte == b'.' {
                after_point = true;
                continue;
            }
            coefficient = coefficient.checked_mul(10)?.checked_add(u128::from(byte.wrapping_sub(b'0')))?;
            exponent -= i32::from(after_point);
        }
        Self::new(negative, coefficient, exponent)
    }

    pub(crate) fn of_int(value: i128) -> Option<Self> {
        Self::new(value < 0, value.unsigned_abs(), 0)
    }

    /// The decimal as a JSON number, if one can represent it exactly.
    pub(crate) fn to_value(self) -> Option<Value> {
        if self.exponent >= 0
            && let Some(whole) = u32::try_from(self.exponent).ok().and_then(|power| 10u128.checked_pow(power))
            && let Some(magnitude) = self.coefficient.checked_mul(whole).and_then(|value| u64::try_from(value).ok())
        {
            if !self.negative {
                return Some(Value::from(magnitude));
            }
            if let Some(value) = 0i64.checked_sub_unsigned(magnitude) {
                return Some(Value::from(value));
            }
        }
        let sign = if self.negative { "-" } else { "" };
        let float: f64 = format!("{sign}{}e{}", self.coefficient, self.exponent).parse().ok()?;
        (float.is_finite() && Self::of_float(float) == Some(self)).then(|| Value::from(float))
    }

    pub(crate) fn is_zero(self) -> bool {
        self.coefficient == 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.negative
    }

    pub(crate) fn negated(self) -> Self {
        if self.is_zero() { self } else { Self { negative: !self.negative, ..self } }
    }

    pub(crate) fn compare(self, other: Self) -> Ordering {
        let sign = |value: Self| match (value.is_zero(), value.negative) {
            (true, _) => 0,
            (_, true) => -1,
            _ => 1,
        };
        let (left, right) = (sign(self), sign(other));
        if left != right || left == 0 {
            return left.cmp(&right);
        }
        let magnitude = self.compare_magnitude(other);
        if left < 0 { magnitude.reverse() } else { magnitude }
    }

    fn compare_magnitude(self, other: Self) -> Ordering {
        let digits = |value: Self| i64::from(value.coefficient.ilog10()) + i64::from(value.exponent);
        digits(self).cmp(&digits(other)).then_with(|| {
            // With the same number of digits before the point, the shorter coefficient is padded, which stays below
            // the limit.
            let (left, right) = (self.coefficient, other.coefficient);
            match left.ilog10().cmp(&right.ilog10()) {
                Ordering::Less => (left * 10u128.pow(right.ilog10() - left.ilog10())).cmp(&right),
                _ => left.cmp(&(right * 10u128.pow(left.ilog10() - right.ilog10()))),
            }
        })
    }

    /// Two decimals as integers with a common exponent.
    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        let unit = match (self.is_zero(), other.is_zero()) {
            (true, _) => other.exponent,
            (_, true) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        let scaled = |value: Self| {
            if value.is_zero() {
                return Some(0);
            }
            let power = u32::try_from(value.exponent.checked_sub(unit)?).ok()?;
            let magnitude = value.coefficient.checked_mul(10u128.checked_pow(power)?)?;
            let magnitude = i128::try_from(magnitude).ok().filter(|value| value.unsigned_abs() < LIMIT)?;
            Some(if value.negative { -magnitude } else { magnitude })
        };
        Some((scaled(self)?, scaled(other)?, unit))
    }

    fn of_units(units: i128, unit: i32) -> Option<Self> {
        Self::new(units < 0, units.unsigned_abs(), unit)
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let (left, right, unit) = self.aligned(other)?;
        Self::of_units(left.checked_add(right)?, unit)
    }

    pub(crate) fn times(self, factor: i128) -> Option<Self> {
        let coefficient = self.coefficient.checked_mul(factor.unsigned_abs())?;
        Self::new(self.negative != (factor < 0), coefficient, self.exponent)
    }

    /// The point between two decimals: `self + (other − self) × numerator / 1000`.
    pub(crate) fn towards(self, other: Self, numerator: i128) -> Option<Self> {
        let step = other.plus(self.negated())?.times(numerator)?;
        let step = Self { exponent: step.exponent - if step.is_zero() { 0 } else { 3 }, ..step };
        self.plus(step)
    }

    /// Whether this decimal is an integer multiple of `unit`; `None` if the numbers are too large to compute.
    pub(crate) fn is_multiple_of(self, unit: Self) -> Option<bool> {
        if self.is_zero() {
            return Some(true);
        }
        // A coefficient has no trailing zeros, so it is not a multiple of ten.
        let Ok(power) = u32::try_from(i64::from(self.exponent) - i64::from(unit.exponent)) else { return Some(false) };
        let modulus = unit.coefficient;
        if modulus < 1 << 64 {
            let mut remainder = self.coefficient % modulus;
            let (mut base, mut left) = (10 % modulus, power);
            while left > 0 {
                if left & 1 == 1 {
                    remainder = remainder * base % modulus;
                }
                base = base * base % modulus;
                left >>= 1;
            }
            return Some(remainder == 0);
        }
        Some(self.coefficient.checked_mul(10u128.checked_pow(power)?)?.is_multiple_of(modulus))
    }

    /// Least common multiple of two decimals.
    pub(crate) fn common_multiple(self, other: Self) -> Option<Self> {
        let (left, right, unit) = self.aligned(other)?;
        let (mut a, mut b) = (left, right);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self::of_units((left / a).checked_mul(right)?, unit)
    }

    /// Integer division of two decimals: `self / unit` rounded down, and whether the division was exact.
    pub(crate) fn floor_div(self, unit: Self) -> Option<(i128, bool)> {
        let (left, right, _) = self.aligned(unit)?;
        Some((left.div_euclid(right), left.rem_euclid(right) == 0))
    }
}

/// A text that is equal for two JSON values if and only if JSON Schema treats them as equal.
pub(crate) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match Decimal::of(number) {
            Some(decimal) => {
                let sign = if decimal.negative { "-" } else { "" };
                out.push_str(&format!("{sign}{}e{}", decimal.coefficient, decimal.exponent));
            }
            None => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(map) => {
            // The map is sorted by key.
            out.push('{');
            for (key, item) in map {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(item, out);
                out.push(',');
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decimal(value: &Value) -> Decimal {
        Decimal::of(value.as_number().unwrap()).unwrap()
    }

    #[test]
    fn decimal_parsing_and_division_are_exact() {
        assert_eq!(decimal(&json!(1.0)), decimal(&json!(1)));
        assert_eq!(decimal(&json!(0.3)).is_multiple_of(decimal(&json!(0.1))), Some(true));
        assert_eq!(decimal(&json!(1e300)).is_multiple_of(decimal(&json!(7))), Some(false));
        assert_eq!(decimal(&json!(1e300)).is_multiple_of(decimal(&json!(0.125))), Some(true));
        assert_eq!(decimal(&json!(-1.5)).floor_div(Decimal::ONE), Some((-2, false)));
        assert_eq!(decimal(&json!(0.4)).common_multiple(decimal(&json!(0.6))), Some(decimal(&json!(1.2))));
    }

    #[test]
    fn decimal_order_is_exact_beyond_float_precision() {
        assert_eq!(
            decimal(&json!(9_007_199_254_740_993_u64)).compare(decimal(&json!(9_007_199_254_740_992.0))),
            Ordering::Greater
        );
        assert_eq!(decimal(&json!(-2.5)).compare(decimal(&json!(-1e10))), Ordering::Greater);
        assert_eq!(decimal(&json!(1e-300)).compare(decimal(&json!(1e300))), Ordering::Less);
        assert_eq!(decimal(&json!(100)).compare(decimal(&json!(99.5))), Ordering::Greater);
    }

    #[test]
    fn decimal_between_two_floats_has_no_json_number() {
        for value in [json!(0), json!(-5), json!(0.1), json!(1e300), json!(u64::MAX), json!(i64::MIN)] {
            assert_eq!(canonical(&decimal(&value).to_value().unwrap()), canonical(&value));
        }
        let between = decimal(&json!(9_007_199_254_740_993_u64))
            .towards(decimal(&json!(9_007_199_254_740_994_u64)), 500)
            .unwrap();
        assert_eq!(between.to_value(), None);
    }

    #[test]
    fn equal_json_values_have_equal_canonical_text() {
        assert_eq!(canonical(&json!({"a": [1, 2.50]})), canonical(&json!({"a": [1.0, 2.5]})));
        assert_ne!(canonical(&json!("1")), canonical(&json!(1)));
        assert_ne!(canonical(&json!([["a"], "b"])), canonical(&json!([["a", "b"]])));
    }
}
