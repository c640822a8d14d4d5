//! Errors of consent operations, with details for programs.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{RelationId, ScopeId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::manifest::ManifestFaults;
use serde_json::{Value, json};

use crate::compute::RETRY_AFTER_SECONDS;
use crate::error::EngineError;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ConsentError {
    pub code: ErrorCode,
    /// Message for people: what was wrong and what to do.
    pub message: String,
    pub details: ConsentErrorDetails,
}

/// Data that a client needs to react to the error, such as the entry to sign.
#[derive(Debug, Clone, PartialEq)]
pub enum ConsentErrorDetails {
    None,
    /// The ledger entry that the device must check and sign.
    Sign(Box<LedgerEntry>),
    Faults(ManifestFaults),
    /// The current manifest, when the request was about another one.
    Stale {
        version: u64,
        /// Hash of the current manifest; `None` when the agent has none.
        hash: Option<Digest>,
    },
    /// The scopes that the error is about.
    Scopes(Vec<ScopeId>),
    /// The relation that the error is about.
    Relation(RelationId),
    Limit(usize),
    /// Number of seconds after which a retry makes sense.
    RetryAfter(u64),
}

impl ConsentErrorDetails {
    /// Seconds until a retry makes sense, if known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RetryAfter(seconds) => Some(*seconds),
            _ => None,
        }
    }
}

impl ConsentError {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with(code, message, ConsentErrorDetails::None)
    }

    #[must_use]
    pub fn with(code: ErrorCode, message: impl Into<String>, details: ConsentErrorDetails) -> Self {
        Self { code, message: message.into(), details }
    }

    pub(crate) fn limit(what: &str, limit: usize) -> Self {
        let message = format!("there are already {limit} {what}, the maximum");
        Self::with(ErrorCode::LimitReached, message, ConsentErrorDetails::Limit(limit))
    }

    /// Error for a request that may be repeated after `wait`; `message` builds its text from the seconds to wait.
    pub(crate) fn rate_limited(wait: Duration, message: impl FnOnce(u64) -> String) -> Self {
        let seconds = wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX);
        Self::with(ErrorCode::RateLimited, message(seconds), ConsentErrorDetails::RetryAfter(seconds))
    }

    #[must_use]
    pub fn params(&self) -> Value {
        match &self.details {
            ConsentErrorDetails::None => json!({}),
            ConsentErrorDetails::Sign(entry) => json!({"entry": entry}),
            ConsentErrorDetails::Faults(faults) => json!({"errors": faults.faults()}),
            ConsentErrorDetails::Stale { version, hash } => json!({"manifest_version": version, "manifest_hash": hash}),
            ConsentErrorDetails::Scopes(scopes) => json!({"scopes": scopes}),
            ConsentErrorDetails::Relation(id) => json!({"relation_id": id}),
            ConsentErrorDetails::Limit(limit) => json!({"limit": limit}),
            ConsentErrorDetails::RetryAfter(seconds) => json!({"retry_after": seconds}),
        }
    }
}

impl<E: Into<EngineError>> From<E> for ConsentError {
    fn from(error: E) -> Self {
        let error = error.into();
        let details = match error.code {
            ErrorCode::ComputationQueueFull => ConsentErrorDetails::RetryAfter(RETRY_AFTER_SECONDS),
            _ => ConsentErrorDetails::None,
        };
        Self::with(error.code, error.message, details)
    }
}

impl From<ManifestFaults> for ConsentError {
    fn from(faults: ManifestFaults) -> Self {
        Self::with(faults.code(), faults.to_string(), ConsentErrorDetails::Faults(faults))
    }
}
