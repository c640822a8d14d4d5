//! Hash-chained audit log of every tool call decided on this device, kept for thirty days. Arguments are stored as an
//! HMAC under a key of this device, so that short values cannot be guessed from the digest.

use std::time::Duration;

use nuncio_core::audit::ChainHead;
use nuncio_core::audit::references::LedgerReference;
use nuncio_core::digest::{Digest, canonical};
use nuncio_core::ids::{AgentId, CallId, MessageId, ScopeId, ToolName};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, SealedRecordChange};
use ring::hmac;
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::record_store::RecordStore;

mod page;
mod reader;

pub use page::{AuditEntriesPage, AuditFilter, AuditedCallStatus};
pub use reader::AuditReader;

pub const AUDIT_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

const SIGNING_KEY_RECORD: &str = "audit-key";
const CHAIN_STATE_RECORD: &str = "audit-state";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAuditEntry {
    pub call_id: CallId,
    pub agent_id: AgentId,
    pub tool_name: ToolName,
    pub scope: ScopeId,
    /// HMAC-SHA256 of the arguments' canonical form, under a key of this device.
    pub arguments_digest: String,
    /// Outcome of the call: `ok`, `error`, `denied` or `elsewhere`.
    pub status: String,
    /// Error code or denial reason of a call that failed or was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the person was prompted for this call.
    pub asked: bool,
    pub timestamp: Timestamp,
    /// Id of the message that carried the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Digest of the sealed message that carried the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope_digest: Option<Digest>,
    /// Last entry of the consent ledger that the decision was based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerReference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainedAuditEntry {
    /// Number of the audit entry, from 1, without gaps.
    pub seq: u64,
    /// Hash of the previous audit entry; zeros in the first.
    pub prev_hash: Digest,
    #[serde(flatten)]
    pub entry: CallAuditEntry,
}

impl ChainedAuditEntry {
    /// The hash by which the next audit entry refers to this one.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Digest::of_bytes(&canonical(self))
    }

    /// JSON for export, with the entry's own hash, so that a reader can verify a sequence of entries.
    #[must_use]
    pub fn with_hash(&self) -> Value {
        let mut value = json!(self);
        value["hash"] = json!(self.hash());
        value
    }
}

/// Positions at which the stored audit chain starts and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct AuditChainEnds {
    /// Position before the first stored entry: that of the last entry deleted because of its age.
    from: ChainHead,
    to: ChainHead,
}

/// Why verification of the audit chain failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditChainError {
    #[error(transparent)]
    Unreadable(#[from] KeyStoreError),
    /// The audit entry with this number was changed or inserted, or an entry before it was removed.
    #[error("entry {0} was changed, or an entry before it is missing")]
    InvalidEntry(u64),
    #[error("the last entries are missing: {missing} of them")]
    MissingEnd { missing: u64 },
}

#[derive(Debug, Clone)]
pub(crate) struct AuditLog {
    records: RecordStore,
}

fn name(seq: u64) -> String {
    format!("audit/{seq:020}")
}

impl AuditLog {
    pub(crate) fn new(records: RecordStore) -> Self {
        Self { records }
    }

    fn state(&self) -> Result<AuditChainEnds, KeyStoreError> {
        Ok(self
            .records
            .get(CHAIN_STATE_RECORD)?
            .unwrap_or(AuditChainEnds { from: ChainHead::START, to: ChainHead::START }))
    }

