//! Replay protection: a bounded memory of used nonces with constant cost per lookup.

use std::collections::{HashSet, VecDeque};

use nuncio_core::time::Timestamp;

use crate::did::DidUrl;
use crate::error::AuthError;
use crate::http_signature::{SignaturePolicy, VerifiedSigner};
use crate::jcs::sha256;
use crate::rfc3339;

/// Seconds of expiry time that share one set. A set is dropped as a whole after all its nonces have expired, so no
/// search for old entries is needed.
const SPAN: i64 = 30;
/// Number of sets. It limits how far ahead an expiry may be: sixteen minutes.
const SETS: usize = 32;

/// The nonces that were used and have not expired.
#[derive(Debug)]
pub struct ReplayMemory {
    most: usize,
    held: usize,
    /// Number of the first set: it holds expiries in the `SPAN` seconds from `first * SPAN`.
    first: i64,
    sets: VecDeque<HashSet<[u8; 16]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("the nonce was used before")]
    Seen,
    /// The memory is full. The nonce is refused, because a replay could not be detected.
    #[error("too many nonces are remembered already")]
    Full,
}

impl From<ReplayError> for AuthError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Seen => Self::Nonce("the nonce was used before; sign again with a new one"),
            ReplayError::Full => Self::Busy,
        }
    }
}

impl ReplayMemory {
    /// `most` is the maximum number of nonces.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, held: 0, first: 0, sets: VecDeque::new() }
    }

    /// Number of remembered nonces, including some that have expired within the last `SPAN` seconds.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.held
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Records the nonce of a verified caller. A caller without a nonce, where the policy allows it, leaves no record.
    pub fn remember_caller(
        &mut self,
        caller: &VerifiedSigner,
        policy: &SignaturePolicy,
        now: Timestamp,
    ) -> Result<(), ReplayError> {
        match &caller.nonce {
            Some(nonce) => self.remember(&caller.key_id, nonce, policy.remember_until(caller.created), now),
            None => Ok(()),
        }
    }

    /// Records a nonce until `until`. An expiry more than sixteen minutes ahead fails with [`ReplayError::Full`].
    pub fn remember(
        &mut self,
        key_id: &DidUrl,
        nonce: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), ReplayError> {
        self.forget(now);
        let mark = mark(key_id, nonce);
        if self.sets.iter().any(|set| set.contains(&mark)) {
            return Err(ReplayError::Seen);
        }
        // An entry that already expired is still kept for one span, because two clock readings may arrive out of order.
        let number = rfc3339::seconds(until).div_euclid(SPAN).max(self.first);
        let at = usize::try_from(number - self.first).ok().filter(|at| *at < SETS).ok_or(ReplayError::Full)?;
        if self.held >= self.most {
            return Err(ReplayError::Full);
        }
        while self.sets.len() <= at {
            self.sets.push_back(HashSet::new());
        }
        self.sets[at].insert(mark);
        self.held += 1;
        Ok(())
    }

    /// Drops the expired sets, at most [`SETS`] per call.
    fn forget(&mut self, now: Timestamp) {
        let current = rfc3339::seconds(now).div_euclid(SPAN);
        while self.first < current {
            match self.sets.pop_front() {
                Some(set) => {
                    self.held -= set.len();
                    self.first += 1;
                }
                None => self.first = current,
            }
        }
    }
}

/// The first 16 bytes of a hash. A collision can only be made for one's own key, where it gains nothing.
fn mark(key_id: &DidUrl, nonce: &str) -> [u8; 16] {
    let text = format!("{key_id}\n{nonce}");
    let mut mark = [0; 16];
    mark.copy_from_slice(&sha256(text.as_bytes())[..16]);
    mark
}
