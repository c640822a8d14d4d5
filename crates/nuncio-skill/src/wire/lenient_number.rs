//! Numbers of milliseconds or attempts, kept as other implementations write them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Number of milliseconds or attempts. The protocol's type is `number`, so `30000.0` and `-1` are accepted and written
/// back unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LenientNumber(Number);

impl LenientNumber {
    /// The quantity as an integer, rounded up; negative numbers become zero.
    #[must_use]
    pub fn as_u64(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "such a cast saturates")]
        self.0.as_u64().unwrap_or_else(|| self.0.as_f64().map_or(0, |number| number.ceil() as u64))
    }

    /// The quantity as a duration in milliseconds.
    #[must_use]
    pub fn as_millis(&self) -> Duration {
        Duration::from_millis(self.as_u64())
    }

    /// Whether the value is a non-negative integer.
    #[must_use]
    pub fn is_count(&self) -> bool {
        self.0.is_u64() || self.0.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
    }
}

impl From<u64> for LenientNumber {
    fn from(number: u64) -> Self {
        Self(number.into())
    }
}

impl From<u32> for LenientNumber {
    fn from(number: u32) -> Self {
        Self(number.into())
    }
}

impl From<Duration> for LenientNumber {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_millis()).unwrap_or(u64::MAX).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LenientNumber {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn quantity_as_integer_rounds_fractions_up_and_negative_numbers_to_zero() {
        for (text, number, count) in [
            ("0", 0, true),
            ("30000", 30_000, true),
            ("30000.0", 30_000, true),
            ("0.2", 1, false),
            ("-5", 0, false),
            ("-0.5", 0, false),
            ("18446744073709551615", u64::MAX, true),
            ("1e300", u64::MAX, true),
        ] {
            assert_eq!((read(text).as_u64(), read(text).is_count()), (number, count), "{text}");
        }
        assert_eq!(serde_json::to_string(&read("30000.0")).unwrap(), "30000.0");
    }
}
