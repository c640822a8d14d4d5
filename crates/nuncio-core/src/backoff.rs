//! Delays between attempts: exponential back-off, random variation and `Retry-After`.

use std::time::Duration;

use crate::time::Timestamp;

/// Delays that grow by a constant factor from `first` to `max`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    pub factor: f64,
    pub max: Duration,
}

impl Backoff {
    #[must_use]
    pub const fn doubling(first: Duration, max: Duration) -> Self {
        Self { first, factor: 2.0, max }
    }

    /// Delay after this many consecutive failures; zero if there was none.
    #[must_use]
    pub fn after(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let grown = self.factor.powi(i32::try_from(doublings.min(64)).unwrap_or(64));
        Duration::try_from_secs_f64(self.first.as_secs_f64() * grown).unwrap_or(Duration::MAX).min(self.max)
    }

    /// Starts the failure count of one operation at zero.
    #[must_use]
    pub const fn start(self) -> FailureCount {
        FailureCount { backoff: self, failures: 0 }
    }
}

/// Consecutive failures of one operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailureCount {
    backoff: Backoff,
    failures: u32,
}

impl FailureCount {
    /// Counts a failure and returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.after(self.failures)
    }
}

/// Varies a delay at random: the result is between these percentages of it, so that attempts that failed together are
/// not retried together. `random` is a random byte.
#[must_use]
pub fn vary(delay: Duration, percent: std::ops::RangeInclusive<u32>, random: u8) -> Duration {
    let (least, most) = (f64::from(*percent.start()), f64::from(*percent.end()));
    delay.mul_f64((least + (most - least) * f64::from(random) / 255.0) / 100.0)
}

/// Parses `Retry-After`, which is a number of seconds or an HTTP date (RFC 9110 §10.2.3); a date in the past gives
/// zero, any other text `None`. The caller limits the delay.
#[must_use]
pub fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let moment = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(now.until(Timestamp::from_millis(moment.as_millisecond())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn backoff_delay_doubles_with_each_failure_up_to_its_limit() {
        let backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(30));
        let mut failures = backoff.start();
        let millis = [(); 10].map(|()| failures.next_delay().as_millis());
        assert_eq!(millis, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(backoff.after(0), Duration::ZERO);
    }

    #[test]
    fn retry_after_header_is_parsed_from_seconds_or_http_date() {
        let now = Timestamp::from_millis(1_794_740_400_000);
        let says = |text: &str| parse_retry_after(text, now);
        assert_eq!(says("7"), Some(Duration::from_secs(7)));
        assert_eq!(says("Sun, 15 Nov 2026 11:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(says("Sun, 15 Nov 2020 11:00:30 GMT"), Some(Duration::ZERO));
        assert_eq!(says("99999999999999999999999"), Some(Duration::MAX));
        assert_eq!(says("soon"), None);
        assert_eq!(says(""), None);
    }

    proptest! {
        #[test]
        fn backoff_delay_never_shrinks_with_more_failures_and_never_exceeds_its_limit(
            first in 0..u64::MAX / 1000, max in 0..u64::MAX / 1000, factor in 1.0..100.0, failures in 0..u32::MAX,
        ) {
            let (first, max) = (Duration::from_millis(first), Duration::from_millis(max));
            let backoff = Backoff { first, factor, max };
            prop_assert!(backoff.after(failures) <= max);
            prop_assert!(backoff.after(failures) <= backoff.after(failures.saturating_add(1)));
        }

        #[test]
        fn randomly_varied_delay_stays_between_the_given_percentages(millis in 0..1_000_000_000_u64, random: u8) {
            let delay = Duration::from_millis(millis);
            let varied = vary(delay, 80..=120, random);
            prop_assert!(varied >= delay.mul_f64(0.799) && varied <= delay.mul_f64(1.201));
        }
    }
}
