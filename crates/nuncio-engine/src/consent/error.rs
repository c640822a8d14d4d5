//! Why something about consent was refused, with what a program needs to do better.

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{InvalidName, RelationId, ScopeId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::manifest::ManifestFaults;
use serde_json::{Value, json};

use crate::compute::RETRY_AFTER_SECONDS;
use crate::error::EngineError;
use crate::ports::store::StoreError;

/// Why a use-case refused or failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ConsentError {
    /// What went wrong, for programs.
    pub code: Code,
    /// What was wrong and what to do, for people.
    pub message: String,
    /// What a program needs to do better.
    pub details: Details,
}

/// What a program needs to do better.
#[derive(Debug, Clone, PartialEq)]
pub enum Details {
    /// Nothing.
    None,
    /// The exact entry to check and to sign.
    Sign(Box<LedgerEntry>),
    /// Every fault of a manifest.
    Faults(ManifestFaults),
    /// The manifest as it is now.
    Stale {
        /// Its version.
        version: u64,
        /// Its hash; none when there is none.
        hash: Option<Digest>,
    },
    /// The scopes it is about.
    Scopes(Vec<ScopeId>),
    /// The relation it is about.
    Relation(RelationId),
    /// How many there may be.
    Limit(usize),
    /// In how many seconds to try again.
    RetryAfter(u64),
}

impl Details {
    /// In how many seconds to try again, where that is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RetryAfter(seconds) => Some(*seconds),
            _ => None,
        }
    }
}

impl ConsentError {
    /// An error without details.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::with(code, message, Details::None)
    }

    /// An error with details.
    #[must_use]
    pub fn with(code: Code, message: impl Into<String>, details: Details) -> Self {
        Self { code, message: message.into(), details }
    }

    pub(crate) fn limit(what: &str, limit: usize) -> Self {
        let message = format!("there are {limit} {what} already, and no more are allowed");
        Self::with(Code::LimitReached, message, Details::Limit(limit))
    }

    /// The details as a JSON object.
    #[must_use]
    pub fn params(&self) -> Value {
        match &self.details {
            Details::None => json!({}),
            Details::Sign(entry) => json!({"entry": entry}),
            Details::Faults(faults) => json!({"errors": faults.faults()}),
            Details::Stale { version, hash } => json!({"manifest_version": version, "manifest_hash": hash}),
            Details::Scopes(scopes) => json!({"scopes": scopes}),
            Details::Relation(id) => json!({"relation_id": id}),
            Details::Limit(limit) => json!({"limit": limit}),
            Details::RetryAfter(seconds) => json!({"retry_after": seconds}),
        }
    }
}

impl From<EngineError> for ConsentError {
    fn from(error: EngineError) -> Self {
        let details = match error.code {
            Code::ComputationQueueFull => Details::RetryAfter(RETRY_AFTER_SECONDS),
            _ => Details::None,
        };
        Self::with(error.code, error.message, details)
    }
}

impl From<StoreError> for ConsentError {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<InvalidName> for ConsentError {
    fn from(error: InvalidName) -> Self {
        EngineError::from(error).into()
    }
}

impl From<ManifestFaults> for ConsentError {
    fn from(faults: ManifestFaults) -> Self {
        Self::with(faults.code(), faults.to_string(), Details::Faults(faults))
    }
}
