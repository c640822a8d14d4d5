//! What an author says about a tool, or a whole agent, that strangers may discover and invoke.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::ids::SkillId;
use crate::time::Timestamp;

/// A tool, or a whole agent, offered to other people's agents.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// Unique on this host.
    pub id: SkillId,
    /// What people call it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its own version.
    pub version: SkillVersion,
    /// What sort of thing it is.
    pub kind: CapabilityType,
    /// Who may find and use it.
    pub access: Access,
    /// How its callers say who they are.
    pub auth: SkillAuth,
    /// How it is called.
    pub method: SkillMethod,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Where more is written about it.
    pub documentation: Option<Url>,
    /// Since when it exists.
    pub created_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
    /// How often a call that could not reach its backend is tried again.
    pub retry: Option<Retry>,
    /// How long results are kept; none for the server's own rule.
    pub retention: Option<Duration>,
    /// How many run at once; none for the server's own rule.
    pub concurrency: Option<usize>,
}

/// A version of three numbers and nothing else, as Skill Sharing writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillVersion {
    /// Changes when callers must change.
    pub major: u64,
    /// Changes when something is added.
    pub minor: u64,
    /// Changes when something is mended.
    pub patch: u64,
}

impl SkillVersion {
    /// Reads `MAJOR.MINOR.PATCH`: digits without leading zeros, no pre-release, no build.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let version = semver::Version::parse(text).ok()?;
        let plain = version.pre.is_empty() && version.build.is_empty();
        plain.then_some(Self { major: version.major, minor: version.minor, patch: version.patch })
    }
}

impl std::fmt::Display for SkillVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl TryFrom<String> for SkillVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not MAJOR.MINOR.PATCH"))
    }
}

impl From<SkillVersion> for String {
    fn from(version: SkillVersion) -> Self {
        version.to_string()
    }
}

/// What sort of thing a skill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityType {
    /// Adds to something else.
    Plugin,
    /// A service.
    Api,
    /// Something to ask.
    Knowledge,
    /// Something to have done, by a machine or a person.
    Task,
}

impl CapabilityType {
    /// Every kind, in the order they are listed.
    pub const ALL: [Self; 4] = [Self::Plugin, Self::Api, Self::Knowledge, Self::Task];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Api => "api",
            Self::Knowledge => "knowledge",
            Self::Task => "task",
        }
    }
}

/// Who may find and use a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Anyone may find it; whoever its `auth` lets in may use it.
    Public,
    /// Anyone may find it; only known callers with its permission may use it.
    Restricted,
    /// For anyone but known callers with its permission it does not exist.
    Private,
}

impl Access {
    /// Every policy, in the order they are listed.
    pub const ALL: [Self; 3] = [Self::Public, Self::Restricted, Self::Private];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Restricted => "restricted",
            Self::Private => "private",
        }
    }
}

/// How a skill's callers say who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillAuth {
    /// They need not.
    None,
    /// By a key of this server, in that header.
    ApiKey {
        /// The header's name.
        header: String,
    },
    /// By an access token.
    OAuth2 {
        /// Of which issuer; none for any the operator trusts.
        issuer: Option<Url>,
    },
    /// By signing the request with a shared secret.
    Custom,
}

impl SkillAuth {
    /// The header keys are sent in when an author names none.
    pub const KEY_HEADER: &str = "X-API-Key";

    /// Its word.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ApiKey { .. } => "api_key",
            Self::OAuth2 { .. } => "oauth2",
            Self::Custom => "custom",
        }
    }
}

/// How a skill is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkillMethod {
    /// `GET`: safe to repeat, inputs in the query.
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`: safe to repeat, inputs in the query.
    Delete,
}

impl SkillMethod {
    /// Every method, in the order they are listed.
    pub const ALL: [Self; 4] = [Self::Get, Self::Post, Self::Put, Self::Delete];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Whether inputs travel in the query.
    #[must_use]
    pub const fn has_query(self) -> bool {
        matches!(self, Self::Get | Self::Delete)
    }
}

/// How often, and after how long, something is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often it is tried at most.
    pub max_attempts: u32,
    /// How long to wait first; doubled each time.
    pub backoff: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers_and_nothing_else() {
        for good in ["0.0.0", "1.0.0", "2.3.1", "10.20.30"] {
            assert_eq!(SkillVersion::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "1", "1.0", "v1.0.0", "01.0.0", "1.0.0-rc.1", "1.0.0+b", "-1.0.0", "1.0.0 ", "1.0.x"] {
            assert_eq!(SkillVersion::parse(bad), None, "{bad:?}");
        }
    }
}
