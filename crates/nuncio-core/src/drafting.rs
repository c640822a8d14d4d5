//! A protocol that two sides make up where nothing they have fits: a [`Blueprint`] one of them wrote, checked by
//! machine, and the [`Draft`] that both must accept before anyone uses it. It is data; nothing in it is ever run.

mod blueprint;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::ids::{AgentName, ApprovalId, DraftId};
use crate::principal::Principal;
use crate::time::Timestamp;

pub use blueprint::{Blueprint, Example, Expected, MAX_BYTES, Method, TestCase};

/// Whether an agent here may be bound by a protocol its brain made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DraftingPolicy {
    /// Never: nothing is drafted.
    Off,
    /// When an operator says yes to that very protocol.
    #[default]
    Ask,
    /// Whenever it passes the checks of the machine.
    Accept,
}

/// A protocol between one agent of ours and one caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// Names it.
    pub id: DraftId,
    /// Our side.
    pub agent: AgentName,
    /// The other side.
    pub with: Principal,
    /// The request that asked for it: the same request again is the same draft.
    pub key: String,
    /// The digest of what that request asked for.
    pub asked: Digest,
    /// What was made up.
    pub blueprint: Blueprint,
    /// The document both sides see, without its digest.
    pub document: Value,
    /// The digest of that document. Who accepts names it.
    pub digest: Digest,
    /// Since when.
    pub created_at: Timestamp,
    /// By when both must have accepted.
    pub expires_at: Timestamp,
    /// The question the operators were asked.
    pub approval: Option<ApprovalId>,
    /// How far it is.
    #[serde(flatten)]
    pub state: DraftState,
}

/// Who of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The agent, by the word of whoever runs it.
    Us,
    /// The caller.
    Them,
}

/// The life of a draft. It moves one way only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DraftState {
    /// Written, and accepted by nobody.
    Draft,
    /// Our side accepted it, theirs has not.
    AcceptedByUs {
        /// Who said so for us.
        by: Principal,
        /// When.
        at: Timestamp,
    },
    /// Their side accepted it, ours has not.
    AcceptedByThem {
        /// When.
        at: Timestamp,
    },
    /// Both did: it can be used.
    Accepted {
        /// Who said so for us.
        by: Principal,
        /// When the second of the two did.
        at: Timestamp,
    },
    /// One side does not want it, or does not want it any more.
    Rejected {
        /// Which.
        side: Side,
        /// When.
        at: Timestamp,
        /// Why, if they said.
        reason: Option<String>,
    },
    /// One side did not answer in time.
    Expired {
        /// When that was seen.
        at: Timestamp,
    },
}

impl DraftState {
    /// One word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::AcceptedByUs { .. } => "accepted_by_us",
            Self::AcceptedByThem { .. } => "accepted_by_them",
            Self::Accepted { .. } => "accepted",
            Self::Rejected { .. } => "rejected",
            Self::Expired { .. } => "expired",
        }
    }

    /// Whether somebody still has to say something.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Draft | Self::AcceptedByUs { .. } | Self::AcceptedByThem { .. })
    }

    /// Whether our side has still to say something.
    #[must_use]
    pub const fn awaits_us(&self) -> bool {
        matches!(self, Self::Draft | Self::AcceptedByThem { .. })
    }
}

/// A step the draft's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// It is rejected or expired.
    #[error("the draft is {0}")]
    Closed(&'static str),
    /// What was named is another document.
    #[error("the digest is not the one of this draft")]
    OtherDocument,
}

impl Draft {
    /// Our side accepts that document; once more changes nothing.
    ///
    /// # Errors
    /// The draft is over, or the document is another.
    pub fn accept_for_us(mut self, digest: &Digest, by: Principal, now: Timestamp) -> Result<Self, DraftError> {
        self.is_takeable(digest, now)?;
        self.state = match self.state {
            DraftState::Draft => DraftState::AcceptedByUs { by, at: now },
            DraftState::AcceptedByThem { .. } => DraftState::Accepted { by, at: now },
            other => other,
        };
        Ok(self)
    }

    /// Their side accepts that document; once more changes nothing.
    ///
    /// # Errors
    /// The draft is over, or the document is another.
    pub fn accept_for_them(mut self, digest: &Digest, now: Timestamp) -> Result<Self, DraftError> {
        self.is_takeable(digest, now)?;
        self.state = match self.state {
            DraftState::Draft => DraftState::AcceptedByThem { at: now },
            DraftState::AcceptedByUs { by, .. } => DraftState::Accepted { by, at: now },
            other => other,
        };
        Ok(self)
    }

    /// One side does not want it; also one that both had accepted.
    ///
    /// # Errors
    /// The draft is over.
    pub fn reject(mut self, side: Side, reason: Option<String>, now: Timestamp) -> Result<Self, DraftError> {
        if self.is_over(now) {
            return Err(DraftError::Closed(self.word_at(now)));
        }
        self.state = DraftState::Rejected { side, at: now, reason };
        Ok(self)
    }

    /// The same draft, closed if its time ran out before both had accepted.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        if self.state.is_open() && now >= self.expires_at {
            self.state = DraftState::Expired { at: now };
        }
        self
    }

    /// Whether both sides accepted that very document.
    ///
    /// # Errors
    /// Not both have, or the document is another.
    pub fn usable(&self, digest: &Digest) -> Result<(), DraftError> {
        match &self.state {
            _ if self.digest != *digest => Err(DraftError::OtherDocument),
            DraftState::Accepted { .. } => Ok(()),
            other => Err(DraftError::Closed(other.word())),
        }
    }

    fn is_takeable(&self, digest: &Digest, now: Timestamp) -> Result<(), DraftError> {
        if self.is_over(now) {
            return Err(DraftError::Closed(self.word_at(now)));
        }
        if self.digest == *digest { Ok(()) } else { Err(DraftError::OtherDocument) }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        match self.state {
            DraftState::Rejected { .. } | DraftState::Expired { .. } => true,
            DraftState::Accepted { .. } => false,
            _ => now >= self.expires_at,
        }
    }

    fn word_at(&self, now: Timestamp) -> &'static str {
        if self.state.is_open() && now >= self.expires_at { "expired" } else { self.state.word() }
    }
}
