//! Protocol drafting: a [`ProtocolDefinition`] for a new protocol that one side wrote, validated automatically, and the
//! [`ProtocolDraft`] that both sides must accept before use. It is data; nothing in it is executed.

#[cfg(test)]
mod tests;

use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentName, ApprovalId, DraftId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) mod definition;

pub use definition::{ExpectedValidity, ProtocolDefinition, ProtocolExample, ProtocolMethod, ProtocolTestCase};

/// Whether an agent may accept a protocol that its brain has drafted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolDraftingPolicy {
    /// Drafting of protocols is refused.
    Off,
    /// Each drafted protocol needs an operator's approval.
    #[default]
    Ask,
    /// A drafted protocol is accepted whenever it passes validation.
    Accept,
}

/// A drafted protocol between one agent of this server and one caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProtocolDraft {
    pub id: DraftId,
    pub agent: AgentName,
    pub with: Principal,
    /// Id of the negotiation request; a repeated request returns the same draft.
    pub key: String,
    /// Digest of the content of the negotiation request.
    pub asked: Digest,
    #[serde(rename = "blueprint")]
    pub definition: ProtocolDefinition,
    /// The document that both sides see, without its digest.
    pub document: Value,
    /// Digest of `document`, which an acceptance must name.
    pub digest: Digest,
    pub created_at: Timestamp,
    /// Time by which both sides must have accepted the draft.
    pub expires_at: Timestamp,
    /// Approval with which the operators are asked to accept the draft.
    pub approval: Option<ApprovalId>,
    #[serde(flatten)]
    pub state: ProtocolDraftState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolDraftSide {
    /// The agent of this server decides, through its operator.
    Us,
    /// The caller who asked for the draft.
    Them,
}

/// Lifecycle of a draft. Transitions never go back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ProtocolDraftState {
    /// The protocol is written, and accepted by neither side.
    Draft,
    AcceptedByUs {
        /// The principal that accepted for the agent.
        by: Principal,
        at: Timestamp,
    },
    AcceptedByThem {
        at: Timestamp,
    },
    /// Accepted by both sides: the protocol can be used.
    Accepted {
        /// The principal that accepted for the agent.
        by: Principal,
        /// Time at which the second side accepted.
        at: Timestamp,
    },
    /// One side rejected the protocol, possibly after both had accepted it.
    Rejected {
        side: ProtocolDraftSide,
        at: Timestamp,
        reason: Option<String>,
    },
    /// A side did not accept the protocol in time.
    Expired {
        /// Time at which the expiry was noticed.
        at: Timestamp,
    },
}

impl ProtocolDraftState {
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

    /// Whether the draft waits for the acceptance of one or both sides.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Draft | Self::AcceptedByUs { .. } | Self::AcceptedByThem { .. })
    }

    /// Whether the agent's side has not accepted yet.
    #[must_use]
    pub const fn awaits_us(&self) -> bool {
        matches!(self, Self::Draft | Self::AcceptedByThem { .. })
    }
}

/// A transition that the draft's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolDraftError {
    /// The draft is already rejected or expired; the text is the state's name.
    #[error("the draft is {0}")]
    Closed(&'static str),
    /// The acceptance names the digest of another document.
    #[error("the digest is not the one of this draft")]
    OtherDocument,
}

impl ProtocolDraft {
    /// Accepts the document for the agent's side. A repeated acceptance changes nothing.
    pub fn accept_for_us(self, digest: &Digest, by: Principal, now: Timestamp) -> Result<Self, ProtocolDraftError> {
        self.accept(digest, now, |state| match state {
            ProtocolDraftState::Draft => ProtocolDraftState::AcceptedByUs { by, at: now },
            ProtocolDraftState::AcceptedByThem { .. } => ProtocolDraftState::Accepted { by, at: now },
            other => other,
        })
    }

    /// Accepts the document for the caller's side. A repeated acceptance changes nothing.
    pub fn accept_for_them(self, digest: &Digest, now: Timestamp) -> Result<Self, ProtocolDraftError> {
        self.accept(digest, now, |state| match state {
            ProtocolDraftState::Draft => ProtocolDraftState::AcceptedByThem { at: now },
            ProtocolDraftState::AcceptedByUs { by, .. } => ProtocolDraftState::Accepted { by, at: now },
            other => other,
        })
    }

    /// Rejects the draft, even if both sides had accepted it.
    pub fn reject(
        self,
        side: ProtocolDraftSide,
        reason: Option<String>,
        now: Timestamp,
    ) -> Result<Self, ProtocolDraftError> {
        Ok(Self { state: ProtocolDraftState::Rejected { side, at: now, reason }, ..self.not_closed(now)? })
    }

    /// The draft as of `now`: expired if its deadline passed before both accepted.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        if self.state.is_open() && now >= self.expires_at {
            self.state = ProtocolDraftState::Expired { at: now };
        }
        self
    }

    /// Checks that both sides accepted exactly this document.
    pub fn usable(&self, digest: &Digest) -> Result<(), ProtocolDraftError> {
        match &self.state {
            _ if self.digest != *digest => Err(ProtocolDraftError::OtherDocument),
            ProtocolDraftState::Accepted { .. } => Ok(()),
            other => Err(ProtocolDraftError::Closed(other.word())),
        }
    }

    fn accept(
        self,
        digest: &Digest,
        now: Timestamp,
        next: impl FnOnce(ProtocolDraftState) -> ProtocolDraftState,
    ) -> Result<Self, ProtocolDraftError> {
        let mut draft = self.not_closed(now)?;
        if draft.digest != *digest {
            return Err(ProtocolDraftError::OtherDocument);
        }
        draft.state = next(draft.state);
        Ok(draft)
    }

    /// The draft as of `now`, unless it is rejected or expired.
    fn not_closed(self, now: Timestamp) -> Result<Self, ProtocolDraftError> {
        let draft = self.at(now);
        match draft.state {
            ProtocolDraftState::Rejected { .. } | ProtocolDraftState::Expired { .. } => {
                Err(ProtocolDraftError::Closed(draft.state.word()))
            }
            _ => Ok(draft),
        }
    }
}
