//! Timestamps in milliseconds since the Unix epoch. The core has no clock: callers pass the time.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::string_form::string_form;

/// A point in time: UTC, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Timestamp(i64);

impl Timestamp {
    /// The largest timestamp with a text form: two days before the year 10000.
    pub const LAST: Self = Self(253_402_128_000_000);

    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The timestamp `span` later, at most [`Timestamp::LAST`].
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let sum = self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
        Self(sum).min(Self::LAST)
    }

    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The time from this timestamp until `later`; zero if `later` is earlier.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    /// Writes the timestamp in RFC 3339 with milliseconds: `2026-11-15T11:00:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.written() {
            Some(text) => f.write_str(std::str::from_utf8(&text).unwrap_or_default()),
            None => match jiff::Timestamp::from_millisecond(self.0) {
                Ok(moment) => write!(f, "{moment:.3}"),
                Err(_) => write!(f, "{}ms", self.0),
            },
        }
    }
}

/// Layout of a timestamp's text form.
const TEXT_LAYOUT: [u8; 24] = *b"0000-00-00T00:00:00.000Z";

impl Timestamp {
    /// The timestamp's text form for the years 1970 to 9999. A fast path, because each call writes several timestamps.
    fn written(self) -> Option<[u8; 24]> {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        let moment = self.0.checked_rem_euclid(DAY_MS).and_then(|rest| u32::try_from(rest).ok())?;
        let days = u32::try_from(self.0.div_euclid(DAY_MS)).ok().filter(|_| self <= Self::LAST)?;
        // Years are counted from March, so that the leap day is the last; 400 of them are an era.
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + later;

        let mut text = TEXT_LAYOUT;
        let mut put = |start: usize, digits: usize, mut number: u32| {
            for digit in text[start..start + digits].iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
                number /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, moment / 3_600_000);
        put(14, 2, moment / 60_000 % 60);
        put(17, 2, moment / 1000 % 60);
        put(20, 3, moment % 1000);
        Some(text)
    }
}

string_form!(Timestamp, |text| match text.parse::<jiff::Timestamp>() {
    Ok(moment) => Ok(Timestamp(moment.as_millisecond())),
    Err(_) => Err(format!("{text:?} is not a time such as 2026-11-15T11:00:00Z")),
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_round_trips_through_text_up_to_the_last_one() {
        let moment = Timestamp::from_millis(1_794_740_400_007);
        assert_eq!(moment.to_string(), "2026-11-15T11:00:00.007Z");
        assert_eq!(Timestamp::try_from(moment.to_string()), Ok(moment));
        let last = Timestamp::from_millis(0).after(Duration::MAX);
        assert_eq!(last.to_string(), "9999-12-30T00:00:00.000Z");
        assert_eq!(Timestamp::try_from(last.to_string()), Ok(last));
    }

    #[test]
    fn timestamp_text_equals_that_of_the_calendar_library() {
        let days = (0..=Timestamp::LAST.0).step_by(86_400_000);
        let odd = [i64::MIN, -1, 0, 1, 951_782_399_999, 4_107_542_400_000, Timestamp::LAST.0 + 1, i64::MAX];
        for millis in days.map(|day| day + day / 31 % 86_400_000).chain(odd) {
            let expected = jiff::Timestamp::from_millisecond(millis);
            let expected = expected.map_or(format!("{millis}ms"), |moment| format!("{moment:.3}"));
            assert_eq!(Timestamp(millis).to_string(), expected, "{millis}");
        }
    }
}
