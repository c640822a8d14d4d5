//! Admin commands of the registry: following domains and showing their state.

pub(crate) mod agents;

use std::sync::Arc;
use std::time::Duration;

use nuncio_engine::Engine;
use nuncio_engine::follow::{FollowSource, FollowedDomain, ServerOrigin};
use nuncio_engine::ports::Fetch;
use nuncio_skill::crawl::{SkillCrawler, unlisted};

use crate::admin::replies::{FollowResult, FollowedDomainInfo, FollowedDomainList};
use crate::error::OperatorError;
use crate::settings::RegistrySettings;

/// Opens a crawler for the followed domains, which include those of the settings, with their stored skills.
pub(crate) async fn open(
    engine: &Engine,
    fetch: Arc<dyn Fetch>,
    settings: &RegistrySettings,
) -> Result<SkillCrawler, OperatorError> {
    engine.directory().follow_settings(&settings.follow).await?;
    let interval = Duration::from_secs(settings.interval_seconds);
    let crawler = SkillCrawler::new(engine.clone(), fetch, interval);
    crawler.load().await?;
    Ok(crawler)
}

/// Follows a domain. A running server reads its skills at once.
pub(crate) async fn follow(
    engine: &Engine,
    crawler: Option<&SkillCrawler>,
    domain: ServerOrigin,
) -> Result<FollowResult, OperatorError> {
    let (followed, visited) = match crawler {
        Some(crawler) => crawler.follow(domain, FollowSource::Operator).await?,
        None => (engine.directory().follow(domain, FollowSource::Operator).await?, false),
    };
    Ok(FollowResult { followed: with_unlisted(engine, followed).await?, visited })
}

pub(crate) async fn unfollow(
    engine: &Engine,
    crawler: Option<&SkillCrawler>,
    domain: &ServerOrigin,
) -> Result<(), OperatorError> {
    match crawler {
        Some(crawler) => crawler.unfollow(domain).await?,
        None => engine.directory().unfollow(domain).await?,
    }
    Ok(())
}

/// Every followed domain, with the outcome of the last visit.
pub(crate) async fn list(engine: &Engine, crawler: Option<&SkillCrawler>) -> Result<FollowedDomainList, OperatorError> {
    let mut all = Vec::new();
    for followed in engine.directory().followed().await? {
        all.push(with_unlisted(engine, followed).await?);
    }
    if let Some(crawler) = crawler {
        crawler.listed().await;
    }
    Ok(FollowedDomainList { followed: all })
}

/// A followed domain, with the skills that it publishes and that the registry does not list.
async fn with_unlisted(engine: &Engine, followed: FollowedDomain) -> Result<FollowedDomainInfo, OperatorError> {
    let offers = engine.directory().followed_domain(&followed.domain).await?.and_then(|(_, offers)| offers);
    let unlisted = offers.map(|offers| unlisted(&offers)).unwrap_or_default();
    Ok(FollowedDomainInfo { state: followed, unlisted })
}
