//! Errors of sending messages and of calling tools.

use nuncio_core::ErrorCode;
use nuncio_core::ids::{DeviceId, ToolName};
use nuncio_core::notification::RelayParty;
use nuncio_identity::seal::{DistrustReason, KeyStoreError, SealError, TrustError};

use crate::client::RelayClientError;
use crate::wire::artifact::{DenialReason, ToolErrorCode};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Relay(#[from] RelayClientError),
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The recipient's keys are missing or invalid.
    #[error(transparent)]
    Meet(#[from] TrustError),
    #[error("{}", no_device(.0))]
    NoDevice(RelayParty),
    /// The recipient's keys changed and no trusted key endorses the new ones.
    #[error("the keys of {owner} changed ({}): compare safety numbers, then accept them", .devices.iter().map(|(device, why)| format!("{device}: {why}")).collect::<Vec<_>>().join("; "))]
    KeysChanged {
        owner: RelayParty,
        /// Distrusted devices, each with the reason.
        devices: Vec<(DeviceId, DistrustReason)>,
    },
    #[error("{0}")]
    Fault(String),
}

impl SendError {
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Relay(error) => error.is_retryable() || matches!(error, RelayClientError::TooMany { .. }),
            // Faults are mostly storage errors, which may pass.
            Self::Fault(_) => true,
            Self::Seal(_) | Self::Meet(_) | Self::NoDevice(_) | Self::KeysChanged { .. } => false,
        }
    }
}

impl From<KeyStoreError> for SendError {
    fn from(error: KeyStoreError) -> Self {
        Self::Fault(error.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceCallError {
    #[error("{}", reason(*.0))]
    Denied(DenialReason),
    #[error("{}", failure(*.code, .message.as_deref()))]
    Failed { code: ToolErrorCode, message: Option<String> },
    #[error("the agent's manifest has no tool {0}")]
    Undeclared(ToolName),
    /// No answer arrived in time; the tool may or may not have run.
    #[error(
        "a person is linked, but none of their devices answered in time: start one with `nuncio device run`, then try again"
    )]
    NoAnswer,
    #[error("the call was not sent: {}", unsent(.0))]
    Unsent(#[from] SendError),
}

impl DeviceCallError {
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            // If the person has no relation with the agent, the relay refuses before the call is sealed.
            Self::Denied(DenialReason::ScopeNotGranted)
            | Self::Unsent(SendError::Relay(RelayClientError::Refused { code: ErrorCode::RelationRequired, .. })) => {
                ErrorCode::ScopeNotGranted
            }
            Self::Denied(DenialReason::ToolNotDeclared) | Self::Undeclared(_) => ErrorCode::ToolNotFound,
            Self::Denied(DenialReason::UserTimeout) => ErrorCode::ApprovalExpired,
            Self::Denied(DenialReason::UserRefused | DenialReason::ToolNotSupportedInGroup) => ErrorCode::Denied,
            Self::Failed { code: ToolErrorCode::InvalidArguments, .. } => ErrorCode::InvalidArguments,
            Self::Failed { code: ToolErrorCode::PlatformError, .. } => ErrorCode::ToolFailed,
            Self::Failed { code: ToolErrorCode::Unavailable, .. } | Self::Unsent(_) => ErrorCode::ToolUnavailable,
            Self::NoAnswer => ErrorCode::ToolTimeout,
        }
    }
}

fn no_device(owner: &RelayParty) -> String {
    match owner {
        RelayParty::Person(name) => format!(
            "{name} has no device with keys at the relay yet: `nuncio user invite {name}` prints a link with which their \
             computer joins"
        ),
        RelayParty::Agent(_) => format!("{owner} has no device with keys at the relay yet"),
    }
}

/// The error, and what to do about a person who never allowed the agent anything.
fn unsent(error: &SendError) -> String {
    match error {
        SendError::Relay(RelayClientError::Refused { code: ErrorCode::RelationRequired, .. }) => {
            format!("{error}; the person can allow it on the agent's page of their device")
        }
        _ => error.to_string(),
    }
}

const fn reason(reason: DenialReason) -> &'static str {
    match reason {
        DenialReason::UserRefused => "the person refused the call on their device",
        DenialReason::ScopeNotGranted => {
            "the person has not granted this permission, or it is suspended until the person consents again; they can \
             allow it on the agent's page of their device"
        }
        DenialReason::ToolNotDeclared => "the agent's manifest on the person's device does not have this tool",
        DenialReason::UserTimeout => "the person did not answer in time",
        DenialReason::ToolNotSupportedInGroup => "tools cannot be called in group conversations",
    }
}

fn failure(code: ToolErrorCode, message: Option<&str>) -> String {
    let what = match code {
        ToolErrorCode::PlatformError => "the tool failed on the person's device",
        ToolErrorCode::InvalidArguments => "the person's device refused the arguments",
        ToolErrorCode::Unavailable => "the person's device cannot run the tool now",
    };
    match message {
        Some(message) => format!("{what}: {}", nuncio_core::text::plain(message)),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nuncio_core::ids::{AgentId, PersonName};

    use super::*;

    #[test]
    fn call_without_a_device_says_how_the_person_adds_one() {
        let ada = RelayParty::Person(PersonName::parse("ada").unwrap());
        let error = DeviceCallError::from(SendError::NoDevice(ada));
        assert_eq!(error.code(), ErrorCode::ToolUnavailable);
        assert_eq!(
            error.to_string(),
            "the call was not sent: ada has no device with keys at the relay yet: `nuncio user invite ada` prints a \
             link with which their computer joins"
        );
        let agent = SendError::NoDevice(RelayParty::Agent(AgentId::parse("agt_1").unwrap()));
        assert!(!agent.to_string().contains("nuncio user invite"), "{agent}");
    }

    #[test]
    fn call_that_no_device_answers_says_how_to_start_one() {
        let error = DeviceCallError::NoAnswer;
        assert_eq!(error.code(), ErrorCode::ToolTimeout);
        assert_eq!(
            error.to_string(),
            "a person is linked, but none of their devices answered in time: start one with `nuncio device run`, then \
             try again"
        );
    }
}
