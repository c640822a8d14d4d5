//! The audit record: which calls were decided and how they ended, in chains that are protected by hashes.
//!
//! Each link's hash covers the previous link, so a record that was altered, removed or inserted breaks the chain
//! there. Signed checkpoints reveal a truncated end, and signed rounds a missing chain.

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::code::ErrorCode;
use crate::digest::{Digest, canonical};
use crate::ids::{AgentName, CallId, RelationId, ScopeId, SessionId, ToolName};
use crate::policy::Protocol;
use crate::principal::Principal;
use crate::time::Timestamp;

mod chain_id;
mod event;
pub mod redact;
pub mod references;
#[cfg(test)]
mod tests;

pub use chain_id::{AuditChainHead, AuditChainId};
pub use event::{AuditEvent, AuditEventRecord};
pub use references::AuditReferences;

/// A record that can be appended to the audit chain.
pub trait AuditChainRecord {
    /// The record as canonical JSON, the bytes that are hashed.
    fn text(&self) -> String;
}

impl AuditChainRecord for AuditRecord {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("a record always has a JSON form")
    }
}

impl AuditChainRecord for AuditEventRecord {
    fn text(&self) -> String {
        String::from_utf8(canonical(self)).expect("JSON is UTF-8")
    }
}

/// Audit record of one tool call, in any protocol.
///
/// Fields are in alphabetical order, so that the serialised JSON is canonical.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    pub agent: AgentName,
    /// Digest of the arguments; the arguments are not stored.
    pub arguments_digest: Digest,
    pub asked_at: Timestamp,
    pub call: CallId,
    pub caller: Principal,
    /// Whether the call was allowed, and who decided.
    pub decision: AuditDecision,
    pub ended_at: Timestamp,
    pub outcome: AuditOutcome,
    pub protocol: Protocol,
    /// References to other records; empty in audit records of earlier versions.
    #[serde(skip_serializing_if = "AuditReferences::is_empty", default)]
    pub references: AuditReferences,
    /// Id of the HTTP request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// Permission that the called tool needs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<ScopeId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    /// Time at which the tool started; `None` if it did not run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Timestamp>,
    /// Tool name as given by the caller.
    pub tool: ToolName,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<u64>,
}

/// Whether a call was allowed, and who decided.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum AuditDecision {
    Allowed {
        /// Deciders that allowed the call: `policy`, or the approvers.
        by: Vec<String>,
    },
    Refused {
        /// Decider that denied the call: `policy`, or the party that denied.
        by: String,
        code: ErrorCode,
    },
}

impl Serialize for AuditDecision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Allowed { by } => {
                map.serialize_entry("by", by)?;
                map.serialize_entry("verdict", "allowed")?;
            }
            Self::Refused { by, code } => {
                map.serialize_entry("by", by)?;
                map.serialize_entry("code", code)?;
                map.serialize_entry("verdict", "refused")?;
            }
        }
        map.end()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum AuditOutcome {
    Completed,
    Failed { code: ErrorCode },
    NotRun,
}

impl Serialize for AuditOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let result = match self {
            Self::Completed => "completed",
            Self::Failed { code } => {
                map.serialize_entry("code", code)?;
                "failed"
            }
            Self::NotRun => "not_run",
        };
        map.serialize_entry("result", result)?;
        map.end()
    }
}

/// An audit record with its position in the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditChainLink {
    /// Number of the link in its chain; starts at 1, without gaps.
    pub seq: u64,
    /// The audit record as canonical JSON, exactly as hashed.
    pub record: String,
    /// Hash of the previous link.
    pub previous: Digest,
    pub hash: Digest,
    /// The server's signature over a redacted audit record; `None` if the record was not redacted. The link's hash is
    /// that of the original record.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub redaction: Option<String>,
}

impl AuditChainLink {
    /// Link of the audit chain for a record; `previous` is the hash of the link before it.
    #[must_use]
    pub fn new(seq: u64, previous: Digest, record: &impl AuditChainRecord) -> Self {
        let record = record.text();
        let hash = link_hash(seq, previous, &record);
        Self { seq, record, previous, hash, redaction: None }
    }
}

