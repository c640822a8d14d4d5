//! Cache of one document fetched from an issuer: used while fresh, longer if the refresh fails, and fetched
//! by one request at a time.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use tokio::sync::Mutex;

/// Minimum time between a successful fetch and the next one, so that callers cannot cause unlimited fetches.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time between a failed fetch and the next one.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct CachedFetch<T> {
    clock: Arc<dyn Clock>,
    /// Age up to which a value is used without a refresh.
    fresh: Duration,
    /// Age up to which a value is used if the refresh fails.
    usable: Duration,
    current: RwLock<Option<FetchedValue<T>>>,
    last_attempt: Mutex<Option<FetchAttempt>>,
}

#[derive(Clone)]
pub(super) struct FetchedValue<T> {
    pub(super) value: Arc<T>,
    pub(super) at: Timestamp,
}

struct FetchAttempt {
    at: Timestamp,
    failed: Option<String>,
}

impl<T: Clone> CachedFetch<T> {
    pub(super) fn new(clock: Arc<dyn Clock>, fresh: Duration, usable: Duration) -> Self {
        Self { clock, fresh, usable, current: RwLock::default(), last_attempt: Mutex::default() }
    }

    pub(super) fn current(&self) -> Option<FetchedValue<T>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Time from which a cached value needs a refresh.
    pub(super) fn fresh_until(&self, cached: &FetchedValue<T>) -> Timestamp {
        cached.at.after(self.fresh)
    }

    /// Returns the cached value, refreshed if it is no longer fresh.
    pub(super) async fn get(&self, fetch: impl Future<Output = Result<T, String>>) -> Result<FetchedValue<T>, String> {
        let cached = self.current();
        if let Some(cached) = &cached
            && self.clock.now() < self.fresh_until(cached)
        {
            return Ok(cached.clone());
        }
        match (self.newer(cached.as_ref(), fetch).await, cached) {
            (Ok(newer), _) => Ok(newer),
            (Err(_), Some(old)) if self.clock.now() < old.at.after(self.usable) => Ok(old),
            (Err(why), _) => Err(why),
        }
    }

    /// Fetches a value newer than `seen`; returns `seen` itself within the minimum pause.
    pub(super) async fn newer(
        &self,
        seen: Option<&FetchedValue<T>>,
        fetch: impl Future<Output = Result<T, String>>,
    ) -> Result<FetchedValue<T>, String> {
        let mut last = self.last_attempt.lock().await;
        if let Some(current) = self.current()
            && seen.is_none_or(|seen| !Arc::ptr_eq(&seen.value, &current.value))
        {
            // Another request fetched a newer value while this one waited for the lock.
            return Ok(current);
        }
        let now = self.clock.now();
        match (&*last, seen) {
            (Some(FetchAttempt { at, failed: Some(why) }), _) if now < at.after(RETRY_INTERVAL) => {
                return Err(why.clone());
            }
            (Some(FetchAttempt { at, failed: None }), Some(seen)) if now < at.after(MIN_INTERVAL) => {
                return Ok(seen.clone());
            }
            _ => {}
        }
        let fetched = fetch.await;
        *last = Some(FetchAttempt { at: now, failed: fetched.as_ref().err().cloned() });
        let cached = FetchedValue { value: Arc::new(fetched?), at: now };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(cached.clone());
        Ok(cached)
    }
}
