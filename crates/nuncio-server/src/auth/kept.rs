//! Something fetched from an issuer: used while it is fresh, a while longer when it cannot be fetched
//! anew, and fetched by one request at a time however many wait for it.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use tokio::sync::Mutex;

/// How long nothing is fetched again after it was fetched, whatever strangers send.
const PAUSE: Duration = Duration::from_secs(30);
/// How long nothing is tried again after it could not be fetched.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// What is kept, and the rules.
pub(super) struct Kept<T> {
    clock: Arc<dyn Clock>,
    /// For how long it is not looked at again.
    fresh: Duration,
    /// For how long it is used at most.
    usable: Duration,
    current: RwLock<Option<Held<T>>>,
    last: Mutex<Option<Attempt>>,
}

/// What was fetched, and when.
pub(super) struct Held<T> {
    pub(super) value: Arc<T>,
    pub(super) at: Timestamp,
}

struct Attempt {
    at: Timestamp,
    failed: Option<String>,
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), at: self.at }
    }
}

impl<T> Kept<T> {
    pub(super) fn new(clock: Arc<dyn Clock>, fresh: Duration, usable: Duration) -> Self {
        Self { clock, fresh, usable, current: RwLock::default(), last: Mutex::default() }
    }

    /// What is held, whatever its age.
    pub(super) fn current(&self) -> Option<Held<T>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When what is held has to be looked at again.
    pub(super) fn fresh_until(&self, held: &Held<T>) -> Timestamp {
        held.at.after(self.fresh)
    }

    /// What is held, fetched anew where it has to be.
    pub(super) async fn get(&self, fetch: impl Future<Output = Result<T, String>>) -> Result<Held<T>, String> {
        let held = self.current();
        if let Some(held) = &held
            && self.clock.now() < self.fresh_until(held)
        {
            return Ok(held.clone());
        }
        match (self.newer(held.as_ref(), fetch).await, held) {
            (Ok(newer), _) => Ok(newer),
            (Err(_), Some(old)) if self.clock.now() < old.at.after(self.usable) => Ok(old),
            (Err(why), _) => Err(why),
        }
    }

    /// Something newer than `seen`; `seen` itself when it is too early to ask again.
    pub(super) async fn newer(
        &self,
        seen: Option<&Held<T>>,
        fetch: impl Future<Output = Result<T, String>>,
    ) -> Result<Held<T>, String> {
        let mut last = self.last.lock().await;
        if let Some(current) = self.current()
            && seen.is_none_or(|seen| !Arc::ptr_eq(&seen.value, &current.value))
        {
            // Someone else fetched it while this one waited.
            return Ok(current);
        }
        let now = self.clock.now();
        match (&*last, seen) {
            (Some(Attempt { at, failed: Some(why) }), _) if now < at.after(PAUSE_AFTER_FAILURE) => {
                return Err(why.clone());
            }
            (Some(Attempt { at, failed: None }), Some(seen)) if now < at.after(PAUSE) => return Ok(seen.clone()),
            _ => {}
        }
        let fetched = fetch.await;
        *last = Some(Attempt { at: now, failed: fetched.as_ref().err().cloned() });
        let held = Held { value: Arc::new(fetched?), at: now };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(held.clone());
        Ok(held)
    }
}
