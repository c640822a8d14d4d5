//! The one way out to addresses on the network.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nuncio_core::address;
use url::Url;

/// An outgoing request.
#[derive(Clone)]
pub struct Outgoing {
    /// The method.
    pub method: &'static str,
    /// Where to.
    pub url: Url,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Bytes>,
    /// Whether the operator named the address, or it came from a stranger.
    pub trust: Trust,
    /// How long the whole exchange may take.
    pub timeout: Duration,
    /// How many bytes of the answer are read at most.
    pub max_bytes: usize,
}

impl fmt::Debug for Outgoing {
    /// Without what may hold a secret: headers, body, query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{} ({:?})", self.method, self.url.origin().ascii_serialization(), self.url.path(), self.trust)
    }
}

/// Where an address came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The operator wrote it in an agent file or in the settings: private addresses are fine.
    Configured,
    /// It came from outside: only public addresses, checked after name resolution.
    Stranger,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, whole.
    pub body: Bytes,
}

impl Incoming {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Why nothing came back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address is one that may not be reached.
    #[error("{url} may not be reached: {why}")]
    Refused {
        /// The address.
        url: String,
        /// Which rule it breaks.
        why: String,
    },
    /// The other side cannot be reached or does not speak HTTP.
    #[error("{url} cannot be reached: {why}")]
    Unreachable {
        /// The address.
        url: String,
        /// What happened.
        why: String,
    },
    /// It took too long.
    #[error("{url} did not answer within {limit:?}")]
    TooSlow {
        /// The address.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// The answer is too large.
    #[error("{url} answered with more than {limit} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The status it had.
        status: u16,
        /// The limit.
        limit: usize,
    },
}

/// The host that whoever asks has named, which decides how far other addresses are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named(Url);

impl Named {
    /// The host of an address that was named.
    #[must_use]
    pub fn by(url: &Url) -> Self {
        Self(address::root(url))
    }

    /// Addresses of the named host are trusted as it is; all others came from a stranger's document. From
    /// `https:` nothing leads to `http:`.
    #[must_use]
    pub fn trust(&self, url: &Url) -> Trust {
        let no_weaker = url.scheme() == "https" || self.0.scheme() == "http" || address::is_local(url);
        if self.is_host_of(url) && no_weaker { Trust::Configured } else { Trust::Stranger }
    }

    /// Whether the address is on the named host. This machine has many names.
    #[must_use]
    pub fn is_host_of(&self, url: &Url) -> bool {
        self.0.host() == url.host() || (self.is_local() && address::is_local(url))
    }

    /// Whether the address is on the named host or below it.
    #[must_use]
    pub fn covers(&self, url: &Url) -> bool {
        let below = || match (self.0.domain(), url.domain()) {
            (Some(named), Some(other)) => other.strip_suffix(named).is_some_and(|rest| rest.ends_with('.')),
            _ => false,
        };
        self.is_host_of(url) || below()
    }

    /// Whether the address is of the very origin that was named.
    #[must_use]
    pub fn is_origin_of(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }

    /// Whether this machine was named.
    #[must_use]
    pub fn is_local(&self) -> bool {
        address::is_local(&self.0)
    }

    /// Whether plain http on this machine was named.
    #[must_use]
    pub fn is_local_http(&self) -> bool {
        self.0.scheme() == "http" && self.is_local()
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address::authority(&self.0))
    }
}

/// The outbound client.
#[async_trait]
pub trait Fetch: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and reads the whole answer. Redirects are not followed.
    async fn fetch(&self, request: Outgoing) -> Result<Incoming, FetchError>;
}
