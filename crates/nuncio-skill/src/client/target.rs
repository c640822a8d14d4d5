//! What is asked for, and whom its asker named.

use std::fmt;

use nuncio_core::address;
use nuncio_engine::ports::fetch::Trust;
use url::Url;

use super::error::{ConsumerError, Reason, plain};
use crate::wire::WELL_KNOWN;

/// What a user or an operator wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The address of a descriptor.
    Descriptor(Url),
    /// A skill of a host.
    Skill {
        /// Its id.
        id: String,
        /// The host, as the address of its root.
        host: Url,
    },
    /// A host.
    Host(Url),
}

impl Target {
    /// Reads a descriptor's address, `SKILL-ID@HOST`, or a host. A host without a scheme is asked by
    /// `https:`, and this machine by `http:`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Self, ConsumerError> {
        let wrong = |why: &str| {
            ConsumerError::new(Reason::BadTarget, format!("{:?} is no skill and no host: {why}", plain(text)))
                .advice("write SKILL-ID@HOST, a host, or the address of a descriptor")
        };
        if !text.contains("://")
            && let Some((id, host)) = text.rsplit_once('@')
        {
            if id.is_empty() || id.chars().any(|c| c.is_whitespace() || c.is_control()) {
                return Err(wrong("there is no skill id before the '@'"));
            }
            let host = address::read(host).map_err(|why| wrong(&why))?;
            if host.path() != "/" || host.query().is_some() {
                return Err(wrong("behind the '@' stands a host without a path"));
            }
            return Ok(Self::Skill { id: id.to_owned(), host: root(&host) });
        }
        let url = address::read(text).map_err(|why| wrong(&why))?;
        if matches!(url.path(), "/" | WELL_KNOWN) && url.query().is_none() {
            return Ok(Self::Host(root(&url)));
        }
        Ok(Self::Descriptor(url))
    }

    /// The host it is on.
    #[must_use]
    pub fn host(&self) -> Url {
        match self {
            Self::Descriptor(url) => root(url),
            Self::Skill { host, .. } | Self::Host(host) => host.clone(),
        }
    }

    pub(super) fn named(&self) -> Named {
        Named(self.host())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(url) | Self::Host(url) => write!(f, "{url}"),
            Self::Skill { id, host } => write!(f, "{id}@{}", authority(host)),
        }
    }
}

/// Host and port, as people write them.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn root(url: &Url) -> Url {
    let mut root = url.clone();
    root.set_path("/");
    root.set_query(None);
    root.set_fragment(None);
    root
}

/// The host that was named, which decides how far other addresses are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named(Url);

impl Named {
    /// Addresses of the named host are trusted as it is; all others came from a stranger's document. From
    /// `https:` nothing leads to `http:`.
    pub(super) fn trust(&self, url: &Url) -> Trust {
        let no_weaker = url.scheme() == "https" || self.0.scheme() == "http" || address::is_local(url);
        if self.is_host_of(url) && no_weaker { Trust::Configured } else { Trust::Stranger }
    }

    /// Whether the address is on the named host. This machine has many names.
    pub(super) fn is_host_of(&self, url: &Url) -> bool {
        self.0.host() == url.host() || (address::is_local(&self.0) && address::is_local(url))
    }

    /// Whether the address is on the named host or below it.
    pub(super) fn covers(&self, url: &Url) -> bool {
        let below = || match (self.0.domain(), url.domain()) {
            (Some(named), Some(other)) => other.strip_suffix(named).is_some_and(|rest| rest.ends_with('.')),
            _ => false,
        };
        self.is_host_of(url) || below()
    }

    pub(super) fn is_origin_of(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }

    pub(super) fn is_local(&self) -> bool {
        address::is_local(&self.0)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&authority(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_what_people_write() {
        for (text, target) in [
            ("hotel/find@example.com", "hotel/find@example.com"),
            ("com.example.x-v1@localhost:7400", "com.example.x-v1@localhost:7400"),
            ("localhost:7400", "http://localhost:7400/"),
            ("https://example.com/.well-known/skill-sharing", "https://example.com/"),
            ("https://example.com/skills/a.json", "https://example.com/skills/a.json"),
            ("example.com/skills/a.json?v=2", "https://example.com/skills/a.json?v=2"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), target);
        }
        for bad in ["", "@example.com", "a b@example.com", "a@", "a@b@", "a@example.com/x", "ftp://x", "did:key:z"] {
            assert_eq!(Target::parse(bad).unwrap_err().reason, Reason::BadTarget, "{bad:?}");
        }
    }

    #[test]
    fn only_the_named_host_is_trusted_and_never_more_weakly() {
        let url = |text: &str| Url::parse(text).unwrap();
        let named = Target::parse("example.com").unwrap().named();
        for (text, trust) in [
            ("https://example.com/x", Trust::Configured),
            ("https://example.com:8443/x", Trust::Configured),
            ("http://example.com/x", Trust::Stranger),
            ("https://api.example.com/", Trust::Stranger),
            ("http://127.0.0.1/", Trust::Stranger),
        ] {
            assert_eq!(named.trust(&url(text)), trust, "{text}");
        }
        assert!(named.covers(&url("https://api.example.com")) && !named.covers(&url("https://badexample.com")));
        let here = Target::parse("localhost:7400").unwrap().named();
        assert_eq!(here.trust(&url("http://127.0.0.1:9/")), Trust::Configured);
        assert_eq!(here.trust(&url("http://10.0.0.1/")), Trust::Stranger);
    }
}
