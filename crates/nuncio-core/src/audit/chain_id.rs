//! Numbers of audit chains.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ChainHead;
use crate::digest::Digest;

/// Number of an audit chain. Each writer of a store appends to a chain of its own, so that writers do not wait for each
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AuditChainId(pub u32);

impl AuditChainId {
    /// The only chain of a store with one writer. In other stores it also holds the rounds.
    pub const MAIN: Self = Self(0);

    /// Head before the first link. It differs from chain to chain, so that links do not verify in another chain.
    #[must_use]
    pub fn start(self) -> ChainHead {
        match self {
            Self::MAIN => ChainHead::START,
            Self(number) => {
                ChainHead { seq: 0, hash: Digest::of_bytes(format!("nuncio audit chain\n{number}\n").as_bytes()) }
            }
        }
    }
}

impl fmt::Display for AuditChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditChainHead {
    pub chain: AuditChainId,
    #[serde(flatten)]
    pub head: ChainHead,
}
