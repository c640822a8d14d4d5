//! A followed domain and the result of its last visit.

use std::fmt;

use nuncio_core::time::Timestamp;
use nuncio_core::{address, string_enum};
use serde::{Deserialize, Serialize};
use url::Url;

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
