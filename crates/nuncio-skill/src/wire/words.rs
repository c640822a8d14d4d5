//! The closed lists of words (§3.4, §3.5.3, §5.3).

use nuncio_core::agent::{CapabilityType, SkillAccess, SkillMethod};
use serde::{Deserialize, Serialize};

use crate::schema::model::{Described, Shape};

/// How callers of a skill say who they are (§3.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// By a key in a header.
    ApiKey,
    /// By an OAuth 2.0 access token.
    #[serde(rename = "oauth2")]
    OAuth2,
    /// In a way of its own.
    Custom,
    /// They need not.
    None,
}

impl AuthType {
    /// Every type, in the seed's order.
    pub const ALL: [Self; 4] = [Self::ApiKey, Self::OAuth2, Self::Custom, Self::None];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::OAuth2 => "oauth2",
            Self::Custom => "custom",
            Self::None => "none",
        }
    }
}

/// How far an execution is (§3.4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// Taken on.
    Accepted,
    /// Being done.
    Running,
    /// Done.
    Completed,
    /// Not done, and it will not be.
    Failed,
    /// Not done in time.
    Timeout,
}

impl ExecutionStatus {
    /// Every status, in the seed's order.
    pub const ALL: [Self; 5] = [Self::Accepted, Self::Running, Self::Completed, Self::Failed, Self::Timeout];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
        }
    }

    /// Whether nothing more will happen.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Timeout)
    }
}

/// How soon an execution should be done beside others (§5.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// After the others.
    Low,
    /// As they come.
    #[default]
    Normal,
    /// Before the others.
    High,
}

impl Priority {
    /// Every priority, in the seed's order.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

impl Described for CapabilityType {
    fn shape() -> Shape {
        Shape::Named("CapabilityType")
    }
}

impl Described for SkillAccess {
    fn shape() -> Shape {
        Shape::Named("AccessPolicy")
    }
}

impl Described for AuthType {
    fn shape() -> Shape {
        Shape::Named("AuthType")
    }
}

impl Described for ExecutionStatus {
    fn shape() -> Shape {
        Shape::Named("ExecutionStatus")
    }
}

impl Described for Priority {
    fn shape() -> Shape {
        Shape::Words(Self::ALL.iter().map(|word| word.as_str()).collect())
    }
}

impl Described for SkillMethod {
    fn shape() -> Shape {
        Shape::Words(Self::ALL.iter().map(|word| word.as_str()).collect())
    }
}

/// Reads and writes a [`SkillMethod`] as its word.
pub(super) mod method {
    use super::SkillMethod;

    pub(in crate::wire) fn serialize<S: serde::Serializer>(method: &SkillMethod, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(method.as_str())
    }

    pub(in crate::wire) fn deserialize<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<SkillMethod, D::Error> {
        let word: String = serde::Deserialize::deserialize(reader)?;
        SkillMethod::ALL
            .into_iter()
            .find(|method| method.as_str() == word)
            .ok_or_else(|| serde::de::Error::custom(format!("{word:?} is not GET, POST, PUT or DELETE")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_what_is_read_and_written() {
        fn words<T: Serialize + Copy>(all: &[T]) -> Vec<String> {
            all.iter().map(|word| serde_json::to_value(word).unwrap().as_str().unwrap().to_owned()).collect()
        }
        assert_eq!(words(&AuthType::ALL), AuthType::ALL.map(AuthType::as_str));
        assert_eq!(words(&ExecutionStatus::ALL), ExecutionStatus::ALL.map(ExecutionStatus::as_str));
        assert_eq!(words(&Priority::ALL), Priority::ALL.map(Priority::as_str));
        assert_eq!(words(&CapabilityType::ALL), CapabilityType::ALL.map(CapabilityType::as_str));
        assert_eq!(words(&SkillAccess::ALL), SkillAccess::ALL.map(SkillAccess::as_str));
    }
}
