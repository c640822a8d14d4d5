use nuncio_a2h::client::RelayClientError;
use nuncio_a2h::peer::SendError;
use nuncio_core::ErrorCode;
use nuncio_identity::seal::backup::KeyBackupError;
use nuncio_identity::seal::{KeyStoreError, TrustError};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DeviceError {
    pub code: ErrorCode,
    /// Explanation for the person: the problem and what they can do.
    pub message: String,
}

impl DeviceError {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<KeyStoreError> for DeviceError {
    fn from(error: KeyStoreError) -> Self {
        Self::new(ErrorCode::DataDirUnusable, error.to_string())
    }
}

impl From<RelayClientError> for DeviceError {
    fn from(error: RelayClientError) -> Self {
        let code = match &error {
            RelayClientError::Unreachable(_) => ErrorCode::EndpointUnreachable,
            RelayClientError::TooMany { .. } => ErrorCode::RateLimited,
            RelayClientError::Refused { code, .. } => *code,
            RelayClientError::Unsigned(_) => ErrorCode::ConsentUnsigned,
        };
        Self::new(code, error.to_string())
    }
}

impl From<TrustError> for DeviceError {
    fn from(error: TrustError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<KeyBackupError> for DeviceError {
    fn from(error: KeyBackupError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<SendError> for DeviceError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Relay(error) => error.into(),
            SendError::Meet(error) => error.into(),
            SendError::Seal(error) => Self::new(error.code(), error.to_string()),
            SendError::NoDevice(_) => Self::new(ErrorCode::KeysNotFound, error.to_string()),
            SendError::KeysChanged { .. } => Self::new(ErrorCode::DeviceUntrusted, error.to_string()),
            SendError::Fault(message) => Self::new(ErrorCode::Internal, message),
        }
    }
}
