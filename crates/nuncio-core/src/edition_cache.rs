//! Cache of values that were computed from one edition of some state.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

/// A cache that threads share. It has the values of one edition only: the first value of another edition replaces all.
///
/// Callers read the edition before the state itself. If the state changes in between, a new value is cached under the
/// old edition, and the next reader, who has the new edition, computes it again.
#[derive(Debug)]
pub struct EditionCache<E, K, V>(RwLock<(E, HashMap<K, V>)>);

impl<E: Default, K, V> Default for EditionCache<E, K, V> {
    fn default() -> Self {
        Self(RwLock::new((E::default(), HashMap::new())))
    }
}

impl<E: PartialEq, K: Hash + Eq, V: Clone> EditionCache<E, K, V> {
    pub fn get(&self, edition: &E, key: &K) -> Option<V> {
        let cached = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if cached.0 == *edition { cached.1.get(key).cloned() } else { None }
    }

    pub fn put(&self, edition: E, key: K, value: V) {
        let mut cached = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if cached.0 != edition {
            *cached = (edition, HashMap::new());
        }
        cached.1.insert(key, value);
    }

    /// Returns the cached value for this edition and key, or computes and caches it. No lock is held meanwhile, so two
    /// threads may compute the same value.
    pub fn get_or_put(&self, edition: E, key: K, compute: impl FnOnce() -> V) -> V {
        self.get(&edition, &key).unwrap_or_else(|| {
            let value = compute();
            self.put(edition, key, value.clone());
            value
        })
    }
}
