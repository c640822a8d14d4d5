//! Admin commands of the registry: following domains and showing their state.

pub(crate) mod agents;

use std::sync::Arc;
use std::time::Duration;

use nuncio_engine::Engine;
use nuncio_engine::follow::{Domain, FollowSource, FollowedDomain};
use nuncio_engine::ports::Fetch;
use nuncio_skill::crawl::{SkillCrawler, unlisted};
use serde_json::{Value, json};

use crate::error::StartError;
use crate::settings::RegistrySettings;

/// A crawler for the domains that are followed, those of the settings among them, with what is known of them.
pub(crate) async fn open(
    engine: &Engine,
    fetch: Arc<dyn Fetch>,
    settings: &RegistrySettings,
) -> Result<SkillCrawler, StartError> {
    engine.directory().follow_settings(&settings.follow).await?;
    let interval = Duration::from_secs(settings.interval_seconds);
    let crawler = SkillCrawler::new(engine.clone(), fetch, interval);
    crawler.load().await?;
    Ok(crawler)
}

/// Follows a domain, and reads it at once where there is someone to do so.
pub(crate) async fn follow(
    engine: &Engine,
    crawler: Option<&SkillCrawler>,
    domain: Domain,
) -> Result<Value, StartError> {
    let (followed, visited) = match crawler {
        Some(crawler) => crawler.follow(domain, FollowSource::Operator).await?,
        None => (engine.directory().follow(domain, FollowSource::Operator).await?, false),
    };
    Ok(json!({"followed": shown(engine, &followed).await?, "visited": visited}))
}

/// Follows a domain no more.
pub(crate) async fn unfollow(
    engine: &Engine,
    crawler: Option<&SkillCrawler>,
    domain: &Domain,
) -> Result<Value, StartError> {
    match crawler {
        Some(crawler) => crawler.unfollow(domain).await?,
        None => engine.directory().unfollow(domain).await?,
    }
    Ok(json!({"unfollowed": domain}))
}

/// Every domain that is followed. What is told of a visit can be found in the registry.
pub(crate) async fn list(engine: &Engine, crawler: Option<&SkillCrawler>) -> Result<Value, StartError> {
    let mut all = Vec::new();
    for followed in engine.directory().followed().await? {
        all.push(shown(engine, &followed).await?);
    }
    if let Some(crawler) = crawler {
        crawler.listed().await;
    }
    Ok(json!({"followed": all}))
}

/// A domain, with what is not listed of it.
async fn shown(engine: &Engine, followed: &FollowedDomain) -> Result<Value, StartError> {
    let kept = engine.directory().followed_domain(&followed.domain).await?.and_then(|(_, offers)| offers);
    let mut shown = json!(followed);
    shown["unlisted"] = json!(kept.map(|offers| unlisted(&offers)).unwrap_or_default());
    Ok(shown)
}
