//! Explains one call: its audit records, and every record they refer to, each compared with its hash.

use std::borrow::Cow;

use nuncio_core::audit::references::{ApprovalReference, LedgerReference, PermissionSource, SealedMessageReference};
use nuncio_core::audit::{AuditChainBreak, AuditRecord, BrokenAuditChain, StoredAuditLink};
use nuncio_core::conversation::MessageRef;
use nuncio_core::digest::{Digest, canonical};
use nuncio_core::ids::{CallId, GrantId};
use nuncio_core::ledger::{self, LedgerEntry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AuditCheckpoint, AuditPublicKeys};
use crate::ed25519::Ed25519Verifier;
use crate::error::EngineError;
use crate::ports::store::StoreError;
use crate::record::AuditChainService;

/// Maximum number of records per call id; ids chosen by callers can repeat.
const MOST_RECORDS: usize = 20;

const LEDGER_PAGE: usize = 1000;

/// Everything recorded about a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallExplanation {
    pub call: CallId,
    /// Audit records of the call, oldest first.
    pub records: Vec<ExplainedRecord>,
    /// The first fault of the audit record, if it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_broken: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExplainedRecord {
    pub seq: u64,
    pub record: Value,
    /// The audit record first, then each record that it refers to.
    pub evidence: Vec<ReferencedRecord>,
}

/// A record, compared with the hash by which another refers to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReferencedRecord {
    /// Kind of record: `audit`, `grant`, `ledger`, `approval`, `relay` or `device`.
    pub kept_by: Cow<'static, str>,
    pub name: String,
    pub state: ReferencedRecordState,
    /// Content of the record, or why it could not be verified.
    pub says: String,
    /// Hashes of the ledger entries, from the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hashes: Vec<Digest>,
}

impl ReferencedRecord {
    fn new(kept_by: &'static str, name: String, state: ReferencedRecordState, says: String) -> Self {
        Self { kept_by: kept_by.into(), name, state, says, hashes: Vec::new() }
    }
}

/// Result of comparing a record with its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferencedRecordState {
    Holds,
    Changed,
    /// The record is missing, although the server never deletes such records.
    Missing,
    /// The record is not stored on this server, which is normal for its kind.
    NotKept,
}

impl AuditChainService {
    /// Finds the audit records of a call and checks every record they refer to.
    pub async fn explain_call(
        &self,
        call: &CallId,
        checkpoints: &[AuditCheckpoint],
        keys: &AuditPublicKeys,
    ) -> Result<CallExplanation, EngineError> {
        let broken = self.verify_audit(checkpoints, keys).await?.err();
        let links = self.store.audit_links_of(call, MOST_RECORDS).await?;
        let mut records = Vec::with_capacity(links.len());
        for link in links {
            records.push(self.explain_link(&link, broken.as_ref()).await?);
        }
        Ok(CallExplanation { call: call.clone(), records, chain_broken: broken.map(|broken| broken.to_string()) })
    }

    async fn explain_link(
        &self,
        stored: &StoredAuditLink,
        broken: Option<&BrokenAuditChain>,
    ) -> Result<ExplainedRecord, EngineError> {
        let mut evidence = vec![own_evidence(stored, broken)];
        let StoredAuditLink { number, link, .. } = stored;
        if let Ok(record) = serde_json::from_str::<AuditRecord>(&link.record) {
            match &record.references.rule {
                Some(PermissionSource::Grant { grant, hash }) => {
                    evidence.push(self.grant_evidence(grant, *hash).await?);
                }
                Some(PermissionSource::Ledger(reference)) => evidence.push(self.ledger_evidence(reference).await?),
                _ => {}
            }
            if let Some(approval) = &record.references.approval {
                let mut one = self.approval_evidence(approval).await?;
                if one.state == ReferencedRecordState::Missing && link.redaction.is_some() {
                    (one.state, one.says) =
                        (ReferencedRecordState::NotKept, "it was erased with the person".to_owned());
                }
                evidence.push(one);
            }
            for message in &record.references.messages {
                evidence.push(self.message_evidence(message).await?);
            }
        }
        let record = serde_json::from_str(&link.record).unwrap_or_else(|_| Value::String(link.record.clone()));
        Ok(ExplainedRecord { seq: *number, record, evidence })
    }

    async fn grant_evidence(&self, id: &GrantId, hash: Digest) -> Result<ReferencedRecord, EngineError> {
        let grants = self.store.grants().await?;
        let found = grants.iter().find(|grant| grant.id == *id);
        let (state, says) = match found {
            Some(grant) if Digest::of_bytes(&canonical(grant)) == hash => {
                (ReferencedRecordState::Holds, format!("given by {} at {}", grant.given_by, grant.given_at))
            }
            Some(_) => (ReferencedRecordState::Changed, "it is not the grant that the call used".to_owned()),
            None => (ReferencedRecordState::NotKept, "it was used up or revoked".to_owned()),
        };
        Ok(ReferencedRecord::new("grant", id.to_string(), state, says))
    }

    async fn approval_evidence(&self, reference: &ApprovalReference) -> Result<ReferencedRecord, EngineError> {
        let (state, says) = match self.store.approval(&reference.id).await {
            // A record that cannot be read counts as changed.
            Err(error @ StoreError::Damaged(_)) => {
                (ReferencedRecordState::Changed, format!("it cannot be read: {error}"))
            }
            Err(error) => return Err(error.into()),
            Ok(Some(approval)) if Digest::of_bytes(&canonical(&approval)) == reference.hash => {
                (ReferencedRecordState::Holds, approval.state.as_str().to_owned())
            }
            Ok(Some(_)) => (ReferencedRecordState::Changed, "it is not the approval that the call used".to_owned()),
            Ok(None) => (ReferencedRecordState::Missing, "it was removed".to_owned()),
        };
        Ok(ReferencedRecord::new("approval", reference.id.to_string(), state, says))
    }

