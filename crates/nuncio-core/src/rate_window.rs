//! Rate limiting by a sliding window: at most a number of events in any span of time of a given length.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Timestamp;

/// Limit of keys that one [`KeyedWindowLimiter`] counts separately.
const MAX_KEYS: usize = 65_536;
/// Minimum time between two searches for keys without recent events.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// At most `count` events in any span of length `span`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimit {
    pub count: usize,
    pub span: Duration,
}

/// Times of the last events per key, at most `count` each. At most 65,536 keys are counted separately; further keys
/// share one window. A key without recent events is dropped when space is needed.
#[derive(Debug)]
pub struct KeyedWindowLimiter<K>(Mutex<RateWindowTable<K>>);

#[derive(Debug)]
struct RateWindowTable<K> {
    events: HashMap<K, EventTimes>,
    shared: EventTimes,
    swept: Timestamp,
}

/// Times of the events of one window, oldest first.
#[derive(Debug, Default)]
struct EventTimes(VecDeque<Timestamp>);

impl EventTimes {
    fn take(&mut self, limit: WindowLimit, now: Timestamp) -> Result<Timestamp, Duration> {
        self.forget(limit.span, now);
        if self.0.len() >= limit.count {
            let oldest = self.0.get(self.0.len() - limit.count).copied().unwrap_or(now);
            return Err(now.until(oldest.after(limit.span)));
        }
        Ok(self.push(now))
    }

    fn push(&mut self, time: Timestamp) -> Timestamp {
        // The times stay in order if the clock is set back.
        let time = self.0.back().map_or(time, |last| time.max(*last));
        self.0.push_back(time);
        time
    }

    fn forget(&mut self, span: Duration, now: Timestamp) {
        while self.0.front().is_some_and(|oldest| oldest.after(span) <= now) {
            self.0.pop_front();
        }
    }
}

impl<K> Default for KeyedWindowLimiter<K> {
    fn default() -> Self {
        let (events, shared) = Default::default();
        Self(Mutex::new(RateWindowTable { events, shared, swept: Timestamp::from_millis(0) }))
    }
}

