//! Delays between retries and between status polls.

use std::time::Duration;

use nuncio_core::backoff::{self, Backoff};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Entropy;
use nuncio_engine::ports::fetch::FetchResponse;

use crate::wire::EndpointRetry;

/// Exponential delays with up to 25 % random extra, so that many consumers do not retry at the same moment.
#[derive(Debug, Clone)]
pub(super) struct RetryDelays {
    backoff: Backoff,
    failures: u32,
    /// Lower bound for a delay that the provider requests. `None` uses the current computed delay as the bound.
    min_requested: Option<Duration>,
}

/// Upper bound of a computed delay.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(15);
/// Upper bound of a delay that a provider requests with `Retry-After`.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
/// Upper bound on attempts of one invocation, even if the descriptor allows more.
const MAX_ATTEMPTS: u64 = 10;

impl RetryDelays {
    /// Delays between status polls: 250 ms, growing by half each time, at most 15 s.
    pub(super) fn polling() -> Self {
        let first = Duration::from_millis(250);
        Self { backoff: Backoff { first, factor: 1.5, max: MAX_DELAY }, failures: 0, min_requested: Some(first) }
    }

    /// Delays between attempts to reach an endpoint, and the number of attempts: as in the descriptor, but at most ten;
    /// without one, four attempts with delays from 0.5 s, doubling each time.
    pub(super) fn unreachable(retry: Option<&EndpointRetry>) -> (Self, u64) {
        let (first, attempts) = retry.map_or((Duration::from_millis(500), 4), |retry| {
            (retry.backoff_ms.as_millis(), retry.max_attempts.as_u64().clamp(1, MAX_ATTEMPTS))
        });
        let first = first.min(MAX_RETRY_AFTER);
        (Self { backoff: Backoff::doubling(first, MAX_DELAY.max(first)), failures: 0, min_requested: None }, attempts)
    }

    /// Returns the next delay. A delay requested by the provider replaces the computed one between polls; between
    /// attempts it does so only if it is longer.
    pub(super) fn next_delay(&mut self, requested: Option<Duration>, entropy: &dyn Entropy) -> Duration {
        let mut random = [0_u8; 1];
        entropy.fill(&mut random);
        self.failures = self.failures.saturating_add(1);
        let computed = backoff::vary(self.backoff.after(self.failures), 100..=125, random[0]).min(self.backoff.max);
        requested
            .map_or(computed, |requested| requested.min(MAX_RETRY_AFTER).max(self.min_requested.unwrap_or(computed)))
    }
}

/// Delay that the `Retry-After` header of a response requests.
pub(crate) fn retry_after(answer: &FetchResponse, now: Timestamp) -> Option<Duration> {
    backoff::parse_retry_after(answer.header("retry-after")?, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::EndpointRetry;

    #[derive(Debug)]
    struct ConstantEntropy(u8);

    impl Entropy for ConstantEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    fn pauses(backoff: &mut RetryDelays, chance: u8, count: usize) -> Vec<u128> {
        (0..count).map(|_| backoff.next_delay(None, &ConstantEntropy(chance)).as_millis()).collect()
    }

    #[test]
    fn polling_delay_grows_by_half_up_to_fifteen_seconds() {
        assert_eq!(pauses(&mut RetryDelays::polling(), 0, 5), [250, 375, 562, 843, 1265]);
        assert_eq!(pauses(&mut RetryDelays::polling(), 0, 20).last(), Some(&15_000));
        assert_eq!(pauses(&mut RetryDelays::polling(), 255, 2), [312, 468], "up to a quarter more");
        assert_eq!(pauses(&mut RetryDelays::polling(), 255, 20).last(), Some(&15_000), "the cap is the cap");
    }

    #[test]
    fn retry_delay_starts_at_the_backoff_of_the_descriptor_and_doubles() {
        let retry = |attempts: u64, backoff: u64| EndpointRetry {
            max_attempts: attempts.into(),
            backoff_ms: backoff.into(),
            extra: serde_json::Map::new(),
        };
        let (mut computed, attempts) = RetryDelays::unreachable(None);
        assert_eq!((pauses(&mut computed, 0, 4), attempts), (vec![500, 1000, 2000, 4000], 4));
        let (mut theirs, attempts) = RetryDelays::unreachable(Some(&retry(3, 1000)));
        assert_eq!((pauses(&mut theirs, 0, 2), attempts), (vec![1000, 2000], 3));
        assert_eq!(RetryDelays::unreachable(Some(&retry(u64::MAX, u64::MAX))).1, MAX_ATTEMPTS);
        let (mut endless, _) = RetryDelays::unreachable(Some(&retry(u64::MAX, u64::MAX)));
        assert_eq!(pauses(&mut endless, 255, 1), [300_000]);
        assert_eq!(RetryDelays::unreachable(Some(&retry(0, 0))).1, 1);
    }

    #[test]
    fn retry_after_replaces_polling_delay_and_only_lengthens_retry_delay() {
        let requested = |seconds| {
            RetryDelays::polling().next_delay(Some(Duration::from_secs(seconds)), &ConstantEntropy(0)).as_millis()
        };
        assert_eq!((requested(2), requested(0), requested(u64::MAX)), (2000, 250, 300_000));
        let mut late = RetryDelays::polling();
        pauses(&mut late, 0, 20);
        assert_eq!(
            late.next_delay(Some(Duration::from_secs(1)), &ConstantEntropy(0)).as_millis(),
            1000,
            "also where it is sooner"
        );
        let tried = |seconds| {
            RetryDelays::unreachable(None).0.next_delay(Some(Duration::from_secs(seconds)), &ConstantEntropy(0))
        };
        assert_eq!((tried(0).as_millis(), tried(2).as_millis()), (500, 2000), "between tries where it is longer");
    }
}
