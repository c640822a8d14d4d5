//! Domains whose offers are read from time to time. What is read there is the reader's to understand;
//! here it is a text that is kept with its domain.

use std::fmt;

use nuncio_core::time::Timestamp;
use nuncio_core::{Code, address};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::store::{Change, Conflict, StoreError};

/// Where a server is, without a path: `https://example.com`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Domain(Url);

impl Domain {
    /// Reads a domain, with or without a scheme and a port. It means `https:`, and `http:` on this machine.
    ///
    /// # Errors
    /// It is none, or names something on the server; the sentence says so.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let text: String = text.chars().take(200).collect();
            format!("{text:?} is no domain: {why}; write one such as example.com or localhost:7400")
        };
        let url = address::read(text).map_err(|why| wrong(&why))?;
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it goes on behind the host"));
        }
        Ok(Self(url))
    }

    /// The address of its root.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Its host, whatever the port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Whether it is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        address::is_local(&self.0)
    }

    /// Scheme, host and port, without the slash at the end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Domain> for String {
    fn from(domain: Domain) -> Self {
        domain.as_str().to_owned()
    }
}

impl TryFrom<String> for Domain {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// Who said that a domain is to be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowedBy {
    /// An operator, by a command.
    Operator,
    /// The settings: for as long as they say so.
    Settings,
}

impl FollowedBy {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Settings => "settings",
        }
    }

    /// The one of that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Operator, Self::Settings].into_iter().find(|by| by.as_str() == word)
    }
}

/// A domain that is followed, and how the last visit went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The domain.
    pub domain: Domain,
    /// Who said so.
    pub by: FollowedBy,
    /// Since when.
    pub since: Timestamp,
    /// When it last told what it offers.
    pub last_seen: Option<Timestamp>,
    /// When it is visited next.
    pub next_visit: Timestamp,
    /// How many visits in a row came to nothing.
    pub failures: u32,
    /// How many of its offers are listed.
    pub listed: u64,
    /// What was wrong at the last visit.
    pub problem: Option<String>,
}

impl Followed {
    /// A domain nobody has visited yet.
    #[must_use]
    pub fn new(domain: Domain, by: FollowedBy, now: Timestamp) -> Self {
        Self { domain, by, since: now, last_seen: None, next_visit: now, failures: 0, listed: 0, problem: None }
    }
}

impl Engine {
    /// Every domain that is followed, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn followed(&self) -> Result<Vec<Followed>, EngineError> {
        Ok(self.store().followed().await?)
    }

    /// One domain, with what was kept of its offers; none when it is not followed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn followed_domain(&self, domain: &Domain) -> Result<Option<(Followed, Option<String>)>, EngineError> {
        Ok(self.store().followed_domain(domain).await?)
    }

    /// Follows a domain from now on. One that is followed already is to be visited now.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn follow(&self, domain: Domain, by: FollowedBy) -> Result<Followed, EngineError> {
        let now = self.now();
        if let Some((known, _)) = self.store().followed_domain(&domain).await? {
            let now = Followed { next_visit: now, ..known };
            self.store().commit(vec![Change::UpdateFollowed { followed: now.clone(), offers: None }]).await?;
            return Ok(now);
        }
        let followed = Followed::new(domain, by, now);
        self.store().commit(vec![Change::Follow(followed.clone())]).await?;
        Ok(followed)
    }

    /// Keeps what a visit came to, and what it found when that has changed. Nothing is kept of a domain
    /// that is followed no more; the answer says whether it is.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn keep_visit(&self, followed: Followed, offers: Option<String>) -> Result<bool, EngineError> {
        match self.store().commit(vec![Change::UpdateFollowed { followed, offers }]).await {
            Err(StoreError::Conflict(Conflict::Missing)) => Ok(false),
            other => Ok(other.map(|()| true)?),
        }
    }

    /// Follows a domain no more, and forgets what it offered.
    ///
    /// # Errors
    /// It is not followed, or the settings say that it is.
    pub async fn unfollow(&self, domain: &Domain) -> Result<(), EngineError> {
        let known = self.store().followed_domain(domain).await?;
        if known.is_some_and(|(followed, _)| followed.by == FollowedBy::Settings) {
            let message = format!("the settings say to follow {domain}: take it out of registry.follow and restart");
            return Err(EngineError::new(Code::ConfigInvalid, message));
        }
        match self.store().commit(vec![Change::Unfollow(domain.clone())]).await {
            Err(StoreError::Conflict(Conflict::Missing)) => {
                let message = format!("{domain} is not followed; `nuncio registry list` shows what is");
                Err(EngineError::new(Code::NotFollowed, message))
            }
            other => Ok(other?),
        }
    }

    /// Makes the domains that the settings name those that are followed because of them: new ones are
    /// followed, and those they name no longer are not.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn follow_settings(&self, named: &[Domain]) -> Result<(), EngineError> {
        let known = self.store().followed().await?;
        let gone = known
            .iter()
            .filter(|followed| followed.by == FollowedBy::Settings && !named.contains(&followed.domain))
            .map(|followed| Change::Unfollow(followed.domain.clone()));
        let mut changes: Vec<_> = gone.collect();
        for (number, domain) in named.iter().enumerate() {
            if named[..number].contains(domain) {
                continue;
            }
            match known.iter().find(|followed| followed.domain == *domain) {
                Some(followed) if followed.by == FollowedBy::Settings => {}
                Some(followed) => {
                    let followed = Followed { by: FollowedBy::Settings, ..followed.clone() };
                    changes.push(Change::UpdateFollowed { followed, offers: None });
                }
                None => {
                    changes.push(Change::Follow(Followed::new(domain.clone(), FollowedBy::Settings, self.now())));
                }
            }
        }
        Ok(self.store().commit(changes).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_an_origin_however_it_is_written() {
        for (text, origin) in [
            ("example.com", "https://example.com"),
            ("Example.COM:443/", "https://example.com"),
            ("https://example.com:8443", "https://example.com:8443"),
            ("localhost:7400", "http://localhost:7400"),
            ("http://10.0.0.1/", "http://10.0.0.1"),
            ("bücher.example", "https://xn--bcher-kva.example"),
        ] {
            let domain = Domain::parse(text).unwrap();
            assert_eq!(domain.as_str(), origin);
            assert_eq!(Domain::parse(domain.as_str()).as_ref(), Ok(&domain), "it is read back");
        }
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        for bad in ["", "example.com/skills", "example.com?x", "https://a/#b", "ftp://a", "user@a", "a b"] {
            assert!(Domain::parse(bad).is_err(), "{bad:?}");
        }
    }
}
