//! Requests of sessions that are running, which their clients may cancel. A client that disconnects cancels nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nuncio_core::digest::Digest;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::refuse::McpFailure;
use super::session::ClientSession;
use crate::wire::error_code;

/// Session and request id; the text distinguishes the string "1" from the number 1.
type RequestKey = (Digest, String);

#[derive(Debug, Clone, Default)]
pub(super) struct RunningRequests(Arc<Mutex<HashMap<RequestKey, CancellationToken>>>);

/// A running request; dropping it ends its entry.
#[derive(Debug)]
pub(super) struct RunningRequest {
    all: RunningRequests,
    key: RequestKey,
}

impl RunningRequests {
    pub(super) fn begin(
        &self,
        session: &ClientSession,
        id: &Value,
        cancel: CancellationToken,
    ) -> Result<RunningRequest, McpFailure> {
        let key = (session.key, id.to_string());
        match self.lock().entry(key.clone()) {
            Entry::Occupied(_) => {
                let message = "a request with this id is running in this session";
                Err(McpFailure::in_band(error_code::INVALID_REQUEST, message))
            }
            Entry::Vacant(place) => {
                place.insert(cancel);
                Ok(RunningRequest { all: self.clone(), key })
            }
        }
    }

    /// Cancels a request of the session; ignores an unknown id, since the request may have ended meanwhile.
    pub(super) fn cancel(&self, session: &ClientSession, id: &Value) {
        if let Some(cancel) = self.lock().get(&(session.key, id.to_string())) {
            cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
    }
}
