//! Rate limiting by the generic cell rate algorithm: an even rate with an initial burst.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Timestamp;

/// Limit of keys that one [`KeyedRateLimiter`] counts separately.
const MAX_KEYS: usize = 65_536;
/// Minimum time between two searches for keys that can be dropped because their full rate is available again.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Interval between two events at the even rate.
    pub each: Duration,
    /// Number of events that the rate allows at once.
    pub burst: u32,
}

/// Consumption of a rate: the time at which it is fully available again, in microseconds, so that rates above one per
/// millisecond work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateUsage(i64);

impl RateUsage {
    /// Whether the full rate is available again at `now`.
    #[must_use]
    pub fn is_over(self, now: Timestamp) -> bool {
        self.0 <= micros(now)
    }
}

impl Rate {
    /// A rate of `count` events per minute, with a burst of the same size. Panics if `count` is 0.
    #[must_use]
    pub const fn per_minute(count: u32) -> Self {
        Self { each: Duration::from_micros(60_000_000 / count as u64), burst: count }
    }

    /// Consumes one event of the rate; `used` is `None` before the first. The error is the time to wait, and nothing is
    /// consumed.
    pub fn take(self, used: Option<RateUsage>, now: Timestamp) -> Result<RateUsage, Duration> {
        let now = micros(now);
        let each = whole_micros(self.each);
        let full = used.map_or(now, |RateUsage(full)| full.max(now)).saturating_add(each);
        let most = each.saturating_mul(i64::from(self.burst));
        match full - now - most {
            wait @ 1.. => Err(Duration::from_micros(wait.unsigned_abs())),
            _ => Ok(RateUsage(full)),
        }
    }

    #[must_use]
    pub fn give_back(self, RateUsage(full): RateUsage) -> RateUsage {
        RateUsage(full.saturating_sub(whole_micros(self.each)))
    }
}

/// Consumption of one rate per key. At most 65,536 keys are counted separately; further keys share one rate. A key
/// whose full rate is available again is dropped when space is needed.
#[derive(Debug)]
pub struct KeyedRateLimiter<K>(Mutex<RateUsageTable<K>>);

#[derive(Debug)]
struct RateUsageTable<K> {
    used: HashMap<K, RateUsage>,
    shared: Option<RateUsage>,
    swept: Timestamp,
}

impl<K> Default for KeyedRateLimiter<K> {
    fn default() -> Self {
        Self(Mutex::new(RateUsageTable { used: HashMap::new(), shared: None, swept: Timestamp::from_millis(0) }))
    }
}

impl<K: Hash + Eq + Clone> KeyedRateLimiter<K> {
    /// Consumes one event of a key. The error is the time to wait, and nothing is consumed.
    pub fn take(&self, rate: Rate, key: &K, now: Timestamp) -> Result<(), Duration> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = table.used.get_mut(key) {
            *used = rate.take(Some(*used), now)?;
            return Ok(());
        }
        if table.used.len() >= MAX_KEYS && table.swept.after(SWEEP_INTERVAL) <= now {
            table.swept = now;
            table.used.retain(|_, used| !used.is_over(now));
        }
        if table.used.len() >= MAX_KEYS {
            table.shared = Some(rate.take(table.shared, now)?);
        } else {
            table.used.insert(key.clone(), rate.take(None, now)?);
        }
        Ok(())
    }

    /// Returns an event of a rate that was taken and not used. An event that counted for the shared rate is not
    /// returned.
    pub fn give_back(&self, rate: Rate, key: &K) {
        if let Some(used) = self.0.lock().unwrap_or_else(PoisonError::into_inner).used.get_mut(key) {
            *used = rate.give_back(*used);
        }
    }
}

fn micros(moment: Timestamp) -> i64 {
    moment.as_millis().saturating_mul(1000)
}

fn whole_micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_allows_a_burst_of_its_limit_and_then_one_per_interval() {
        let rate = Rate::per_minute(60);
        let at = Timestamp::from_millis;
        let mut used = None;
        for _ in 0..60 {
            used = Some(rate.take(used, at(0)).unwrap());
        }
        assert_eq!(rate.take(used, at(0)), Err(Duration::from_secs(1)));
        assert_eq!(rate.take(used, at(400)), Err(Duration::from_millis(600)));
        used = Some(rate.take(used, at(1000)).unwrap());
        assert!(rate.take(used, at(1000)).is_err());
        let returned = rate.give_back(used.unwrap());
        assert!(rate.take(Some(returned), at(1000)).is_ok());
        // A minute later the full rate is available again, and not more.
        let mut used = Some(returned);
        for _ in 0..60 {
            used = Some(rate.take(used, at(120_000)).unwrap());
        }
        assert!(rate.take(used, at(120_000)).is_err());
        assert!(used.unwrap().is_over(at(180_000)));
    }

    #[test]
    fn rate_above_one_event_per_millisecond_is_enforced() {
        let rate = Rate::per_minute(600_000);
        let mut used = None;
        for _ in 0..600_000 {
            used = Some(rate.take(used, Timestamp::from_millis(0)).unwrap());
        }
        assert!(rate.take(used, Timestamp::from_millis(0)).is_err());
        let taken = (0..20).map_while(|_| {
            used = rate.take(used, Timestamp::from_millis(1)).ok();
            used
        });
        assert_eq!(taken.count(), 10);
    }

    #[test]
    fn keys_beyond_the_key_limit_share_one_rate_until_idle_keys_are_dropped() {
        let (rate, at) = (Rate::per_minute(2), Timestamp::from_millis);
        let rates = KeyedRateLimiter::default();
        for key in 0..MAX_KEYS {
            assert!(rates.take(rate, &key, at(0)).is_ok());
        }
        assert!(rates.take(rate, &(MAX_KEYS + 1), at(0)).is_ok());
        assert!(rates.take(rate, &(MAX_KEYS + 2), at(0)).is_ok());
        assert!(rates.take(rate, &(MAX_KEYS + 3), at(0)).is_err());
        assert!(rates.take(rate, &0, at(0)).is_ok(), "a counted key has its own rate");
        assert!(rates.take(rate, &(MAX_KEYS + 3), at(60_000)).is_ok());
        assert_eq!(rates.0.lock().unwrap().used.len(), 1);
    }

    #[test]
    fn event_given_back_to_a_rate_can_be_used_again() {
        let (rate, now) = (Rate::per_minute(1), Timestamp::from_millis(0));
        let rates = KeyedRateLimiter::default();
        assert!(rates.take(rate, &(), now).is_ok());
        assert!(rates.take(rate, &(), now).is_err());
        rates.give_back(rate, &());
        assert!(rates.take(rate, &(), now).is_ok());
    }
}
