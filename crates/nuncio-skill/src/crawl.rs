//! Crawls the skill indexes of followed domains with conditional requests and longer intervals after failures.

mod read;
mod snapshot;
mod visit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_engine::follow::{FollowSource, FollowedDomain, ServerOrigin};
use nuncio_engine::jobs::JobHandler;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::store::ClaimedJob;
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
#[derive(Clone)]
pub struct SkillCrawler(Arc<FollowedDomainTargets>);

impl fmt::Debug for SkillCrawler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillCrawler").finish_non_exhaustive()
    }
}

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
        let (catalogue, listing_lock) = Default::default();
        let visits = watch::Sender::new(0);
        Self(Arc::new(FollowedDomainTargets { engine, fetch, interval, catalogue, listing_lock, visits }))
    }

    /// Skills found at other hosts.
    #[must_use]
    pub fn catalogue(&self) -> &Arc<SkillCatalogue> {
        &self.0.catalogue
    }

    /// Fills the catalogue from the stored snapshots of earlier visits.
    pub async fn load(&self) -> Result<(), EngineError> {
        let engine = &self.0.engine;
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

    /// Follows a domain, which makes it due for a visit now. The flag is `false` if the visit was not
    /// finished in time; the visit then continues in the background.
    pub async fn follow(&self, domain: ServerOrigin, by: FollowSource) -> Result<(FollowedDomain, bool), EngineError> {
        let FollowedDomainTargets { engine, visits, .. } = &*self.0;
        let mut visits = visits.subscribe();
        let followed = engine.directory().follow(domain, by).await?;
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
        drop(self.0.listing_lock.lock().await);
    }

    /// Stops following a domain and removes its skills from the catalogue.
    ///
    /// # Errors
    /// Fails if the domain is not followed, or if the settings file follows it.
    pub async fn unfollow(&self, domain: &ServerOrigin) -> Result<(), EngineError> {
        let FollowedDomainTargets { engine, listing_lock, catalogue, .. } = &*self.0;
        let _order = listing_lock.lock().await;
        engine.directory().unfollow(domain).await?;
        catalogue.remove(domain.as_str());
        Ok(())
    }
}

#[async_trait]
impl JobHandler for SkillCrawler {
    /// Visits a domain when it is due, and schedules the next visit.
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let engine = &self.0.engine;
        let Ok(domain) = ServerOrigin::parse(&job.job.key) else { return engine.jobs().end(job).await };
        if let Some((followed, offers)) = engine.directory().followed_domain(&domain).await?
            && followed.next_visit <= engine.now()
        {
            let snapshot = offers.map(|offers| DomainSnapshot::read(&offers)).unwrap_or_default();
            DomainVisit::new(&self.0, followed, snapshot).go().await?;
            self.0.visits.send_modify(|visits| *visits += 1);
        }
        match engine.directory().followed_domain(&domain).await? {
            Some((followed, _)) => engine.jobs().postpone(job, followed.next_visit).await,
            None => engine.jobs().end(job).await,
        }
    }
}

/// Skills of a stored snapshot that are not listed, with the reasons; at most a hundred.
#[must_use]
pub fn unlisted(offers: &str) -> Vec<UnlistedSkill> {
    DomainSnapshot::read(offers).unlisted().take(100).collect()
}
