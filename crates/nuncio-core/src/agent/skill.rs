//! Publication of a tool or a whole agent as a skill (Skill Sharing) that other hosts can discover and invoke.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::ids::SkillId;
use crate::string_enum;
use crate::string_form::string_form;
use crate::time::Timestamp;

/// A tool, or a whole agent, offered to agents of other hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    pub id: SkillId,
    pub name: String,
    pub description: String,
    pub version: SkillVersion,
    pub kind: CapabilityType,
    pub access: SkillAccess,
    /// How the skill's callers authenticate.
    pub auth: SkillAuth,
    pub method: SkillHttpMethod,
    pub tags: Vec<String>,
    pub documentation: Option<Url>,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    /// Retries of a call that could not reach its backend; `None` for a single attempt.
    pub retry: Option<SkillRetryPolicy>,
    /// How long results are stored; `None` for the server's setting.
    pub retention: Option<Duration>,
    /// Limit of concurrent executions of the skill; `None` for the server's setting.
    pub concurrency: Option<usize>,
}

/// A version `MAJOR.MINOR.PATCH` without pre-release or build, as Skill Sharing requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillVersion {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
}

impl SkillVersion {
    /// Parses three numbers without leading zeros; `None` for anything else, also for pre-release and build parts.
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

string_form!(SkillVersion, |text| {
    SkillVersion::parse(text).ok_or_else(|| format!("{text:?} is not MAJOR.MINOR.PATCH"))
});

string_enum! {
    /// The `type` of a skill descriptor.
    pub enum CapabilityType {
        Plugin = "plugin",
        Api = "api",
        /// The skill is a source of answers.
        Knowledge = "knowledge",
        /// The skill is work done by a machine or a person.
        Task = "task",
    }
}

string_enum! {
    /// The access policy of a skill.
    pub enum SkillAccess {
        /// Everyone can find the skill; callers that pass its `auth` can use it.
        Public = "public",
        /// Everyone can find the skill; only authenticated callers with its permission can use it.
        Restricted = "restricted",
        /// The skill is hidden from everyone except authenticated callers with its permission.
        Private = "private",
    }
}

/// How callers of a skill authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillAuth {
    /// Callers do not authenticate.
    None,
    /// An API key of this server, sent in `header`.
    ApiKey { header: String },
    /// An OAuth access token authenticates the skill's callers.
    OAuth2 {
        /// Issuer of the OAuth access token; `None` accepts every issuer that the operator trusts.
        issuer: Option<Url>,
    },
    /// A request signature with a shared secret (`X-Signature`) authenticates the skill's callers.
    Custom,
}

impl SkillAuth {
    /// Default header in which a skill's callers send their API key.
    pub const KEY_HEADER: &str = "X-API-Key";

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

string_enum! {
    pub enum SkillHttpMethod {
        /// Idempotent HTTP method; the skill's inputs are in the query string.
        Get = "GET",
        Post = "POST",
        Put = "PUT",
        /// Idempotent HTTP method; the skill's inputs are in the query string.
        Delete = "DELETE",
    }
}

impl SkillHttpMethod {
    /// Whether requests with this method carry the inputs in the query string.
    #[must_use]
    pub const fn has_query(self) -> bool {
        matches!(self, Self::Get | Self::Delete)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillRetryPolicy {
    /// Largest number of attempts of a skill call, including the first.
    pub max_attempts: u32,
    /// Delay before the second attempt; doubles with each further one.
    pub backoff: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_version_is_parsed_only_from_three_dotted_numbers() {
        for good in ["0.0.0", "1.0.0", "2.3.1", "10.20.30"] {
            assert_eq!(SkillVersion::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "1", "1.0", "v1.0.0", "01.0.0", "1.0.0-rc.1", "1.0.0+b", "-1.0.0", "1.0.0 ", "1.0.x"] {
            assert_eq!(SkillVersion::parse(bad), None, "{bad:?}");
        }
    }
}
