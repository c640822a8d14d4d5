//! Crawls the indexes of followed domains: one visit per host at a time, few hosts in parallel, conditional requests,
//! and longer intervals after failures.

mod read;
mod snapshot;
mod visit;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_engine::follow::{Domain, FollowSource, FollowedDomain};
use nuncio_engine::ports::Fetch;
use nuncio_engine::{Engine, EngineError};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use crate::registry::Catalogue;
use snapshot::DomainSnapshot;
use visit::DomainVisit;

/// Delay before the next attempt when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(60);

/// Time that `follow` waits for the first visit.
const PATIENCE: Duration = Duration::from_secs(45);

/// Intervals and limits of the crawler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlOptions {
    /// Minimum time between two visits of a domain.
    pub interval: Duration,
    /// Number of hosts visited in parallel.
    pub hosts: usize,
}

impl Default for CrawlOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(15 * 60), hosts: 4 }
    }
}

/// Skill of a followed domain that the registry does not list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct UnlistedSkill {
    pub id: String,
    pub why: String,
}

/// Visits the followed domains. Cheap to clone; clones share one state.
#[derive(Clone)]
pub struct Crawler {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    fetch: Arc<dyn Fetch>,
    options: CrawlOptions,
    catalogue: Arc<Catalogue>,
    /// Locks by host name without port, held during a visit.
    hosts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    places: Semaphore,
    /// Held while a snapshot is stored and listed, so that both happen in the same order.
    listing_lock: tokio::sync::Mutex<()>,
    /// Wakes the crawler when a domain became due earlier than planned.
    changed: Notify,
    /// Number of finished visits.
    visits: watch::Sender<u64>,
}

