//! The one error of the use-cases: a stable code and a sentence. Each protocol maps the code to its
//! own error body.

use nuncio_core::Code;
use nuncio_core::ids::InvalidName;

use crate::ports::store::{Conflict, StoreError};

/// Why a use-case refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// What went wrong, for programs.
    pub code: Code,
    /// What was wrong and what to do, for people.
    pub message: String,
}

impl EngineError {
    /// An error.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Conflict(Conflict::NoSession) => Code::SessionNotFound,
            StoreError::Conflict(Conflict::TurnRunning) => Code::TurnRunning,
            StoreError::Conflict(Conflict::LeaseLost) => Code::LeaseLost,
            StoreError::Conflict(_) | StoreError::Damaged(_) => Code::Internal,
            StoreError::Unavailable(_) => Code::StoreUnavailable,
        };
        let message = match code {
            // What exactly is wrong with the disk is the operator's to know, not a stranger's.
            Code::StoreUnavailable | Code::Internal => {
                match error {
                    // Of two who came at once with the same key, one is second; it is told what the first made.
                    StoreError::Conflict(Conflict::Exists) => tracing::debug!(%error, "store"),
                    _ => tracing::error!(%error, "store"),
                }
                "the server cannot use its store now; try again later".to_owned()
            }
            Code::TurnRunning => "a turn is already running in this session; wait for it or cancel it".to_owned(),
            _ => error.to_string(),
        };
        Self { code, message }
    }
}

impl From<InvalidName> for EngineError {
    fn from(error: InvalidName) -> Self {
        Self::new(Code::BadRequest, error.to_string())
    }
}
