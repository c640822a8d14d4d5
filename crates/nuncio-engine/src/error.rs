//! Error of engine operations: a stable code and a message. Each protocol maps the code to its own error body.

use nuncio_core::ErrorCode;
use nuncio_core::ids::InvalidName;

use crate::ports::store::{Conflict, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    pub code: ErrorCode,
    /// Message for people: what was wrong and what to do.
    pub message: String,
}

impl EngineError {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Conflict(Conflict::NoSession) => ErrorCode::SessionNotFound,
            StoreError::Conflict(Conflict::TurnRunning) => ErrorCode::TurnRunning,
            StoreError::Conflict(Conflict::OwnerChanged) => ErrorCode::LeaseLost,
            StoreError::Conflict(_) | StoreError::Damaged(_) => ErrorCode::Internal,
            StoreError::Unavailable(_) | StoreError::Fenced => ErrorCode::StoreUnavailable,
        };
        let message = match code {
            // Details of a disk problem are logged for the operator, not shown to callers.
            ErrorCode::StoreUnavailable | ErrorCode::Internal => {
                match error {
                    // A concurrent request with the same key gets the result of the first.
                    StoreError::Conflict(Conflict::Exists) => tracing::debug!(%error, "store"),
                    _ => tracing::error!(%error, "store"),
                }
                "the server's store is unavailable; try again later".to_owned()
            }
            ErrorCode::TurnRunning => "a turn is already running in this session; wait for it or cancel it".to_owned(),
            _ => error.to_string(),
        };
        Self { code, message }
    }
}

impl From<InvalidName> for EngineError {
    fn from(error: InvalidName) -> Self {
        Self::new(ErrorCode::BadRequest, error.to_string())
    }
}