impl Crawler {
    /// Creates a crawler with an empty catalogue.
    #[must_use]
    pub fn new(engine: Engine, fetch: Arc<dyn Fetch>, options: CrawlOptions) -> Self {
        let places = Semaphore::new(options.hosts.max(1));
        let inner = Inner {
            engine,
            fetch,
            options,
            catalogue: Arc::default(),
            hosts: Mutex::default(),
            places,
            listing_lock: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            visits: watch::Sender::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Skills found at other hosts.
    #[must_use]
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.inner.catalogue
    }

    /// Fills the catalogue from the stored snapshots of earlier visits.
    pub async fn load(&self) -> Result<(), EngineError> {
        for followed in self.inner.engine.directory().followed().await? {
            if let Some((followed, Some(offers))) =
                self.inner.engine.directory().followed_domain(&followed.domain).await?
                && let Some(last_seen) = followed.last_seen
            {
                let host_skills = DomainSnapshot::read(&offers).host_skills(last_seen);
                self.inner.catalogue.put(followed.domain.as_str(), host_skills);
            }
        }
        Ok(())
    }

    /// Visits each domain when it is due, until `stop` resolves.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.keep_visiting() => {}
        }
    }

    async fn keep_visiting(&self) {
        let engine = &self.inner.engine;
        // Dropping this set aborts the visits in it.
        let mut visits = JoinSet::new();
        let mut under_way = HashSet::new();
        loop {
            let (due, next) = self.due(&under_way).await;
            for domain in due {
                under_way.insert(domain.clone());
                let crawler = self.clone();
                visits.spawn(async move {
                    crawler.visit_or_wait(&domain).await;
                    domain
                });
            }
            tokio::select! {
                Some(ended) = visits.join_next() => match ended {
                    Ok(domain) => {
                        under_way.remove(&domain);
                    }
                    // The domain stays in `under_way`, so that a visit that panics is not repeated.
                    Err(error) => tracing::error!(%error, "a visit of a followed domain panicked"),
                },
                () = engine.clock().sleep_until(next) => {}
                () = self.inner.changed.notified() => {}
            }
        }
    }

    /// Domains that are due now, and when the next one is due.
    async fn due(&self, under_way: &HashSet<Domain>) -> (Vec<Domain>, Timestamp) {
        let now = self.inner.engine.now();
        match self.inner.engine.directory().followed().await {
            Ok(mut followed) => {
                followed.retain(|followed| !under_way.contains(&followed.domain));
                let later = followed.iter().map(|followed| followed.next_visit).filter(|next| *next > now);
                let next = later.min().unwrap_or(Timestamp::LAST);
                followed.retain(|followed| followed.next_visit <= now);
                (followed.into_iter().map(|followed| followed.domain).collect(), next)
            }
            Err(error) => {
                tracing::warn!(%error, "the followed domains cannot be read");
                (Vec::new(), now.after(STORE_PAUSE))
            }
        }
    }

    async fn visit_or_wait(&self, domain: &Domain) {
        if let Err(error) = self.visit(domain).await {
            tracing::warn!(%error, %domain, "the skills of a followed domain cannot be stored");
            let engine = &self.inner.engine;
            engine.clock().sleep_until(engine.now().after(STORE_PAUSE)).await;
        }
    }

    /// Visits a domain if it is due and returns its new state; `None` if it is not followed.
    async fn visit(&self, domain: &Domain) -> Result<Option<FollowedDomain>, EngineError> {
        let inner = &self.inner;
        let host = self.host(domain);
        let _alone = host.lock().await;
        let _place = inner.places.acquire().await;
        let Some((followed, offers)) = inner.engine.directory().followed_domain(domain).await? else {
            return Ok(None);
        };
        if followed.next_visit > inner.engine.now() {
            return Ok(Some(followed));
        }
        let snapshot = offers.map(|offers| DomainSnapshot::read(&offers)).unwrap_or_default();
        let visited = DomainVisit::new(inner, followed, snapshot).go().await?;
        inner.visits.send_modify(|visits| *visits += 1);
        Ok(visited)
    }

    /// Follows a domain and has [`Crawler::run`] visit it now. The flag says whether the visit has finished; a long
    /// one continues in the background.
    pub async fn follow(&self, domain: Domain, by: FollowSource) -> Result<(FollowedDomain, bool), EngineError> {
        let engine = &self.inner.engine;
        let mut visits = self.inner.visits.subscribe();
        let followed = engine.directory().follow(domain, by).await?;
        self.inner.changed.notify_one();
        let enough = engine.clock().sleep_until(engine.now().after(PATIENCE));
        let visited = async {
            loop {
                match engine.directory().followed_domain(&followed.domain).await {
                    Ok(Some((now, _))) if now.next_visit == followed.next_visit => {}
                    other => return other,
                }
                // The sender is a field of `self`, so the channel cannot be closed.
                let _ = visits.changed().await;
            }
        };
        let told = tokio::select! {
            visited = visited => match visited? {
                Some((now, _)) => (now, true),
                // The domain was unfollowed in the meantime.
                None => (followed, false),
            },
            () = enough => (followed, false),
        };
        self.listed().await;
        Ok(told)
    }

    /// Waits until all stored snapshots are listed, so that a finished visit is never reported before its skills can
    /// be found.
    pub async fn listed(&self) {
        drop(self.inner.listing_lock.lock().await);
    }

    /// Stops following a domain and removes its skills from the catalogue.
    ///
    /// # Errors
    /// Fails if the domain is not followed, or if the settings file follows it.
    pub async fn unfollow(&self, domain: &Domain) -> Result<(), EngineError> {
        let _order = self.inner.listing_lock.lock().await;
        self.inner.engine.directory().unfollow(domain).await?;
        self.inner.catalogue.remove(domain.as_str());
        Ok(())
    }

    fn host(&self, domain: &Domain) -> Arc<tokio::sync::Mutex<()>> {
        let mut hosts = self.inner.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(domain.host().to_owned()).or_default())
    }
}

/// Skills of a stored snapshot that are not listed, with the reasons; at most a hundred.
#[must_use]
pub fn unlisted(offers: &str) -> Vec<UnlistedSkill> {
    DomainSnapshot::read(offers).unlisted().take(100).collect()
}

impl fmt::Debug for Crawler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crawler").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