    /// Keyed digest of a call's arguments; the key is created on first use.
    pub(crate) fn digest(&self, arguments: &Value) -> Result<String, KeyStoreError> {
        let bytes: Vec<u8> = match self.records.get(SIGNING_KEY_RECORD)? {
            Some(bytes) => bytes,
            None => {
                let mut fresh = vec![0; 32];
                ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut fresh)
                    .map_err(|_| KeyStoreError("the system has no randomness".to_owned()))?;
                self.records.set(SIGNING_KEY_RECORD, &fresh)?;
                fresh
            }
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let tag = hmac::sign(&key, &canonical(arguments));
        Ok(tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Record changes that append an entry to the audit chain; the caller saves them.
    pub(crate) fn append(&self, entry: CallAuditEntry) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
        let state = self.state()?;
        let chained = ChainedAuditEntry { seq: state.to.seq + 1, prev_hash: state.to.hash, entry };
        let to = ChainHead { seq: chained.seq, hash: chained.hash() };
        Ok(vec![
            RecordStore::put(&name(chained.seq), &chained),
            RecordStore::put(CHAIN_STATE_RECORD, &AuditChainEnds { to, ..state }),
        ])
    }

    /// All stored audit entries, oldest first.
    pub(crate) fn all(&self) -> Result<Vec<ChainedAuditEntry>, KeyStoreError> {
        self.records.all("audit/")?.into_iter().map(|(_, chained)| chained).collect()
    }

    /// Verifies the audit chain from the last deleted entry to its end. Returns the number of entries.
    pub(crate) fn verify(&self) -> Result<u64, AuditChainError> {
        self.walk(drop)
    }

    /// Verifies the audit chain from its beginning and passes each readable entry to `visit`, including those after a
    /// break. An unreadable entry counts as a break.
    fn walk(&self, mut visit: impl FnMut(ChainedAuditEntry)) -> Result<u64, AuditChainError> {
        let state = self.state()?;
        let mut head = state.from;
        let mut broken = None;
        for (at, record) in self.records.all::<ChainedAuditEntry>("audit/")? {
            let Some(chained) = record.ok().filter(|chained| name(chained.seq) == at) else {
                broken.get_or_insert(AuditChainError::InvalidEntry(head.seq + 1));
                continue;
            };
            if chained.seq != head.seq + 1 || chained.prev_hash != head.hash {
                broken.get_or_insert(AuditChainError::InvalidEntry(chained.seq));
            }
            head = ChainHead { seq: chained.seq, hash: chained.hash() };
            visit(chained);
        }
        match broken {
            Some(broken) => Err(broken),
            None if head == state.to => Ok(head.seq - state.from.seq),
            None if head.seq == state.to.seq => Err(AuditChainError::InvalidEntry(head.seq)),
            None if head.seq > state.to.seq => Err(AuditChainError::InvalidEntry(state.to.seq + 1)),
            None => Err(AuditChainError::MissingEnd { missing: state.to.seq - head.seq }),
        }
    }

    /// Changes that delete audit entries older than `AUDIT_RETENTION`; the remaining chain still verifies.
    pub(crate) fn forget(&self, now: Timestamp) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
        let before = now.before(AUDIT_RETENTION);
        let mut state = self.state()?;
        let mut changes = Vec::new();
        for chained in self.all()?.iter().take_while(|chained| chained.entry.timestamp < before) {
            state.from = ChainHead { seq: chained.seq, hash: chained.hash() };
            changes.push(RecordStore::delete(&name(chained.seq)));
        }
        if !changes.is_empty() {
            changes.push(RecordStore::put(CHAIN_STATE_RECORD, &state));
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nuncio_identity::seal::{KeyStore as _, MemoryKeyStore};

    fn entry(number: u64, at: i64) -> CallAuditEntry {
        CallAuditEntry {
            call_id: CallId::parse(&format!("call_{number}")).unwrap(),
            agent_id: AgentId::parse("agt_1").unwrap(),
            tool_name: ToolName::parse("read_file").unwrap(),
            scope: ScopeId::parse("filesystem:read").unwrap(),
            arguments_digest: "00".to_owned(),
            status: "ok".to_owned(),
            reason: None,
            asked: false,
            timestamp: Timestamp::from_millis(at),
            message_id: None,
            envelope_digest: None,
            ledger: None,
        }
    }

    #[test]
    fn audit_chain_detects_changes_and_verifies_after_expired_entries_are_deleted() {
        let key_store = Arc::new(MemoryKeyStore::new());
        let records = RecordStore::new(Arc::clone(&key_store) as _);
        let log = AuditLog::new(records.clone());
        let day = 24 * 3600 * 1000;
        for number in 0..5 {
            let changes = log.append(entry(number, i64::try_from(number).unwrap() * 10 * day)).unwrap();
            records.save(changes).unwrap();
        }
        assert_eq!(log.verify(), Ok(5));
        records.save(log.forget(Timestamp::from_millis(41 * day)).unwrap()).unwrap();
        assert_eq!(log.verify(), Ok(3), "what is older than thirty days is gone");

        let touched = RecordStore::put(
            &name(4),
            &ChainedAuditEntry { entry: entry(9, 30 * day), ..log.all().unwrap()[1].clone() },
        );
        let before = key_store.load("device/audit/00000000000000000004").unwrap();
        records.save(vec![touched]).unwrap();
        assert_eq!(log.verify(), Err(AuditChainError::InvalidEntry(5)));
        key_store.save(vec![("device/audit/00000000000000000004".to_owned(), before)]).unwrap();
        assert_eq!(log.verify(), Ok(3));
        records.save(vec![RecordStore::delete(&name(5))]).unwrap();
        assert_eq!(log.verify(), Err(AuditChainError::MissingEnd { missing: 1 }));
    }

    #[test]
    fn argument_digest_differs_per_device_and_ignores_key_order() {
        let log = |key_store: Arc<MemoryKeyStore>| AuditLog::new(RecordStore::new(key_store as _));
        let (one, other) = (log(Arc::default()), log(Arc::default()));
        let arguments = json!({"path": "a", "x": 1});
        assert_eq!(one.digest(&arguments), one.digest(&json!({"x": 1, "path": "a"})));
        assert_ne!(one.digest(&arguments), other.digest(&arguments));
    }
}