/// A link of an audit chain as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAuditLink {
    /// Number of the record among those of all chains. It rises with time and within each chain, and may have gaps if
    /// there are several chains.
    pub number: u64,
    pub chain: AuditChainId,
    pub link: AuditChainLink,
}

fn link_hash(seq: u64, previous: Digest, record: &str) -> Digest {
    let mut bytes = Vec::with_capacity(40 + record.len());
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(previous.as_bytes());
    bytes.extend_from_slice(record.as_bytes());
    Digest::of_bytes(&bytes)
}

/// Position and hash of the last link of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// Number of the last link; 0 for an empty chain.
    pub seq: u64,
    pub hash: Digest,
}

impl ChainHead {
    pub const START: Self = Self { seq: 0, hash: Digest::ZERO };
}

/// The first fault of the audit record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{fault}", chain_prefix(*.chain))]
pub struct BrokenAuditChain {
    pub chain: AuditChainId,
    pub fault: AuditChainBreak,
}

/// The main chain is not named, because most stores have no other.
fn chain_prefix(chain: AuditChainId) -> String {
    if chain == AuditChainId::MAIN { String::new() } else { format!("chain {chain}: ") }
}

/// The first place where verification of a chain fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditChainBreak {
    #[error("record {expected} is missing: the next one found is {found}")]
    Gap { expected: u64, found: u64 },
    /// The previous hash of a link is not that of the link before it.
    #[error("record {seq} does not follow from record {}", seq - 1)]
    Detached { seq: u64 },
    /// An audit record does not match its hash.
    #[error("record {seq} was changed after it was written")]
    Altered { seq: u64 },
    /// The end of the audit chain is missing: a checkpoint covers more records, or another chain.
    #[error("the chain ends at record {found}, but a signed checkpoint covers record {seen}")]
    Cut {
        /// Number of the last record found in the chain.
        found: u64,
        /// Number of the last record covered by the checkpoint.
        seen: u64,
    },
    /// A checkpoint covers a different record with this number.
    #[error("record {seq} does not match its signed checkpoint")]
    Replaced { seq: u64 },
    /// A round names fewer records of a chain than an earlier round, or its signature is invalid.
    #[error("the round in record {seq} is not signed by a server of this store, or contradicts an earlier one")]
    Round { seq: u64 },
    /// An erased consent ledger entry does not match its signed hash.
    #[error("entry {seq} of the erased ledger {relation} was changed, or one before it is missing")]
    Erased { relation: RelationId, seq: u64 },
    /// A checkpoint's signature is invalid.
    #[error("the checkpoint at record {seq} is not signed by this server's key")]
    Unsigned {
        /// Number of the last record that the checkpoint claims to cover.
        seq: u64,
    },
}

/// Verifies a chain link by link.
#[derive(Debug)]
pub struct AuditChainVerifier {
    head: ChainHead,
}

impl AuditChainVerifier {
    /// A verifier that continues after `head`.
    #[must_use]
    pub fn after(head: ChainHead) -> Self {
        Self { head }
    }

    /// Verifies the next link.
    pub fn take(&mut self, link: &AuditChainLink) -> Result<(), AuditChainBreak> {
        self.follows(link)?;
        if link_hash(link.seq, link.previous, &link.record) != link.hash {
            return Err(AuditChainBreak::Altered { seq: link.seq });
        }
        self.head = ChainHead { seq: link.seq, hash: link.hash };
        Ok(())
    }

    /// Verifies the next link if its record was redacted. The caller has checked the redaction's signature; this
    /// checks number and previous hash.
    pub fn take_redacted(&mut self, link: &AuditChainLink) -> Result<(), AuditChainBreak> {
        self.follows(link)?;
        self.head = ChainHead { seq: link.seq, hash: link.hash };
        Ok(())
    }

    fn follows(&self, link: &AuditChainLink) -> Result<(), AuditChainBreak> {
        let expected = self.head.seq + 1;
        if link.seq != expected {
            return Err(AuditChainBreak::Gap { expected, found: link.seq });
        }
        if link.previous != self.head.hash {
            return Err(AuditChainBreak::Detached { seq: link.seq });
        }
        Ok(())
    }

    #[must_use]
    pub fn head(&self) -> ChainHead {
        self.head
    }
}
