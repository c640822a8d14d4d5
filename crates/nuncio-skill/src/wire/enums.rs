//! Enumerations of the protocol (§3.4, §3.5.3, §5.3).

use nuncio_core::agent::{CapabilityType, SkillAccess, SkillMethod};
use nuncio_core::execution::Priority;
use nuncio_core::string_enum;

use crate::schema::model::{HasShape, Shape};

string_enum! {
    /// Authentication scheme of a skill (§3.4.3).
    pub enum AuthType {
        ApiKey = "api_key",
        OAuth2 = "oauth2",
        /// A scheme described in the descriptor's `custom` field.
        Custom = "custom",
        None = "none",
    }
}

string_enum! {
    /// Execution status (§3.4.4).
    pub enum ExecutionStatus {
        Accepted = "accepted",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Timeout = "timeout",
    }
}

impl ExecutionStatus {
    /// Whether the status is final.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Timeout)
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
