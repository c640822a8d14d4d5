//! Enumerations of the protocol (§3.4, §3.5.3, §5.3).

use nuncio_core::agent::{CapabilityType, SkillAccess, SkillHttpMethod};
use nuncio_core::execution::Priority;
use nuncio_core::string_enum;

use crate::schema::model::{ValueShape, shapes};
use crate::wire::{InvocationCredentials, LenientNumber, SkillErrorCode};

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

shapes! {
    CapabilityType => ValueShape::Reference("CapabilityType"),
    SkillAccess => ValueShape::Reference("AccessPolicy"),
    AuthType => ValueShape::Reference("AuthType"),
    ExecutionStatus => ValueShape::Reference("ExecutionStatus"),
    Priority => ValueShape::Enum(Self::ALL.map(Self::as_str).to_vec()),
    SkillHttpMethod => ValueShape::Enum(Self::ALL.map(Self::as_str).to_vec()),
    SkillErrorCode => ValueShape::Enum(Self::ALL.map(Self::as_str).to_vec()),
    LenientNumber => ValueShape::Number,
    InvocationCredentials => ValueShape::Record(Box::new(ValueShape::Unknown)),
}
