//! Erasure of a person from the store.

use nuncio_core::audit::redact::Redaction;
use nuncio_core::digest::Digest;
use nuncio_core::ids::RelationId;
use nuncio_core::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonErasure {
    /// The person's names and principals, and the pseudonym that replaces them.
    pub redaction: Redaction,
    pub at: Timestamp,
    /// Redacted audit records that named the person.
    pub links: Vec<RedactedAuditRecord>,
    /// Redacted entries of the person's ledgers.
    pub ledger: Vec<RedactedLedgerEntry>,
}

/// An audit record from which a person was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedAuditRecord {
    pub seq: u64,
    /// Text of the record without the person.
    pub record: String,
    /// Server's signature over the redacted record, in hex.
    pub signature: String,
}

/// A ledger entry from which its person was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedLedgerEntry {
    pub relation: RelationId,
    pub seq: u64,
    /// Hash of the previous ledger entry.
    pub previous: Digest,
    /// Hash of the original ledger entry.
    pub hash: Digest,
    /// Text of the record without the person.
    pub entry: String,
    /// Server's signature over all fields, in hex.
    pub signature: String,
}
