//! Followed domains, whose skill offers are fetched regularly. The engine stores the offers as text; the crawler
//! interprets them.

use nuncio_core::ErrorCode;

use crate::context::CommitResultExt as _;
use crate::directory::DirectoryService;
use crate::error::EngineError;
use crate::ports::store::{AgentDirectoryChange, Change, Conflict, Job, JobChange, JobKind};

pub use crate::followed_domain::{FollowSource, FollowedDomain, ServerOrigin};

impl DirectoryService {
    /// Lists followed domains by name.
    pub async fn followed(&self) -> Result<Vec<FollowedDomain>, EngineError> {
        Ok(self.store.followed().await?)
    }

    /// A followed domain with its stored offers.
    pub async fn followed_domain(
        &self,
        domain: &ServerOrigin,
    ) -> Result<Option<(FollowedDomain, Option<String>)>, EngineError> {
        Ok(self.store.followed_domain(domain).await?)
    }

    /// Follows a domain; a domain that is already followed becomes due for a visit now.
    pub async fn follow(&self, domain: ServerOrigin, by: FollowSource) -> Result<FollowedDomain, EngineError> {
        let now = self.context.now();
        if let Some((known, _)) = self.store.followed_domain(&domain).await? {
            let now = FollowedDomain { next_visit: now, ..known };
            let update = AgentDirectoryChange::UpdateFollowed { followed: now.clone(), offers: None };
            self.context.commit(vec![update.into(), visit_job(&now)]).await?;
            return Ok(now);
        }
        let followed = FollowedDomain::new(domain, by, now);
        self.context.commit(vec![AgentDirectoryChange::Follow(followed.clone()).into(), visit_job(&followed)]).await?;
        Ok(followed)
    }

    /// Stores the result of a visit, and the offers if they changed. Returns false if the domain is no longer followed.
    pub async fn record_visit(&self, followed: FollowedDomain, offers: Option<String>) -> Result<bool, EngineError> {
        let change = AgentDirectoryChange::UpdateFollowed { followed, offers };
        Ok(self.context.commit_one(change).await.made_unless(Conflict::Missing)?)
    }

    /// Stops following a domain and deletes its offers. Fails if the settings name the domain or it is not followed.
    pub async fn unfollow(&self, domain: &ServerOrigin) -> Result<(), EngineError> {
        let known = self.store.followed_domain(domain).await?;
        if known.is_some_and(|(followed, _)| followed.by == FollowSource::Settings) {
            let message = format!(
                "{domain} is followed because registry.follow lists it; remove it from that setting and restart the \
                 server"
            );
            return Err(EngineError::new(ErrorCode::ConfigInvalid, message));
        }
        let removed = self.context.commit_one(AgentDirectoryChange::Unfollow(domain.clone())).await;
        if removed.made_unless(Conflict::Missing)? {
            return Ok(());
        }
        let message = format!("{domain} is not followed; `nuncio registry list` shows the followed domains");
        Err(EngineError::new(ErrorCode::NotFollowed, message))
    }

    /// Synchronises the followed domains with the settings: adds new ones and removes those no longer named.
    pub async fn follow_settings(&self, named: &[ServerOrigin]) -> Result<(), EngineError> {
        let known = self.store.followed().await?;
        let gone = known
            .iter()
            .filter(|followed| followed.by == FollowSource::Settings && !named.contains(&followed.domain))
            .map(|followed| AgentDirectoryChange::Unfollow(followed.domain.clone()).into());
        let mut changes: Vec<_> = gone.collect();
        for (number, domain) in named.iter().enumerate() {
            if named[..number].contains(domain) {
                continue;
            }
            match known.iter().find(|followed| followed.domain == *domain) {
                Some(followed) if followed.by == FollowSource::Settings => {}
                Some(followed) => {
                    let followed = FollowedDomain { by: FollowSource::Settings, ..followed.clone() };
                    changes.push(AgentDirectoryChange::UpdateFollowed { followed, offers: None }.into());
                }
                None => {
                    let followed = FollowedDomain::new(domain.clone(), FollowSource::Settings, self.context.now());
                    changes.push(visit_job(&followed));
                    changes.push(AgentDirectoryChange::Follow(followed).into());
                }
            }
        }
        Ok(self.context.commit(changes).await?)
    }
}

/// Change that schedules the next visit of a domain. The job is removed when it runs after the domain was unfollowed.
fn visit_job(followed: &FollowedDomain) -> Change {
    let (key, receiver) = (followed.domain.to_string(), followed.domain.host().to_owned());
    JobChange::Put(Job { kind: JobKind::Visit, key, receiver, lane: None, due: followed.next_visit, attempts: 0 })
        .into()
}
