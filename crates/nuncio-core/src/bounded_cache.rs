//! Cache with a limit of its total weight and an expiry for each entry.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;

use crate::time::Timestamp;

/// A cache that threads share. Above its limit it drops the entries that were unused for longest. Expired entries are
/// never returned.
pub struct BoundedCache<K, V>(Mutex<CacheEntries<K, V>>);

struct CacheEntries<K, V> {
    limit: usize,
    weight: usize,
    by_key: LruCache<K, CacheEntry<V>>,
}

struct CacheEntry<V> {
    value: V,
    weight: usize,
    until: Timestamp,
}

impl<K: Hash + Eq, V> BoundedCache<K, V> {
    /// Makes a cache whose entries weigh at most `limit` in total; entries of [`BoundedCache::put`] weigh one each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Mutex::new(CacheEntries { limit, weight: 0, by_key: LruCache::new_unbounded() }))
    }

    /// Caches `value` until `until`, which may already be past.
    pub fn put(&self, key: K, value: V, until: Timestamp) {
        drop(self.put_weighted(key, value, until, 1));
    }

    /// Caches a value of this weight and returns the values that were replaced or dropped for it. A value heavier than
    /// the limit is dropped itself, with all others.
    #[must_use]
    pub fn put_weighted(&self, key: K, value: V, until: Timestamp, weight: usize) -> Vec<V> {
        self.lock().put(key, value, until, weight)
    }

    /// Replaces the value of a key by one that is computed from it, atomically for other threads. `change` gets `None`
    /// if the key has no value or an expired one. A new key weighs one; an existing one keeps its weight.
    pub fn update(&self, key: K, now: Timestamp, until: Timestamp, change: impl FnOnce(Option<&V>) -> V) {
        let mut entries = self.lock();
        match entries.by_key.get_mut(&key) {
            Some(entry) => {
                let before = Some(&entry.value).filter(|_| now < entry.until);
                (entry.value, entry.until) = (change(before), until);
            }
            None => drop(entries.put(key, change(None), until, 1)),
        }
    }

    /// Removes and returns the value of a key if `fits` accepts the value and its expiry, which may be past.
    pub fn take_if<Q: Hash + Eq + ?Sized>(&self, key: &Q, fits: impl FnOnce(&V, Timestamp) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut entries = self.lock();
        entries.by_key.peek(key).filter(|entry| fits(&entry.value, entry.until))?;
        let entry = entries.by_key.remove(key)?;
        Some(entries.subtract(entry))
    }

    /// Removes and returns the value of a key, even if it expired.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.take_if(key, |_, _| true)
    }

    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let entries = &mut *self.lock();
        entries.by_key.retain(|key, entry| keep(key, &entry.value));
        entries.weight = entries.by_key.iter().map(|(_, entry)| entry.weight).sum();
    }

    pub fn clear(&self) {
        self.retain(|_, _| false);
    }

    /// Total weight of the cache, including expired entries.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.lock().weight
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq, V: Clone> BoundedCache<K, V> {
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: Timestamp) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key, now, |_| {})
    }

    /// Returns the value of a key and sets its expiry; `None` if the value has expired already.
    pub fn get_and_extend<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: Timestamp, until: Timestamp) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key, now, |entry| entry.until = until)
    }

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: Timestamp, found: impl FnOnce(&mut CacheEntry<V>)) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut entries = self.lock();
        let entry = entries.by_key.get_mut(key)?;
        if now < entry.until {
            found(entry);
            return Some(entry.value.clone());
        }
        let expired = entries.by_key.remove(key)?;
        entries.subtract(expired);
        None
    }
}

impl<K: Hash + Eq + Clone, V> BoundedCache<K, V> {
    /// Removes and returns all expired values.
    pub fn take_expired(&self, now: Timestamp) -> Vec<V> {
        let mut entries = self.lock();
        let expired = entries.by_key.iter().filter(|(_, entry)| entry.until <= now);
        let keys: Vec<K> = expired.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| entries.by_key.remove(key).map(|entry| entries.subtract(entry))).collect()
    }
}

