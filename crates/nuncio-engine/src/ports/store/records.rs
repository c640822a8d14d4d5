//! Store of the audit chain, and the erasure of people from all that is stored.

use async_trait::async_trait;
use nuncio_core::audit::redact::PersonRedaction;
use nuncio_core::audit::{AuditChainLink, AuditEventRecord, AuditRecord, ChainHead};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{CallId, RelationId};
use nuncio_core::time::Timestamp;
use tokio::sync::watch;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum AuditChange {
    /// Appends the record of a call to the audit chain.
    AppendCall(AuditRecord),
    /// Appends the record of another event to the audit chain.
    AppendEvent(AuditEventRecord),
    /// Erases a person from all stored data.
    ForgetPerson(Box<PersonErasure>),
    /// Deletes at most `limit` of the oldest audit records with a number up to `through` (inclusive).
    Prune { through: u64, limit: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonErasure {
    /// The person's names and principals, and the pseudonym that replaces them.
    pub redaction: PersonRedaction,
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
    /// Text of the ledger entry without the person.
    pub entry: String,
    /// Server's signature over all fields, in hex.
    pub signature: String,
}

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// At most `limit` audit records with a number above `after`, in order.
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<AuditChainLink>, StoreError>;
    /// At most `limit` audit records with a number below `before`, newest first.
    async fn audit_links_before(&self, before: u64, limit: usize) -> Result<Vec<AuditChainLink>, StoreError>;
    /// At most `limit` audit records of a call, oldest first.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<AuditChainLink>, StoreError>;
    /// Number and hash of the last audit record.
    async fn audit_head(&self) -> Result<ChainHead, StoreError>;
    /// Channel with the number of the last stored audit record; zero before the first.
    fn audit_growth(&self) -> watch::Receiver<u64>;
    /// Redacted ledger entries of erased people, in order; of all relations if `relation` is `None`.
    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<RedactedLedgerEntry>, StoreError>;
}