    async fn message_evidence(&self, reference: &SealedMessageReference) -> Result<ReferencedRecord, EngineError> {
        let posted = match MessageRef::of(&reference.id) {
            Some(place) => self.store.relayed(&place).await?,
            None => None,
        };
        let (state, says) = match posted.map(|posted| Digest::of_bytes(&posted.post.envelope)) {
            Some(digest) if digest == reference.envelope => {
                (ReferencedRecordState::Holds, format!("envelope {digest}"))
            }
            Some(digest) => {
                (ReferencedRecordState::Changed, format!("envelope {digest}, but {} was sent", reference.envelope))
            }
            None => (ReferencedRecordState::NotKept, "it is on another relay, or it has expired".to_owned()),
        };
        Ok(ReferencedRecord::new("relay", reference.id.to_string(), state, says))
    }

    async fn ledger_evidence(&self, reference: &LedgerReference) -> Result<ReferencedRecord, EngineError> {
        let LedgerReference { hash, relation, seq } = reference;
        let evidence = |state, seq: u64, says: String, hashes| {
            let name = format!("entry {seq} of {relation}");
            ReferencedRecord { hashes, ..ReferencedRecord::new("ledger", name, state, says) }
        };
        let mut entries: Vec<LedgerEntry> = Vec::new();
        loop {
            let last = entries.last().map_or(0, |entry| entry.seq);
            match self.store.ledger(relation, last, LEDGER_PAGE).await {
                Ok(page) if page.is_empty() => break,
                Ok(page) => entries.extend(page),
                Err(error) => {
                    let says = format!("it cannot be read: {error}");
                    return Ok(evidence(ReferencedRecordState::Changed, last + 1, says, Vec::new()));
                }
            }
        }
        if entries.is_empty() {
            let erased = self.store.erased_ledger(Some(relation)).await?;
            let hashes: Vec<_> = erased.iter().map(|entry| entry.hash).collect();
            // The signatures of redacted ledger entries are checked with the audit chain.
            if let Some(used) = erased.iter().find(|entry| entry.seq == *seq && entry.hash == *hash) {
                return Ok(evidence(ReferencedRecordState::Holds, *seq, used.entry.clone(), hashes));
            }
        }
        let hashes: Vec<_> = entries.iter().map(LedgerEntry::hash).collect();
        if let Some((state, changed, says)) = first_change(&entries, &hashes, *seq, *hash) {
            return Ok(evidence(state, changed, says, hashes));
        }
        let used = entries.iter().find(|entry| entry.seq == *seq);
        let says = used.map(|entry| json!({"action": entry.action, "actor": entry.actor, "scopes": entry.scopes}));
        let says = says.map(|says| says.to_string()).unwrap_or_default();
        let person = self.store.relation(relation).await?.map(|relation| relation.person);
        let devices = match &person {
            Some(person) => self.store.devices(person).await?,
            None => Vec::new(),
        };
        Ok(match ledger::verify(&entries, &devices, &Ed25519Verifier) {
            Ok(_) => evidence(ReferencedRecordState::Holds, *seq, says, hashes),
            Err(refused) => evidence(
                ReferencedRecordState::Changed,
                *seq,
                format!("the ledger could not be verified: {refused}"),
                hashes,
            ),
        })
    }
}

/// Evidence for the audit record itself. A forged hash shows at the next record or at a checkpoint.
fn own_evidence(
    StoredAuditLink { number, chain, link }: &StoredAuditLink,
    broken: Option<&BrokenAuditChain>,
) -> ReferencedRecord {
    let is_its_own = |broken: &&BrokenAuditChain| match &broken.fault {
        _ if broken.chain != *chain => false,
        AuditChainBreak::Altered { seq } | AuditChainBreak::Replaced { seq } => *seq == link.seq,
        AuditChainBreak::Detached { seq } => *seq == link.seq || *seq == link.seq + 1,
        _ => false,
    };
    let redacted = if link.redaction.is_some() { ", of the record before a person was erased" } else { "" };
    let (state, says) = match broken.filter(is_its_own) {
        Some(broken) => (ReferencedRecordState::Changed, broken.to_string()),
        None => (ReferencedRecordState::Holds, format!("hash {}{redacted}", link.hash)),
    };
    ReferencedRecord::new("audit", format!("record {number}"), state, says)
}

/// First changed ledger entry, going back from the one that the audit record names: each entry contains the hash of the
/// previous one. `None` if all hold.
fn first_change(
    entries: &[LedgerEntry],
    hashes: &[Digest],
    seq: u64,
    hash: Digest,
) -> Option<(ReferencedRecordState, u64, String)> {
    let mut expected = hash;
    for number in (1..=seq).rev() {
        let Some(at) = entries.iter().position(|entry| entry.seq == number) else {
            return Some((ReferencedRecordState::Missing, number, "it was removed".to_owned()));
        };
        if hashes[at] != expected {
            return Some((
                ReferencedRecordState::Changed,
                number,
                format!("its hash is {}, but was {expected}", hashes[at]),
            ));
        }
        expected = entries[at].prev_hash;
    }
    None
}