impl<K: Hash + Eq, V> CacheEntries<K, V> {
    fn put(&mut self, key: K, value: V, until: Timestamp, weight: usize) -> Vec<V> {
        self.weight += weight;
        let replaced = self.by_key.insert(key, CacheEntry { value, weight, until });
        let mut dropped: Vec<V> = replaced.map(|entry| self.subtract(entry)).into_iter().collect();
        while self.weight > self.limit
            && let Some((_, oldest)) = self.by_key.remove_lru()
        {
            dropped.push(self.subtract(oldest));
        }
        dropped
    }

    fn subtract(&mut self, removed: CacheEntry<V>) -> V {
        self.weight -= removed.weight;
        removed.value
    }
}

/// Debug output without the cache's contents, which may be secret.
impl<K, V> fmt::Debug for BoundedCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn cache_entry_is_returned_until_its_expiry_time_and_then_removed() {
        let cache = BoundedCache::new(2);
        cache.put("ada", 1, at(10));
        assert_eq!(cache.get("ada", at(9)), Some(1));
        assert_eq!(cache.get_and_extend("ada", at(9), at(20)), Some(1));
        assert_eq!(cache.get("ada", at(19)), Some(1));
        assert_eq!(cache.get("ada", at(20)), None);
        assert_eq!(cache.get("ada", at(0)), None, "an entry that was found expired is removed");
        assert_eq!(cache.weight(), 0);
    }

    #[test]
    fn full_cache_drops_the_least_recently_used_entry() {
        let cache = BoundedCache::new(2);
        cache.put(1, 'a', at(10));
        cache.put(2, 'b', at(10));
        assert_eq!(cache.get(&1, at(0)), Some('a'));
        assert_eq!(cache.put_weighted(3, 'c', at(10), 1), ['b']);
        assert_eq!([1, 2, 3].map(|key| cache.get(&key, at(0))), [Some('a'), None, Some('c')]);
        assert_eq!(cache.put_weighted(1, 'd', at(10), 1), ['a'], "a replaced value is returned");
        assert_eq!(cache.take_expired(at(10)), ['c', 'd']);
        assert_eq!(cache.weight(), 0);
    }

    #[test]
    fn take_if_removes_a_cache_entry_only_if_the_condition_holds() {
        let cache = BoundedCache::new(2);
        cache.put(1, 'a', at(10));
        assert_eq!(cache.take_if(&1, |_, until| until > at(10)), None);
        assert_eq!(cache.take_if(&1, |value, _| *value == 'a'), Some('a'));
        assert_eq!(cache.take_if(&1, |_, _| true), None);
    }

    #[test]
    fn cache_update_treats_an_expired_value_as_absent() {
        let cache = BoundedCache::new(2);
        let count = |now: i64| {
            cache.update((), at(now), at(now + 10), |before| before.map_or(1, |count| count + 1));
            cache.get(&(), at(now)).unwrap()
        };
        assert_eq!([count(0), count(9), count(18), count(28)], [1, 2, 3, 1]);
    }

    proptest! {
        /// Compares a cache with a map after the same operations: the limit may only remove entries.
        #[test]
        fn cache_stays_within_its_limit_and_returns_only_stored_unexpired_values(
            limit in 1..20_usize,
            steps in prop::collection::vec((0..8_u8, 0..4_u8, 1..8_usize, 0..50_i64), 0..200),
        ) {
            let cache = BoundedCache::new(limit);
            let mut all = HashMap::new();
            for (now, (key, action, weight, until)) in steps.into_iter().enumerate() {
                let now = at(i64::try_from(now).unwrap() / 8);
                match action {
                    0 | 1 => {
                        drop(cache.put_weighted(key, (key, weight), at(until), weight));
                        all.insert(key, (at(until), weight));
                    }
                    2 => {
                        cache.remove(&key);
                        all.remove(&key);
                    }
                    _ => cache.retain(|_, (_, weight)| *weight != 3),
                }
                all.retain(|_, (_, weight)| action != 3 || *weight != 3);
                prop_assert!(cache.weight() <= limit);
                for (key, (until, weight)) in &all {
                    let found = cache.get(key, now);
                    prop_assert!(found.is_none_or(|found| found == (*key, *weight) && now < *until));
                }
                prop_assert!((0..8).all(|key| all.contains_key(&key) || cache.get(&key, now).is_none()));
                let held: usize = cache.lock().by_key.iter().map(|(_, entry)| entry.weight).sum();
                prop_assert_eq!(held, cache.weight());
            }
        }
    }
}
