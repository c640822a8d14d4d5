//! Crawls the skill indexes of followed domains with conditional requests and longer intervals after failures.

mod read;
mod snapshot;
mod visit;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::time::Timestamp;
use nuncio_engine::crawl::{CrawlTargets, Crawler};
use nuncio_engine::follow::{FollowSource, FollowedDomain, ServerOrigin};
use nuncio_engine::ports::Fetch;
use nuncio_engine::{Engine, EngineError};
use tokio::sync::watch;

use crate::registry::SkillCatalogue;
use snapshot::DomainSnapshot;
use visit::DomainVisit;

/// Time that `follow` waits for the first visit.
const FIRST_VISIT_TIMEOUT: Duration = Duration::from_secs(45);

/// Skill of a followed domain that the registry does not list, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UnlistedSkill {
    pub id: String,
    pub why: String,
}

/// Crawler that visits the followed domains. Cheap to clone; clones share one state.
#[derive(Debug, Clone)]
pub struct SkillCrawler(Crawler<FollowedDomainTargets>);

struct FollowedDomainTargets {
    engine: Engine,
    fetch: Arc<dyn Fetch>,
    /// Minimum time between two visits of a domain.
    interval: Duration,
    catalogue: Arc<SkillCatalogue>,
    /// Held while a snapshot is stored and listed, so that snapshots are listed in the order in which they are stored.
    listing_lock: tokio::sync::Mutex<()>,
    /// Number of finished visits.
    visits: watch::Sender<u64>,
}

impl SkillCrawler {
    /// Creates a crawler with an empty catalogue. `interval` is the minimum time between two visits of a domain.
    #[must_use]
    pub fn new(engine: Engine, fetch: Arc<dyn Fetch>, interval: Duration) -> Self {
        let clock = Arc::clone(engine.clock());
        let (catalogue, listing_lock) = Default::default();
        let visits = watch::Sender::new(0);
        Self(Crawler::new(FollowedDomainTargets { engine, fetch, interval, catalogue, listing_lock, visits }, clock))
    }

    /// Skills found at other hosts.
    #[must_use]
    pub fn catalogue(&self) -> &Arc<SkillCatalogue> {
        &self.0.targets().catalogue
    }

    /// Fills the catalogue from the stored snapshots of earlier visits.
    pub async fn load(&self) -> Result<(), EngineError> {
        let engine = &self.0.targets().engine;
        for followed in engine.directory().followed().await? {
            if let Some((followed, Some(offers))) = engine.directory().followed_domain(&followed.domain).await?
                && let Some(last_seen) = followed.last_seen
            {
                let host_skills = DomainSnapshot::read(&offers).host_skills(last_seen);
                self.catalogue().put(followed.domain.as_str(), host_skills);
            }
        }
        Ok(())
    }

    /// Visits each domain when it is due, until `stop` resolves.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        self.0.run(stop).await;
    }

    /// Follows a domain and makes [`SkillCrawler::run`] visit the domain now. The flag is `false` if the visit was not
    /// finished in time; the visit then continues in the background.
    pub async fn follow(&self, domain: ServerOrigin, by: FollowSource) -> Result<(FollowedDomain, bool), EngineError> {
        let FollowedDomainTargets { engine, visits, .. } = self.0.targets();
        let mut visits = visits.subscribe();
        let followed = engine.directory().follow(domain, by).await?;
        self.0.wake();
        let enough = engine.clock().sleep_until(engine.now().after(FIRST_VISIT_TIMEOUT));
        let visited = async {
            loop {
                match engine.directory().followed_domain(&followed.domain).await {
                    Ok(Some((now, _))) if now.next_visit == followed.next_visit => {}
                    other => return other,
                }
                // The sender lives as long as the crawler, so the channel cannot be closed.
                let _ = visits.changed().await;
            }
        };
        let outcome = tokio::select! {
            visited = visited => match visited? {
                Some((now, _)) => (now, true),
                // The domain was unfollowed in the meantime.
                None => (followed, false),
            },
            () = enough => (followed, false),
        };
        self.listed().await;
        Ok(outcome)
    }

    /// Waits until all stored snapshots are listed, so that the skills of a finished visit can be found.
    pub async fn listed(&self) {
        drop(self.0.targets().listing_lock.lock().await);
    }

    /// Stops following a domain and removes its skills from the catalogue.
    ///
    /// # Errors
    /// Fails if the domain is not followed, or if the settings file follows it.
    pub async fn unfollow(&self, domain: &ServerOrigin) -> Result<(), EngineError> {
        let FollowedDomainTargets { engine, listing_lock, catalogue, .. } = self.0.targets();
        let _order = listing_lock.lock().await;
        engine.directory().unfollow(domain).await?;
        catalogue.remove(domain.as_str());
        Ok(())
    }
}

#[async_trait]
impl CrawlTargets for FollowedDomainTargets {
    type Target = ServerOrigin;

    async fn schedule(&self) -> Result<Vec<(ServerOrigin, Timestamp)>, EngineError> {
        let followed = self.engine.directory().followed().await?;
        Ok(followed.into_iter().map(|followed| (followed.domain, followed.next_visit)).collect())
    }

    fn host(&self, domain: &ServerOrigin) -> String {
        domain.host().to_owned()
    }

    async fn visit(&self, domain: &ServerOrigin) -> Result<(), EngineError> {
        let Some((followed, offers)) = self.engine.directory().followed_domain(domain).await? else { return Ok(()) };
        if followed.next_visit <= self.engine.now() {
            let snapshot = offers.map(|offers| DomainSnapshot::read(&offers)).unwrap_or_default();
            DomainVisit::new(self, followed, snapshot).go().await?;
            self.visits.send_modify(|visits| *visits += 1);
        }
        Ok(())
    }
}

/// Skills of a stored snapshot that are not listed, with the reasons; at most a hundred.
#[must_use]
pub fn unlisted(offers: &str) -> Vec<UnlistedSkill> {
    DomainSnapshot::read(offers).unlisted().take(100).collect()
}
