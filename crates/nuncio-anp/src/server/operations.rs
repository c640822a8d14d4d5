//! Repeated negotiations: a request with an operation id that was used before gets the same result (P1 §6.2).

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::Caller;
use serde_json::{Value, json};

use super::negotiate::RESULT_VALIDITY;
use crate::wire::{AnpErrorCode, AnpRequest, RpcError};

const MAX_OPERATIONS: usize = 4096;

/// Results of negotiations by operation, for as long as the results are valid.
#[derive(Debug)]
pub(super) struct NegotiationResultCache(BoundedCache<Digest, CachedNegotiationResult>);

#[derive(Debug, Clone)]
struct CachedNegotiationResult {
    request: Digest,
    result: Value,
}

/// Identifies an operation: caller, target, method and operation id.
pub(super) struct NegotiationOperationKey {
    operation: Digest,
    request: Digest,
}

impl Default for NegotiationResultCache {
    fn default() -> Self {
        Self(BoundedCache::new(MAX_OPERATIONS))
    }
}

impl NegotiationOperationKey {
    /// The key of a request; none if the request has no operation id. Unidentified callers share no operations: their
    /// key includes the request, so that one of them cannot use up the operation ids of the others.
    pub(super) fn of(caller: Option<&Caller>, request: &AnpRequest) -> Option<Self> {
        let meta = &request.meta;
        let id = meta.operation_id.as_ref()?;
        // The time of creation and the id of the request differ in a repetition.
        let content = json!([meta.profile, meta.security_profile.as_str(), meta.content_type, request.body]);
        let content = Digest::of_json(&content);
        let caller = match caller.map(|caller| &caller.principal) {
            None | Some(Principal::Anonymous) => json!({"request": content}),
            Some(principal) => json!({"caller": principal}),
        };
        let operation = Digest::of_json(&json!([caller, meta.target, request.method, id]));
        Some(Self { operation, request: content })
    }
}

impl NegotiationResultCache {
    /// Result of an earlier request with this key.
    ///
    /// # Errors
    /// The operation id was used with another request (1008).
    pub(super) fn result_of(&self, key: &NegotiationOperationKey, now: Timestamp) -> Result<Option<Value>, RpcError> {
        match self.0.get(&key.operation, now) {
            Some(earlier) if earlier.request == key.request => Ok(Some(earlier.result)),
            Some(_) => Err(RpcError::new(AnpErrorCode::IdempotencyConflict)),
            None => Ok(None),
        }
    }

    /// Stores a result. If a request with the same key was faster, its result is returned instead.
    pub(super) fn remember(&self, key: &NegotiationOperationKey, result: Value, now: Timestamp) -> Value {
        let mut returned = result.clone();
        self.0.update(key.operation, now, now.after(RESULT_VALIDITY), |earlier| match earlier {
            Some(earlier) if earlier.request == key.request => {
                returned = earlier.result.clone();
                earlier.clone()
            }
            _ => CachedNegotiationResult { request: key.request, result },
        });
        returned
    }
}
