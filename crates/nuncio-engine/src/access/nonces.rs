//! Nonces of signed requests, each used once. They are on disk before the request counts, so a restart or another node
//! does not accept the same request again.

use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::store::{Conflict, ConsentChange, StoreError};

/// Kept for longer than the signature counts, so that a clock set back a little does not reopen it.
const MARGIN: Duration = Duration::from_secs(600);

impl Engine {
    /// Uses up a nonce that `owner` signed; false if it was used before. `counts_until` is the last moment at which the
    /// signature would be accepted.
    ///
    /// # Errors
    /// The store cannot be written; the request must then be refused.
    pub async fn use_nonce(&self, owner: &str, nonce: &str, counts_until: Timestamp) -> Result<bool, EngineError> {
        let used = ConsentChange::UseNonce {
            digest: Digest::of_bytes(format!("{owner}\n{nonce}").as_bytes()),
            now: self.now(),
            kept_until: counts_until.after(MARGIN),
        };
        match self.store().commit(vec![used.into()]).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict(Conflict::Exists)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
