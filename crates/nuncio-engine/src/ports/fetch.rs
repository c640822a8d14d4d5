//! Outgoing HTTP requests.

mod remote_error;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nuncio_core::address;
use serde_json::{Value, json};
use url::Url;

#[derive(Clone)]
pub struct FetchRequest {
    pub method: &'static str,
    pub url: Url,
    pub headers: Vec<(String, String)>,
    pub body: Option<Bytes>,
    /// Whether the operator configured the URL or it came from an untrusted source.
    pub trust: AddressTrust,
    /// Time limit of the request and its complete response.
    pub timeout: Duration,
    /// Maximum response body size, in bytes.
    pub max_bytes: usize,
}

impl fmt::Debug for FetchRequest {
    /// Formats the request without headers, body and query, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{} ({:?})", self.method, self.url.origin().ascii_serialization(), self.url.path(), self.trust)
    }
}

/// Source of a URL, which decides which addresses it may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressTrust {
    /// The URL is from an agent file or the settings: private addresses are allowed.
    Configured,
    /// The URL is from outside: only public addresses are allowed, checked after name resolution.
    Stranger,
}

#[derive(Debug, Clone)]
pub struct FetchResponse {
    pub status: u16,
    /// Response headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl FetchResponse {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address is not allowed by the operator's rules.
    #[error("requests to {url} are not allowed: {why}")]
    Refused { url: String, why: String },
    /// The server cannot be reached or does not speak HTTP.
    #[error("{url} cannot be reached: {why}")]
    Unreachable { url: String, why: String },
    #[error("{url} did not answer within {limit:?}")]
    TooSlow { url: String, limit: Duration },
    #[error("{url} answered with more than {limit} bytes")]
    TooLarge { url: String, status: u16, limit: usize },
}

impl FetchError {
    #[must_use]
    pub fn details(&self) -> Value {
        match self {
            Self::Refused { url, why } | Self::Unreachable { url, why } => json!({"url": url, "reason": why}),
            Self::TooSlow { url, limit } => {
                json!({"url": url, "timeout_ms": u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)})
            }
            Self::TooLarge { url, limit, .. } => json!({"url": url, "limit": limit}),
        }
    }
}

/// The host that a user named, which decides how far other URLs are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserNamedHost(Url);

impl UserNamedHost {
    #[must_use]
    pub fn by(url: &Url) -> Self {
        Self(address::root(url))
    }

    /// Trust in a URL: configured if it is on the named host and no downgrade from `https:` to `http:`, else untrusted.
    #[must_use]
    pub fn trust(&self, url: &Url) -> AddressTrust {
        let no_weaker = url.scheme() == "https" || self.0.scheme() == "http" || address::is_local(url);
        if self.is_host_of(url) && no_weaker { AddressTrust::Configured } else { AddressTrust::Stranger }
    }

    /// Whether the URL is on the named host; all names of this machine count as one host.
    #[must_use]
    pub fn is_host_of(&self, url: &Url) -> bool {
        self.0.host() == url.host() || (self.is_local() && address::is_local(url))
    }

    /// Whether the URL is on the named host or a subdomain.
    #[must_use]
    pub fn covers(&self, url: &Url) -> bool {
        let below = || match (self.0.domain(), url.domain()) {
            (Some(named), Some(other)) => other.strip_suffix(named).is_some_and(|rest| rest.ends_with('.')),
            _ => false,
        };
        self.is_host_of(url) || below()
    }

    /// Whether the URL has the named origin.
    #[must_use]
    pub fn is_origin_of(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }

    #[must_use]
    pub fn is_local(&self) -> bool {
        address::is_local(&self.0)
    }

    #[must_use]
    pub fn is_local_http(&self) -> bool {
        self.0.scheme() == "http" && self.is_local()
    }
}

impl fmt::Display for UserNamedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address::authority(&self.0))
    }
}

#[async_trait]
pub trait Fetch: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and reads the whole response. Redirects are not followed.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError>;

    /// Refuses a URL that [`Self::fetch`] would always refuse, by its scheme, host or literal address. Names are not
    /// resolved, so a request to an accepted URL may still be refused.
    fn check(&self, _url: &Url, _trust: AddressTrust) -> Result<(), FetchError> {
        Ok(())
    }
}
