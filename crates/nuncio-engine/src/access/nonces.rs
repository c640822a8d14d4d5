//! Single-use nonces of signed requests. A nonce is stored before the request is accepted, so that neither a restart
//! nor another node accepts the request again.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;

use crate::access::AccessControl;
use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::ports::store::{Conflict, ConsentChange, StoreError};

/// Time that nonces are kept beyond the validity of the signature, so that a clock that is set back a little accepts no
/// replay.
const NONCE_MARGIN: Duration = Duration::from_secs(600);

impl AccessControl {
    /// Marks a nonce signed by `owner` as used; returns false if it was used before, or if that is not known because
    /// the store was restored after the signature was made. `validity` is the time from the signature to the end of its
    /// validity.
    ///
    /// # Errors
    /// The nonce could not be stored; the caller must then refuse the request.
    pub async fn use_nonce(&self, owner: &str, nonce: &str, validity: Range<Timestamp>) -> Result<bool, EngineError> {
        Ok(use_nonce(&self.context, owner, nonce, validity).await?)
    }
}

pub(crate) async fn use_nonce(
    context: &EngineContext,
    owner: &str,
    nonce: &str,
    validity: Range<Timestamp>,
) -> Result<bool, StoreError> {
    if validity.start.as_millis() < context.signatures_since.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let digest = Digest::of_bytes(format!("{owner}\n{nonce}").as_bytes());
    let used = ConsentChange::UseNonce { digest, now: context.now(), kept_until: validity.end.after(NONCE_MARGIN) };
    context.commit_one(used).await.made_unless(Conflict::Exists)
}
