//! What is left of a person who was forgotten.

use nuncio_core::audit::redact::Redaction;
use nuncio_core::digest::Digest;
use nuncio_core::ids::RelationId;
use nuncio_core::time::Timestamp;

/// A person to erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// Who, by which principals they are known, and what stands for them in what others keep.
    pub redaction: Redaction,
    /// When.
    pub at: Timestamp,
    /// The audit records that named them, without them.
    pub links: Vec<RedactedLink>,
    /// The entries of their ledgers, without them.
    pub ledger: Vec<ErasedEntry>,
}

/// An audit record without a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedLink {
    /// Its number.
    pub seq: u64,
    /// What is left of it.
    pub record: String,
    /// The server's signature over that, in hex.
    pub signature: String,
}

/// A ledger entry without its person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedEntry {
    /// The relation whose ledger it was in.
    pub relation: RelationId,
    /// Its number.
    pub seq: u64,
    /// The hash of the entry before it.
    pub previous: Digest,
    /// The hash it had.
    pub hash: Digest,
    /// What is left of it.
    pub entry: String,
    /// The server's signature over all of this, in hex.
    pub signature: String,
}
