//! Errors of sending messages and of calling tools.

use nuncio_core::Code;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{DeviceId, ToolName};
use nuncio_identity::seal::{DistrustReason, KeyStoreError, SealError, TrustError};

use crate::client::RelayError;
use crate::wire::artifact::{ErrorCode, Reason};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The recipient's keys are missing or invalid.
    #[error(transparent)]
    Meet(#[from] TrustError),
    #[error("{0} has no device with keys at the relay yet")]
    NoDevice(Recipient),
    /// The recipient's keys changed, without an endorsement by a trusted key.
    #[error("the keys of {owner} changed ({}): compare safety numbers, then accept them", .devices.iter().map(|(device, why)| format!("{device}: {why}")).collect::<Vec<_>>().join("; "))]
    KeysChanged {
        owner: Recipient,
        /// Devices, and why each is distrusted.
        devices: Vec<(DeviceId, DistrustReason)>,
    },
    #[error("{0}")]
    Fault(String),
}

impl SendError {
    /// Whether sending again may succeed.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Relay(error) => error.is_retryable() || matches!(error, RelayError::TooMany { .. }),
            // Storage may work again later.
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
pub enum ToolError {
    #[error("{}", reason(*.0))]
    Denied(Reason),
    #[error("{}", failure(*.code, .message.as_deref()))]
    Failed { code: ErrorCode, message: Option<String> },
    #[error("the agent's manifest has no tool {0}")]
    Undeclared(ToolName),
    /// No answer arrived in time; the tool may or may not have run.
    #[error("no device of the person answered in time")]
    NoAnswer,
    #[error("the call was not sent: {0}")]
    Unsent(#[from] SendError),
}

impl ToolError {
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            // Without a relation the relay refuses the call before it is sealed.
            Self::Denied(Reason::ScopeNotGranted)
            | Self::Unsent(SendError::Relay(RelayError::Refused { code: Code::RelationRequired, .. })) => {
                Code::ScopeNotGranted
            }
            Self::Denied(Reason::ToolNotDeclared) | Self::Undeclared(_) => Code::ToolNotFound,
            Self::Denied(Reason::UserTimeout) => Code::ApprovalExpired,
            Self::Denied(Reason::UserRefused | Reason::ToolNotSupportedInGroup) => Code::Denied,
            Self::Failed { code: ErrorCode::InvalidArguments, .. } => Code::InvalidArguments,
            Self::Failed { code: ErrorCode::PlatformError, .. } => Code::ToolFailed,
            Self::Failed { code: ErrorCode::Unavailable, .. } | Self::Unsent(_) => Code::ToolUnavailable,
            Self::NoAnswer => Code::ToolTimeout,
        }
    }
}

const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::UserRefused => "the person refused it on their device",
        Reason::ScopeNotGranted => "the person has not allowed this, or it is suspended until they say yes again",
        Reason::ToolNotDeclared => "the person's device knows no such tool of this agent",
        Reason::UserTimeout => "the person did not answer in time",
        Reason::ToolNotSupportedInGroup => "tools are not called in groups",
    }
}

fn failure(code: ErrorCode, message: Option<&str>) -> String {
    let what = match code {
        ErrorCode::PlatformError => "the tool failed on the person's device",
        ErrorCode::InvalidArguments => "the person's device does not take these arguments",
        ErrorCode::Unavailable => "the person's device cannot do this",
    };
    match message {
        Some(message) => format!("{what}: {}", nuncio_core::text::plain(message)),
        None => what.to_owned(),
    }
}
