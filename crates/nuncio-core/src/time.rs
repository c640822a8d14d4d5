//! Moments, as milliseconds since the Unix epoch. The core never asks for one: it is told.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment in UTC, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment that can be written: two days before the year 10000.
    pub const LAST: Self = Self(253_402_128_000_000);

    /// The moment `millis` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment and `span` more, at most [`Timestamp::LAST`].
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let sum = self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
        Self(sum).min(Self::LAST)
    }

    /// How long it is from this moment until `later`; zero if it has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with milliseconds: `2026-11-15T11:00:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl From<Timestamp> for String {
    fn from(moment: Timestamp) -> Self {
        moment.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<jiff::Timestamp>()
            .map(|moment| Self(moment.as_millisecond()))
            .map_err(|_| format!("{text:?} is not a time such as 2026-11-15T11:00:00Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read_back() {
        let moment = Timestamp::from_millis(1_794_740_400_007);
        assert_eq!(moment.to_string(), "2026-11-15T11:00:00.007Z");
        assert_eq!(Timestamp::try_from(moment.to_string()), Ok(moment));
        let last = Timestamp::from_millis(0).after(Duration::MAX);
        assert_eq!(last.to_string(), "9999-12-30T00:00:00.000Z");
        assert_eq!(Timestamp::try_from(last.to_string()), Ok(last));
    }
}
