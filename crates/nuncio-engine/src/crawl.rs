//! Crawler for documents of other hosts, shared by the protocols: visits targets when they are due, one visit per host
//! at a time and few hosts in parallel. A protocol says what its targets are and what a visit does.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::time::Timestamp;
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};
use tokio::task::JoinSet;

use crate::error::EngineError;
use crate::ports::Clock;

mod catalogue;

pub use catalogue::{Catalogue, CatalogueQuery};

/// Time without a successful visit after which documents of a host are no longer listed.
pub const STALE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const MAX_PARALLEL_HOSTS: usize = 4;
/// Delay before the next attempt when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(60);

/// Targets of a crawler, and how to visit them.
#[async_trait]
pub trait CrawlTargets: Send + Sync + 'static {
    type Target: Clone + Eq + Hash + fmt::Display + Send + Sync + 'static;

    /// All targets with the times of their next visits.
    async fn schedule(&self) -> Result<Vec<(Self::Target, Timestamp)>, EngineError>;

    /// Host of a target; a host gets one visit at a time.
    fn host(&self, target: &Self::Target) -> String;

    /// Visits a target and stores the result with the time of the next visit.
    ///
    /// # Errors
    /// The result could not be stored.
    async fn visit(&self, target: &Self::Target) -> Result<(), EngineError>;
}

/// Visits targets when they are due. Cheap to clone; clones share one state.
pub struct Crawler<T> {
    inner: Arc<CrawlerState<T>>,
}

struct CrawlerState<T> {
    targets: T,
    clock: Arc<dyn Clock>,
    /// Locks by host, held during a visit.
    hosts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    slots: Semaphore,
    changed: Notify,
}

impl<T: CrawlTargets> Crawler<T> {
    #[must_use]
    pub fn new(targets: T, clock: Arc<dyn Clock>) -> Self {
        let (hosts, changed) = Default::default();
        Self {
            inner: Arc::new(CrawlerState { targets, clock, hosts, slots: Semaphore::new(MAX_PARALLEL_HOSTS), changed }),
        }
    }

    #[must_use]
    pub fn targets(&self) -> &T {
        &self.inner.targets
    }

    /// Reads the schedule again, because a target became due earlier than planned.
    pub fn wake(&self) {
        self.inner.changed.notify_one();
    }

    /// Waits until no other visit of the host is under way, and prevents further ones.
    pub async fn lock_host(&self, host: String) -> OwnedMutexGuard<()> {
        let lock = {
            let mut hosts = self.inner.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            hosts.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(hosts.entry(host).or_default())
        };
        lock.lock_owned().await
    }

    /// Visits each target when it is due, until `stop` resolves.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = stop => {}
            () = self.keep_visiting() => {}
        }
    }

    async fn keep_visiting(&self) {
        // Dropping this set aborts the visits in it.
        let mut visits = JoinSet::new();
        let mut under_way = HashSet::new();
        loop {
            let (due, next) = self.due(&under_way).await;
            for target in due {
                under_way.insert(target.clone());
                let crawler = self.clone();
                visits.spawn(async move {
                    crawler.visit(&target).await;
                    target
                });
            }
            tokio::select! {
                biased;
                Some(ended) = visits.join_next() => match ended {
                    Ok(target) => {
                        under_way.remove(&target);
                    }
                    // The target stays in `under_way`, so that a visit that panics is not repeated.
                    Err(error) => tracing::error!(%error, "the crawl of a host panicked"),
                },
                () = self.inner.clock.sleep_until(next) => {}
                () = self.inner.changed.notified() => {}
            }
        }
    }

    /// Targets that are due now, the longest overdue first, and when the next one is due.
    async fn due(&self, under_way: &HashSet<T::Target>) -> (Vec<T::Target>, Timestamp) {
        let now = self.inner.clock.now();
        let mut schedule = match self.inner.targets.schedule().await {
            Ok(schedule) => schedule,
            Err(error) => {
                tracing::warn!(%error, "the crawl schedule cannot be read");
                return (Vec::new(), now.after(STORE_PAUSE));
            }
        };
        schedule.retain(|(target, _)| !under_way.contains(target));
        schedule.sort_by_key(|(_, at)| *at);
        let later = schedule.partition_point(|(_, at)| *at <= now);
        let next = schedule.get(later).map_or(Timestamp::LAST, |(_, at)| *at);
        (schedule.into_iter().take(later).map(|(target, _)| target).collect(), next)
    }

    async fn visit(&self, target: &T::Target) {
        let visited = {
            let _alone = self.lock_host(self.inner.targets.host(target)).await;
            let _slot = self.inner.slots.acquire().await;
            self.inner.targets.visit(target).await
        };
        if let Err(error) = visited {
            tracing::warn!(%error, %target, "the result of a crawl cannot be stored");
            self.inner.clock.sleep_until(self.inner.clock.now().after(STORE_PAUSE)).await;
        }
    }
}

impl<T> Clone for Crawler<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T> fmt::Debug for Crawler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crawler").finish_non_exhaustive()
    }
}
