//! Targets of the ANP client: the agent or host that a user names.

use std::fmt;

use nuncio_core::address::{self, root};
use nuncio_identity::Did;
use url::Url;

use super::error::{ClientError, ClientErrorReason, plain};
use crate::wire::WELL_KNOWN;

pub(crate) use nuncio_core::address::authority;
pub(super) use nuncio_engine::ports::fetch::UserNamedHost;

/// A target as written by a user or operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentTarget {
    Did(Did),
    /// Target given as the URL of an agent description.
    Description(Url),
    /// Target given as a host with a list of agents.
    Host(Url),
}

impl AgentTarget {
    /// Parses a DID, a description URL or a host. A host without a scheme uses `https:`, except this machine, which
    /// uses `http:`.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let wrong = |why: &str| {
            ClientError::new(
                ClientErrorReason::BadTarget,
                format!("{:?} is neither an agent nor a host: {why}", plain(text)),
            )
            .advice("write a did:wba, the address of a description, or a host")
        };
        if text.starts_with("did:") {
            return Did::parse(text).map(Self::Did).map_err(|why| wrong(&why.to_string()));
        }
        let url = address::read(text).map_err(|why| wrong(&why))?;
        if matches!(url.path(), "/" | WELL_KNOWN) && url.query().is_none() {
            return Ok(Self::Host(root(&url)));
        }
        Ok(Self::Description(url))
    }

    /// The host that the user named and therefore trusts.
    pub(super) fn named_host(&self, local: LocalDidUrlScheme) -> Result<UserNamedHost, ClientError> {
        match self {
            Self::Description(url) | Self::Host(url) => Ok(UserNamedHost::by(url)),
            Self::Did(did) => Ok(UserNamedHost::by(&did_url(did, local.is_http())?)),
        }
    }
}

impl fmt::Display for AgentTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Did(did) => write!(f, "{did}"),
            Self::Description(url) | Self::Host(url) => write!(f, "{url}"),
        }
    }
}

/// How DIDs of this machine are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalDidUrlScheme {
    #[default]
    Https,
    /// DIDs of localhost are resolved over plain http, for development.
    Http,
}

impl LocalDidUrlScheme {
    pub(super) const fn is_http(self) -> bool {
        matches!(self, Self::Http)
    }
}

pub(crate) fn did_authority(did: &Did) -> String {
    did.port().map_or_else(|| did.host().to_owned(), |port| format!("{}:{port}", did.host()))
}

pub(super) fn did_url(did: &Did, local_by_http: bool) -> Result<Url, ClientError> {
    let text = match did.host() {
        "localhost" if local_by_http => did.resolution_url_at(&format!("http://{}", did_authority(did))),
        _ => did.resolution_url(),
    };
    Url::parse(&text).map_err(|why| ClientError::new(ClientErrorReason::BadDid, format!("{did} has no address: {why}")))
}

#[cfg(test)]
mod tests {
    use nuncio_engine::ports::fetch::AddressTrust;

    use super::*;

    #[test]
    fn target_is_parsed_from_did_url_or_host_and_other_text_is_refused() {
        let did = "did:wba:example.com:agents:hotel";
        for (text, target) in [
            (did, AgentTarget::Did(Did::parse(did).unwrap())),
            ("localhost:7400", AgentTarget::Host(Url::parse("http://localhost:7400/").unwrap())),
            (
                "https://example.com/.well-known/agent-descriptions",
                AgentTarget::Host(Url::parse("https://example.com/").unwrap()),
            ),
            (
                "example.com/agents/a/ad.json",
                AgentTarget::Description(Url::parse("https://example.com/agents/a/ad.json").unwrap()),
            ),
        ] {
            assert_eq!(AgentTarget::parse(text).unwrap(), target);
        }
        for bad in ["", "did:web:example.com", "did:wba:127.0.0.1", "did:wba:EXAMPLE.com", "ftp://x", "a b"] {
            assert_eq!(AgentTarget::parse(bad).unwrap_err().reason, ClientErrorReason::BadTarget, "{bad:?}");
        }
    }

    #[test]
    fn only_https_urls_on_the_host_of_the_target_are_trusted() {
        let url = |text: &str| Url::parse(text).unwrap();
        let named_host =
            AgentTarget::parse("did:wba:example.com:a").unwrap().named_host(LocalDidUrlScheme::Https).unwrap();
        for (text, trust) in [
            ("https://example.com/x", AddressTrust::Configured),
            ("http://example.com/x", AddressTrust::Stranger),
            ("https://example.com.evil.example/", AddressTrust::Stranger),
            ("https://examp1e.com/", AddressTrust::Stranger),
            ("http://127.0.0.1/", AddressTrust::Stranger),
        ] {
            assert_eq!(named_host.trust(&url(text)), trust, "{text}");
        }
    }

    #[test]
    fn localhost_did_resolves_over_http_if_allowed_and_otherwise_over_https() {
        let did = Did::parse("did:wba:localhost%3A7400:a").unwrap();
        assert_eq!(did_url(&did, false).unwrap().as_str(), "https://localhost:7400/a/did.json");
        assert_eq!(did_url(&did, true).unwrap().as_str(), "http://localhost:7400/a/did.json");
        let other = Did::parse("did:wba:example.com:a").unwrap();
        assert_eq!(did_url(&other, true).unwrap().scheme(), "https");
    }
}
