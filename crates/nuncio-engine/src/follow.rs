//! Followed domains, whose skill offers are fetched regularly. The engine stores the offers as text; the crawler
//! interprets them.

use std::fmt;

use nuncio_core::time::Timestamp;
use nuncio_core::{Code, address, string_enum};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::context::CommitResultExt as _;
use crate::directory::DirectoryService;
use crate::error::EngineError;
use crate::ports::store::{AgentDirectoryChange, Change, Conflict, Job, JobChange, JobKind};

/// Origin of a server without a path: `https://example.com`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ServerOrigin(Url);

impl ServerOrigin {
    /// Parses a domain with or without scheme and port. The default is `https:`, and `http:` for this machine.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let text: String = text.chars().take(200).collect();
            format!("{text:?} is not a domain: {why}; give one such as example.com or localhost:7400")
        };
        let url = address::read(text).map_err(|why| wrong(&why))?;
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it contains more than a host and a port"));
        }
        Ok(Self(url))
    }

    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Host of the domain, without port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    #[must_use]
    pub fn is_local(&self) -> bool {
        address::is_local(&self.0)
    }

    /// Origin of the domain, without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }
}

impl fmt::Display for ServerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<ServerOrigin> for String {
    fn from(domain: ServerOrigin) -> Self {
        domain.as_str().to_owned()
    }
}

impl TryFrom<String> for ServerOrigin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

string_enum! {
    /// Source that asked to follow a domain.
    pub enum FollowSource {
        Operator = "operator",
        /// The settings file names the domain, which is followed until the settings no longer name it.
        Settings = "settings",
    }
}

/// A followed domain and the result of the last visit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedDomain {
    pub domain: ServerOrigin,
    pub by: FollowSource,
    pub since: Timestamp,
    /// Time of the last successful visit of the domain.
    pub last_seen: Option<Timestamp>,
    pub next_visit: Timestamp,
    /// Number of consecutive failed visits of the domain.
    pub failures: u32,
    /// Number of skill offers that the domain lists.
    pub listed: u64,
    /// Reason of the last failed visit of the domain.
    pub problem: Option<String>,
}

impl FollowedDomain {
    #[must_use]
    pub fn new(domain: ServerOrigin, by: FollowSource, now: Timestamp) -> Self {
        Self { domain, by, since: now, last_seen: None, next_visit: now, failures: 0, listed: 0, problem: None }
    }
}

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
            return Err(EngineError::new(Code::ConfigInvalid, message));
        }
        let removed = self.context.commit_one(AgentDirectoryChange::Unfollow(domain.clone())).await;
        if removed.made_unless(Conflict::Missing)? {
            return Ok(());
        }
        let message = format!("{domain} is not followed; `nuncio registry list` shows the followed domains");
        Err(EngineError::new(Code::NotFollowed, message))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_is_normalised_to_its_origin() {
        for (text, origin) in [
            ("example.com", "https://example.com"),
            ("Example.COM:443/", "https://example.com"),
            ("https://example.com:8443", "https://example.com:8443"),
            ("localhost:7400", "http://localhost:7400"),
            ("http://10.0.0.1/", "http://10.0.0.1"),
            ("bücher.example", "https://xn--bcher-kva.example"),
        ] {
            let domain = ServerOrigin::parse(text).unwrap();
            assert_eq!(domain.as_str(), origin);
            assert_eq!(ServerOrigin::parse(domain.as_str()).as_ref(), Ok(&domain), "it is read back");
        }
    }

    #[test]
    fn domain_with_path_query_user_or_other_scheme_is_refused() {
        for bad in ["", "example.com/skills", "example.com?x", "https://a/#b", "ftp://a", "user@a", "a b"] {
            assert!(ServerOrigin::parse(bad).is_err(), "{bad:?}");
        }
    }
}
