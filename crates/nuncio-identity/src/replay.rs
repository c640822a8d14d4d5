//! Which nonces were used: bounded, and the same cost whether it remembers none or as many as it may.

use std::collections::{HashSet, VecDeque};

use nuncio_core::time::Timestamp;

use crate::did::DidUrl;
use crate::error::AuthError;
use crate::http_signature::{Policy, Verified};
use crate::jcs::sha256;
use crate::moment;

/// How many seconds of expiry share one set. A set is dropped whole once all in it have run out, so nothing is
/// ever searched for what is old.
const SPAN: i64 = 30;
/// How many sets there may be, so how far ahead an expiry may lie: sixteen minutes.
const SETS: usize = 32;

/// The nonces that may not come again.
#[derive(Debug)]
pub struct ReplayMemory {
    most: usize,
    held: usize,
    /// The number of the first set: its expiries lie in `SPAN` seconds from `first * SPAN` on.
    first: i64,
    sets: VecDeque<HashSet<[u8; 16]>>,
}

/// Why a nonce was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It was used before.
    #[error("the nonce was used before")]
    Seen,
    /// There is no room to remember it, so nobody could tell if it came again.
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
    /// A memory for at most so many nonces.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, held: 0, first: 0, sets: VecDeque::new() }
    }

    /// How many it remembers, those that ran out a moment ago included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.held
    }

    /// Whether it remembers none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Takes the nonce of a caller that was verified. A caller without one, where the policy allows that, is
    /// remembered by nothing.
    ///
    /// # Errors
    /// It was used before, or there is no room.
    pub fn remember_caller(&mut self, caller: &Verified, policy: &Policy, now: Timestamp) -> Result<(), ReplayError> {
        match &caller.nonce {
            Some(nonce) => self.remember(&caller.key_id, nonce, policy.remember_until(caller.created), now),
            None => Ok(()),
        }
    }

    /// Takes a nonce and remembers it until a moment.
    ///
    /// # Errors
    /// It was used before, or there is no room, which an expiry beyond sixteen minutes counts as.
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
        // What runs out before now is still kept for one span: two readings of the clock may arrive out of order.
        let number = moment::seconds(until).div_euclid(SPAN).max(self.first);
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

    /// Drops the sets that have run out; at most [`SETS`] of them, however long nobody called.
    fn forget(&mut self, now: Timestamp) {
        let current = moment::seconds(now).div_euclid(SPAN);
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

/// Half of a hash: nobody can make two that fall together for a key that is not their own.
fn mark(key_id: &DidUrl, nonce: &str) -> [u8; 16] {
    let text = format!("{key_id}\n{nonce}");
    let mut mark = [0; 16];
    mark.copy_from_slice(&sha256(text.as_bytes())[..16]);
    mark
}
