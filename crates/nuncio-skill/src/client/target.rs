//! Targets of an invocation as a user writes them.

use std::fmt;

use nuncio_core::address::{self, root};
use url::Url;

use super::error::{ConsumerErrorReason, SkillConsumerError, plain};
use crate::wire::WELL_KNOWN;

pub(super) use nuncio_core::address::authority;
pub(super) use nuncio_engine::ports::fetch::UserNamedHost;

/// Skill or host to address, as written by a user or in an agent file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillTarget {
    Descriptor(Url),
    /// A skill of a host, by id.
    Skill {
        id: String,
        host: Url,
    },
    Host(Url),
}

impl SkillTarget {
    /// Parses a descriptor URL, `SKILL-ID@HOST`, or a host. A host without a scheme means `https:`, except that
    /// localhost means `http:`.
    pub fn parse(text: &str) -> Result<Self, SkillConsumerError> {
        let wrong = |why: &str| {
            SkillConsumerError::new(
                ConsumerErrorReason::BadTarget,
                format!("{:?} is neither a skill nor a host: {why}", plain(text)),
            )
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
                return Err(wrong("after the '@' there must be a host without a path"));
            }
            return Ok(Self::Skill { id: id.to_owned(), host: root(&host) });
        }
        let url = address::read(text).map_err(|why| wrong(&why))?;
        if matches!(url.path(), "/" | WELL_KNOWN) && url.query().is_none() {
            return Ok(Self::Host(root(&url)));
        }
        Ok(Self::Descriptor(url))
    }

    /// Root URL of the target's host.
    #[must_use]
    pub fn host(&self) -> Url {
        match self {
            Self::Descriptor(url) => root(url),
            Self::Skill { host, .. } | Self::Host(host) => host.clone(),
        }
    }

    pub(super) fn named_host(&self) -> UserNamedHost {
        UserNamedHost::by(&self.host())
    }
}

impl fmt::Display for SkillTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(url) | Self::Host(url) => write!(f, "{url}"),
            Self::Skill { id, host } => write!(f, "{id}@{}", authority(host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use nuncio_engine::ports::fetch::AddressTrust;

    use super::*;

    #[test]
    fn target_is_parsed_from_descriptor_url_skill_id_at_host_or_host() {
        for (text, target) in [
            ("hotel/find@example.com", "hotel/find@example.com"),
            ("com.example.x-v1@localhost:7400", "com.example.x-v1@localhost:7400"),
            ("localhost:7400", "http://localhost:7400/"),
            ("https://example.com/.well-known/skill-sharing", "https://example.com/"),
            ("https://example.com/skills/a.json", "https://example.com/skills/a.json"),
            ("example.com/skills/a.json?v=2", "https://example.com/skills/a.json?v=2"),
        ] {
            assert_eq!(SkillTarget::parse(text).unwrap().to_string(), target);
        }
        for bad in ["", "@example.com", "a b@example.com", "a@", "a@b@", "a@example.com/x", "ftp://x", "did:key:z"] {
            assert_eq!(SkillTarget::parse(bad).unwrap_err().reason, ConsumerErrorReason::BadTarget, "{bad:?}");
        }
    }

    #[test]
    fn only_urls_on_the_named_host_without_downgrade_to_http_are_trusted() {
        let url = |text: &str| Url::parse(text).unwrap();
        let named_host = SkillTarget::parse("example.com").unwrap().named_host();
        for (text, trust) in [
            ("https://example.com/x", AddressTrust::Configured),
            ("https://example.com:8443/x", AddressTrust::Configured),
            ("http://example.com/x", AddressTrust::Stranger),
            ("https://api.example.com/", AddressTrust::Stranger),
            ("http://127.0.0.1/", AddressTrust::Stranger),
        ] {
            assert_eq!(named_host.trust(&url(text)), trust, "{text}");
        }
        assert!(
            named_host.covers(&url("https://api.example.com")) && !named_host.covers(&url("https://badexample.com"))
        );
        let here = SkillTarget::parse("localhost:7400").unwrap().named_host();
        assert_eq!(here.trust(&url("http://127.0.0.1:9/")), AddressTrust::Configured);
        assert_eq!(here.trust(&url("http://10.0.0.1/")), AddressTrust::Stranger);
    }
}
