//! Store of the audit record, and the erasure of people from all that is stored.

use async_trait::async_trait;
use nuncio_core::audit::redact::PersonRedaction;
use nuncio_core::audit::{AuditChainHead, AuditChainId, AuditEventRecord, AuditRecord, StoredAuditLink};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{CallId, RelationId};
use nuncio_core::time::Timestamp;
use tokio::sync::watch;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum AuditChange {
    /// Appends the record of a call to an audit chain.
    AppendCall(AuditRecord),
    /// Appends the record of another event to an audit chain.
    AppendEvent(AuditEventRecord),
    /// Erases a person from all stored data.
    ForgetPerson(Box<PersonErasure>),
    /// Deletes at most `limit` of the oldest audit records of a chain, up to its link `through` (inclusive).
    Prune { chain: AuditChainId, through: u64, limit: usize },
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
    /// [`StoredAuditLink::number`] of the record.
    pub number: u64,
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
    /// At most `limit` audit records with a number above `after`, in order. Later commits add none before them.
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError>;
    /// At most `limit` audit records of a chain with a number above `after`, in order.
    async fn audit_chain_links(
        &self,
        chain: AuditChainId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredAuditLink>, StoreError>;
    async fn audit_link(&self, chain: AuditChainId, seq: u64) -> Result<Option<StoredAuditLink>, StoreError>;
    /// At most `limit` audit records with a number below `before`, newest first.
    async fn audit_links_before(&self, before: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError>;
    /// At most `limit` audit records of a call, oldest first.
    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError>;
    /// Heads of all chains with a record, in order of their ids.
    async fn audit_heads(&self) -> Result<Vec<AuditChainHead>, StoreError>;
    /// Channel with a number that rises by one with each audit record that this process stores.
    fn audit_growth(&self) -> watch::Receiver<u64>;
    /// Redacted ledger entries of erased people, in order; of all relations if `relation` is `None`.
    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<RedactedLedgerEntry>, StoreError>;
}
