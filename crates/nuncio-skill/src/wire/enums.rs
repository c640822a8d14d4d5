//! Enumerations of the protocol (§3.4, §3.5.3, §5.3).

use nuncio_core::agent::{CapabilityType, SkillAccess, SkillMethod};
use serde::{Deserialize, Serialize};

use crate::schema::model::{HasShape, Shape};

/// Authentication scheme of a skill (§3.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    ApiKey,
    #[serde(rename = "oauth2")]
    OAuth2,
    /// A scheme described in the descriptor's `custom` field.
    Custom,
    None,
}

impl AuthType {
    pub const ALL: [Self; 4] = [Self::ApiKey, Self::OAuth2, Self::Custom, Self::None];

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

/// Execution status (§3.4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    Accepted,
    Running,
    Completed,
    Failed,
    Timeout,
}

impl ExecutionStatus {
    pub const ALL: [Self; 5] = [Self::Accepted, Self::Running, Self::Completed, Self::Failed, Self::Timeout];

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

    /// Whether the status is final.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Timeout)
    }
}

/// Scheduling priority of an execution (§5.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

impl Priority {
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

impl HasShape for CapabilityType {
    fn shape() -> Shape {
        Shape::Reference("CapabilityType")
    }
}

impl HasShape for SkillAccess {
    fn shape() -> Shape {
        Shape::Reference("AccessPolicy")
    }
}

impl HasShape for AuthType {
    fn shape() -> Shape {
        Shape::Reference("AuthType")
    }
}

impl HasShape for ExecutionStatus {
    fn shape() -> Shape {
        Shape::Reference("ExecutionStatus")
    }
}

impl HasShape for Priority {
    fn shape() -> Shape {
        Shape::Enum(Self::ALL.iter().map(|word| word.as_str()).collect())
    }
}

impl HasShape for SkillMethod {
    fn shape() -> Shape {
        Shape::Enum(Self::ALL.iter().map(|word| word.as_str()).collect())
    }
}

/// Serde functions for [`SkillMethod`].
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
    fn enum_values_round_trip_through_serde() {
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