impl<K: Hash + Eq + Clone> KeyedWindowLimiter<K> {
    /// Counts events that happened before, for example in a previous process; `events` are in the order of their times.
    pub fn load(&self, events: impl IntoIterator<Item = (K, Timestamp)>) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, time) in events {
            if table.events.contains_key(&key) || table.events.len() < MAX_KEYS {
                table.events.entry(key).or_default().push(time);
            } else {
                table.shared.push(time);
            }
        }
    }

    /// Counts one event of a key and returns the time at which it counts. The error is the time to wait.
    pub fn take(&self, limit: WindowLimit, key: &K, now: Timestamp) -> Result<Timestamp, Duration> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !table.events.contains_key(key) && table.events.len() >= MAX_KEYS {
            if table.swept.after(SWEEP_INTERVAL) <= now {
                table.swept = now;
                table.events.retain(|_, events| {
                    events.forget(limit.span, now);
                    !events.0.is_empty()
                });
            }
            if table.events.len() >= MAX_KEYS {
                return table.shared.take(limit, now);
            }
        }
        table.events.entry(key.clone()).or_default().take(limit, now)
    }

    /// Takes back the event of a key that counted at `time`, because it did not happen after all. An event that counted
    /// for the shared window stays.
    pub fn give_back(&self, key: &K, time: Timestamp) {
        if let Some(EventTimes(times)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).events.get_mut(key)
            && let Some(index) = times.iter().rposition(|counted| *counted == time)
        {
            times.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: WindowLimit = WindowLimit { count: 3, span: Duration::from_secs(60) };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn event_beyond_the_limit_waits_until_the_oldest_leaves_the_window() {
        let windows = KeyedWindowLimiter::default();
        for time in [0, 10_000, 20_000] {
            assert_eq!(windows.take(LIMIT, &"a", at(time)), Ok(at(time)));
        }
        assert_eq!(windows.take(LIMIT, &"a", at(20_000)), Err(Duration::from_secs(40)));
        assert_eq!(windows.take(LIMIT, &"b", at(20_000)), Ok(at(20_000)), "each key has its own window");
        assert_eq!(windows.take(LIMIT, &"a", at(59_999)), Err(Duration::from_millis(1)));
        assert_eq!(windows.take(LIMIT, &"a", at(60_000)), Ok(at(60_000)));
        assert_eq!(windows.take(LIMIT, &"a", at(60_000)), Err(Duration::from_secs(10)));
    }

    #[test]
    fn event_given_back_can_be_used_again() {
        let windows = KeyedWindowLimiter::default();
        let one = WindowLimit { count: 1, ..LIMIT };
        let counted = windows.take(one, &(), at(0)).unwrap();
        assert!(windows.take(one, &(), at(0)).is_err());
        windows.give_back(&(), counted);
        assert!(windows.take(one, &(), at(0)).is_ok());
    }

    #[test]
    fn later_event_keeps_its_time_when_an_earlier_one_is_given_back() {
        let windows = KeyedWindowLimiter::default();
        let failed = windows.take(LIMIT, &(), at(0)).unwrap();
        for time in [30_000, 40_000] {
            assert!(windows.take(LIMIT, &(), at(time)).is_ok());
        }
        windows.give_back(&(), failed);
        assert_eq!(windows.take(LIMIT, &(), at(50_000)), Ok(at(50_000)));
        assert_eq!(windows.take(LIMIT, &(), at(60_000)), Err(Duration::from_secs(30)));
    }

    #[test]
    fn loaded_events_count_until_they_leave_the_window() {
        let windows = KeyedWindowLimiter::default();
        windows.load([("a", at(0)), ("b", at(5_000)), ("a", at(10_000)), ("a", at(10_000))]);
        assert_eq!(windows.take(LIMIT, &"a", at(20_000)), Err(Duration::from_secs(40)));
        assert_eq!(windows.take(LIMIT, &"b", at(20_000)), Ok(at(20_000)));
        assert_eq!(windows.take(LIMIT, &"a", at(60_000)), Ok(at(60_000)));
    }

    #[test]
    fn keys_beyond_the_key_limit_share_one_window_until_idle_keys_are_dropped() {
        let windows = KeyedWindowLimiter::default();
        for key in 0..MAX_KEYS {
            assert!(windows.take(LIMIT, &key, at(0)).is_ok());
        }
        for key in 1..=3 {
            assert!(windows.take(LIMIT, &(MAX_KEYS + key), at(0)).is_ok());
        }
        assert!(windows.take(LIMIT, &(MAX_KEYS + 4), at(0)).is_err());
        assert!(windows.take(LIMIT, &0, at(0)).is_ok(), "a counted key has its own window");
        assert!(windows.take(LIMIT, &(MAX_KEYS + 4), at(60_000)).is_ok());
        assert_eq!(windows.0.lock().unwrap().events.len(), 1);
    }

    proptest! {
        #[test]
        fn no_window_has_more_events_than_the_limit(steps in prop::collection::vec(0_i64..40_000, 1..60)) {
            let windows = KeyedWindowLimiter::default();
            let (mut now, mut accepted) = (0, Vec::new());
            for step in steps {
                now += step;
                match windows.take(LIMIT, &(), at(now)) {
                    Ok(_) => accepted.push(now),
                    Err(wait) => {
                        let wait = i64::try_from(wait.as_millis()).unwrap();
                        prop_assert!(wait > 0 && accepted.iter().any(|time| time + 60_000 == now + wait));
                    }
                }
            }
            for start in &accepted {
                prop_assert!(accepted.iter().filter(|time| (*start..start + 60_000).contains(time)).count() <= 3);
            }
        }
    }
}
