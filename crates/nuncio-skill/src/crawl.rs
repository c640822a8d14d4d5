//! Reads what followed domains offer, from time to time and politely: one visit at a time for each host, few
//! hosts at once, nothing fetched again that has not changed, and longer pauses where visits come to nothing.

mod kept;
mod read;
mod visit;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_engine::follow::{Domain, Followed, FollowedBy};
use nuncio_engine::ports::Fetch;
use nuncio_engine::{Engine, EngineError};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use crate::registry::Catalogue;
use kept::Kept;
use visit::Visit;

/// How long visits wait when the store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(60);

/// How long whoever follows a domain waits for its first visit.
const PATIENCE: Duration = Duration::from_secs(45);

/// How often, and how much at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlOptions {
    /// How long it is at least from one visit of a domain to the next.
    pub interval: Duration,
    /// How many hosts are visited at once.
    pub hosts: usize,
}

impl Default for CrawlOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(15 * 60), hosts: 4 }
    }
}

/// A skill that a followed domain has and that is not listed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unlisted {
    /// Its id.
    pub id: String,
    /// Why not.
    pub why: String,
}

/// Visits the domains that are followed. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Crawler {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    fetch: Arc<dyn Fetch>,
    options: CrawlOptions,
    catalogue: Arc<Catalogue>,
    /// Held while a host is visited, whatever the port.
    hosts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    places: Semaphore,
    /// Held while something is kept and listed, so that both happen in the same order.
    shelving: tokio::sync::Mutex<()>,
    /// Someone is to be visited sooner than was thought.
    changed: Notify,
    /// How many visits are over.
    visits: watch::Sender<u64>,
}

impl Crawler {
    /// A crawler that has visited nobody yet.
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
            shelving: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            visits: watch::Sender::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// What was found.
    #[must_use]
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.inner.catalogue
    }

    /// Lists again what was kept of earlier visits.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn load(&self) -> Result<(), EngineError> {
        for followed in self.inner.engine.followed().await? {
            if let Some((followed, Some(offers))) = self.inner.engine.followed_domain(&followed.domain).await?
                && let Some(last_seen) = followed.last_seen
            {
                let shelf = Kept::read(&offers).shelf(last_seen);
                self.inner.catalogue.put(followed.domain.as_str(), shelf);
            }
        }
        Ok(())
    }

    /// Visits each domain when its time has come, until told to stop.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.keep_visiting() => {}
        }
    }

    async fn keep_visiting(&self) {
        let engine = &self.inner.engine;
        // Visits end with this set.
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
                    // It stays under way, so that it does not panic again and again.
                    Err(error) => tracing::error!(%error, "a visit of a followed domain broke off"),
                },
                () = engine.clock().sleep_until(next) => {}
                () = self.inner.changed.notified() => {}
            }
        }
    }

    /// Those whose time has come, and when to look again.
    async fn due(&self, under_way: &HashSet<Domain>) -> (Vec<Domain>, Timestamp) {
        let now = self.inner.engine.now();
        match self.inner.engine.followed().await {
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
            tracing::warn!(%error, %domain, "what a followed domain offers cannot be kept");
            let engine = &self.inner.engine;
            engine.clock().sleep_until(engine.now().after(STORE_PAUSE)).await;
        }
    }

    /// Visits a domain if its time has come, and tells how it is now; none when it is not followed.
    ///
    /// # Errors
    /// The store cannot be used.
    async fn visit(&self, domain: &Domain) -> Result<Option<Followed>, EngineError> {
        let inner = &self.inner;
        let host = self.host(domain);
        let _alone = host.lock().await;
        let _place = inner.places.acquire().await;
        let Some((followed, offers)) = inner.engine.followed_domain(domain).await? else {
            return Ok(None);
        };
        if followed.next_visit > inner.engine.now() {
            return Ok(Some(followed));
        }
        let kept = offers.map(|offers| Kept::read(&offers)).unwrap_or_default();
        let visited = Visit::new(inner, followed, kept).go().await?;
        inner.visits.send_modify(|visits| *visits += 1);
        Ok(visited)
    }

    /// Follows a domain and has it visited at once by [`Crawler::run`]. How it is then, and whether the visit is
    /// over: one that takes long goes on by itself.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn follow(&self, domain: Domain, by: FollowedBy) -> Result<(Followed, bool), EngineError> {
        let engine = &self.inner.engine;
        let mut visits = self.inner.visits.subscribe();
        let followed = engine.follow(domain, by).await?;
        self.inner.changed.notify_one();
        let enough = engine.clock().sleep_until(engine.now().after(PATIENCE));
        let visited = async {
            loop {
                match engine.followed_domain(&followed.domain).await {
                    Ok(Some((now, _))) if now.next_visit == followed.next_visit => {}
                    other => return other,
                }
                // The sender lives in ourselves.
                let _ = visits.changed().await;
            }
        };
        let told = tokio::select! {
            visited = visited => match visited? {
                Some((now, _)) => (now, true),
                // Somebody else followed it no more.
                None => (followed, false),
            },
            () = enough => (followed, false),
        };
        self.listed().await;
        Ok(told)
    }

    /// Waits until everything that was kept so far is listed too, so that nobody is told of a visit whose skills
    /// cannot be found yet.
    pub async fn listed(&self) {
        drop(self.inner.shelving.lock().await);
    }

    /// Follows a domain no more; nothing of it is listed then.
    ///
    /// # Errors
    /// It is not followed, the settings say that it is, or the store cannot be used.
    pub async fn unfollow(&self, domain: &Domain) -> Result<(), EngineError> {
        let _order = self.inner.shelving.lock().await;
        self.inner.engine.unfollow(domain).await?;
        self.inner.catalogue.remove(domain.as_str());
        Ok(())
    }

    fn host(&self, domain: &Domain) -> Arc<tokio::sync::Mutex<()>> {
        let mut hosts = self.inner.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(domain.host().to_owned()).or_default())
    }
}

/// What is not listed of what was kept, and why; the first hundred.
#[must_use]
pub fn unlisted(offers: &str) -> Vec<Unlisted> {
    Kept::read(offers).unlisted().take(100).collect()
}

impl fmt::Debug for Crawler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crawler").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
