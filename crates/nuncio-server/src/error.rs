//! The error of a server that cannot start or a command that cannot run.

use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use nuncio_engine::consent::ConsentError;
use nuncio_engine::ports::store::StoreError;

/// An error for the operator: a stable code and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OperatorError {
    /// Error code, for `nuncio explain`.
    pub code: ErrorCode,
    pub message: String,
}

impl OperatorError {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<EngineError> for OperatorError {
    fn from(error: EngineError) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<ConsentError> for OperatorError {
    fn from(error: ConsentError) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<StoreError> for OperatorError {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorCode::StoreUnavailable, error.to_string())
    }
}
