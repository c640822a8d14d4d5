//! Audit: ends of calls, verification of the audit chain, signed checkpoints.

use std::collections::HashMap;
use std::sync::Arc;

use nuncio_core::audit::{AuditChainBreak, AuditChainLink, AuditChainVerifier, ChainHead};
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use ring::signature::Ed25519KeyPair;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::access::AccessControl;
use crate::context::EngineContext;
use crate::error::EngineError;
use crate::ports::Store;
use crate::ports::store::{Change, Conflict, RedactedLedgerEntry, StoreError};

mod explain;
mod forget;
mod list;
mod prune;
mod redaction;
mod rewind;

pub use explain::{CallExplanation, ExplainedRecord, ReferencedRecord, ReferencedRecordState};
pub use forget::PersonErasureReport;
pub use list::{AuditFilter, ListedAuditRecord};

const RECORDS_PER_READ: usize = 1000;

/// Signed head of the audit chain, kept outside the store, so that a truncated chain is detected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCheckpoint {
    /// Number of the last audit record that the checkpoint covers.
    pub seq: u64,
    pub hash: Digest,
    pub at: Timestamp,
    /// Whether the checkpoint signs a pruning: the audit chain then begins after record `seq`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub pruned: bool,
    /// Ed25519 signature over the other fields, in hex.
    pub signature: String,
}

impl AuditCheckpoint {
    #[must_use]
    pub fn sign(head: ChainHead, at: Timestamp, key: &Ed25519KeyPair) -> Self {
        Self::signed(head, at, false, key)
    }

    /// Signs that the audit records up to `head` were pruned. The signed text differs from a checkpoint's, so that no
    /// checkpoint can cover up a deletion.
    #[must_use]
    pub fn sign_pruned(head: ChainHead, at: Timestamp, key: &Ed25519KeyPair) -> Self {
        Self::signed(head, at, true, key)
    }

    fn signed(head: ChainHead, at: Timestamp, pruned: bool, key: &Ed25519KeyPair) -> Self {
        let signature = key.sign(&Self::message(head, at, pruned));
        Self { seq: head.seq, hash: head.hash, at, pruned, signature: hex(signature.as_ref()) }
    }

    #[must_use]
    pub fn is_signed_by(&self, public_key: &[u8]) -> bool {
        let message = Self::message(ChainHead { seq: self.seq, hash: self.hash }, self.at, self.pruned);
        redaction::is_signed(&message, &self.signature, public_key)
    }

    fn message(head: ChainHead, at: Timestamp, pruned: bool) -> Vec<u8> {
        let kind = if pruned { "pruned" } else { "checkpoint" };
        format!("nuncio audit {kind}\n{}\n{}\n{at}\n", head.seq, head.hash).into_bytes()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Result of a successful verification of the audit chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditVerificationResult {
    pub head: ChainHead,
    pub pruned: u64,
    /// Number of checkpoints that were compared with the audit chain.
    pub checkpoints: usize,
}

/// Service for the audit chain: reads, verifies, explains, prunes and redacts it.
pub struct AuditChainService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) access: Arc<AccessControl>,
}

impl AuditChainService {
    /// Number and hash of the last audit record.
    pub async fn audit_head(&self) -> Result<ChainHead, EngineError> {
        Ok(self.store.audit_head().await?)
    }

    /// Channel with the number of the last stored audit record.
    #[must_use]
    pub fn audit_growth(&self) -> watch::Receiver<u64> {
        self.store.audit_growth()
    }

    pub async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<AuditChainLink>, EngineError> {
        Ok(self.store.audit_links(after, limit.min(RECORDS_PER_READ)).await?)
    }

    /// Verifies the whole chain and compares it with the checkpoints; the inner error names the first fault.
    pub async fn verify_audit(
        &self,
        checkpoints: &[AuditCheckpoint],
        public_key: &[u8],
    ) -> Result<Result<AuditVerificationResult, AuditChainBreak>, EngineError> {
        if let Some(forged) = checkpoints.iter().find(|checkpoint| !checkpoint.is_signed_by(public_key)) {
            return Ok(Err(AuditChainBreak::Unsigned { seq: forged.seq }));
        }
        let seen: HashMap<u64, Digest> =
            checkpoints.iter().map(|checkpoint| (checkpoint.seq, checkpoint.hash)).collect();
        let first = self.store.audit_links(0, 1).await?.pop();
        let start = match chain_start(first.as_ref(), checkpoints) {
            Ok(start) => start,
            Err(broken) => return Ok(Err(broken)),
        };
        let mut verifier = AuditChainVerifier::after(start);
        loop {
            let links = self.store.audit_links(verifier.head().seq, RECORDS_PER_READ).await?;
            if links.is_empty() {
                break;
            }
            for link in &links {
                let taken = match &link.redaction {
                    Some(redaction) => {
                        redaction::check_link(link, redaction, public_key).and_then(|()| verifier.take_redacted(link))
                    }
                    None => verifier.take(link),
                };
                if let Err(broken) = taken {
                    return Ok(Err(broken));
                }
                if seen.get(&link.seq).is_some_and(|hash| *hash != link.hash) {
                    return Ok(Err(AuditChainBreak::Replaced { seq: link.seq }));
                }
            }
        }
        let head = verifier.head();
        if let Some(seen) = seen.into_keys().max().filter(|seen| *seen > head.seq) {
            return Ok(Err(AuditChainBreak::Cut { found: head.seq, seen }));
        }
        let erased = self.store.erased_ledger(None).await?;
        if let Some(RedactedLedgerEntry { relation, seq, .. }) = redaction::first_broken(&erased, public_key) {
            return Ok(Err(AuditChainBreak::Erased { relation: relation.clone(), seq: *seq }));
        }
        Ok(Ok(AuditVerificationResult { head, pruned: start.seq, checkpoints: checkpoints.len() }))
    }

    /// Commits the end of a call. If its session was deleted or its execution was taken over, the audit record is
    /// stored without the result.
    pub(crate) async fn store_end(
        &self,
        changes: Vec<Change>,
        without_result: impl FnOnce() -> Vec<Change>,
    ) -> Result<(), StoreError> {
        match self.context.commit(changes).await {
            Err(StoreError::Conflict(Conflict::NoSession | Conflict::OwnerChanged)) => {
                self.context.commit(without_result()).await
            }
            other => other,
        }
    }
}

/// Head after which the chain begins: the start, or the last pruned record. An interrupted pruning may leave some
/// records before the signed one.
fn chain_start(first: Option<&AuditChainLink>, checkpoints: &[AuditCheckpoint]) -> Result<ChainHead, AuditChainBreak> {
    let Some(first) = first.filter(|first| first.seq > 1) else { return Ok(ChainHead::START) };
    let pruned = checkpoints.iter().filter(|checkpoint| checkpoint.pruned).max_by_key(|checkpoint| checkpoint.seq);
    match pruned {
        Some(pruned) if first.seq == pruned.seq + 1 && first.previous != pruned.hash => {
            Err(AuditChainBreak::Detached { seq: first.seq })
        }
        Some(pruned) if first.seq <= pruned.seq + 1 => Ok(ChainHead { seq: first.seq - 1, hash: first.previous }),
        _ => Err(AuditChainBreak::Gap { expected: pruned.map_or(1, |pruned| pruned.seq + 1), found: first.seq }),
    }
}
