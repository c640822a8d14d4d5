//! Cache of verification results with an expiry each. Tokens are stored as digests only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;

/// A bounded cache. When it is full, expired entries are removed, then the one that expires first.
pub(super) struct Cache<V> {
    limit: usize,
    entries: Mutex<HashMap<Digest, (Timestamp, V)>>,
}

impl<V: Clone> Cache<V> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, entries: Mutex::default() }
    }

    pub(super) fn get(&self, token: &Digest, now: Timestamp) -> Option<V> {
        let entries = self.lock();
        let (until, value) = entries.get(token)?;
        (now < *until).then(|| value.clone())
    }

    /// Caches `value` until `until`, which may already be past.
    pub(super) fn put(&self, token: Digest, value: V, until: Timestamp, now: Timestamp) {
        let mut entries = self.lock();
        if entries.len() >= self.limit {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= self.limit {
            let first = entries.iter().min_by_key(|(_, (until, _))| *until).map(|(token, _)| *token);
            first.and_then(|token| entries.remove(&token));
        }
        entries.insert(token, (until, value));
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, (Timestamp, V)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn token(number: u8) -> Digest {
        Digest::of_bytes(&[number])
    }

    #[test]
    fn cache_entry_expires_at_its_time() {
        let cache = Cache::new(2);
        cache.put(token(1), "ada", at(10), at(0));
        assert_eq!(cache.get(&token(1), at(9)), Some("ada"));
        assert_eq!(cache.get(&token(1), at(10)), None);
        assert_eq!(cache.get(&token(2), at(0)), None);
    }

    #[test]
    fn full_cache_evicts_expired_entries_and_then_the_soonest_to_expire() {
        let cache = Cache::new(2);
        cache.put(token(1), 1, at(10), at(0));
        cache.put(token(2), 2, at(30), at(0));
        cache.put(token(3), 3, at(20), at(10));
        assert_eq!([1, 2, 3].map(|n| cache.get(&token(n), at(10))), [None, Some(2), Some(3)]);
        cache.put(token(4), 4, at(40), at(10));
        assert_eq!([2, 3, 4].map(|n| cache.get(&token(n), at(10))), [Some(2), None, Some(4)]);
        assert_eq!(cache.lock().len(), 2);
    }
}
