//! Rounds: records that sign the heads of all audit chains. They prove which chains exist, and order them against each
//! other.

use nuncio_core::audit::{AuditChainHead, AuditChainId, AuditEvent, AuditEventRecord};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use ring::signature::Ed25519KeyPair;

use super::AuditChainService;
use super::checkpoint::{AuditPublicKeys, hex};
use crate::error::EngineError;
use crate::ports::store::AuditChange;

/// Heads of the audit chains at one time.
#[derive(Debug, Default)]
pub struct AuditRound {
    /// `None` before the first round.
    pub at: Option<Timestamp>,
    pub heads: Vec<AuditChainHead>,
}

impl AuditChainService {
    /// Adds a round to the main chain if another chain has grown since the last round of this process.
    pub async fn add_round(&self, last: &mut AuditRound, key: &Ed25519KeyPair) -> Result<(), EngineError> {
        let heads = self.store.audit_heads().await?;
        if heads.iter().all(|head| head.chain == AuditChainId::MAIN || last.heads.contains(head)) {
            return Ok(());
        }
        let at = self.context.now();
        let record = AuditEventRecord {
            signature: Some(hex(key.sign(&message(&heads, at)).as_ref())),
            heads: heads.clone(),
            ..AuditEventRecord::new(AuditEvent::AuditRound, Principal::Operator, at)
        };
        self.context.commit_one(AuditChange::AppendEvent(record)).await?;
        *last = AuditRound { at: Some(at), heads };
        Ok(())
    }
}

fn message(heads: &[AuditChainHead], at: Timestamp) -> Vec<u8> {
    let lines = heads.iter().map(|AuditChainHead { chain, head }| format!("{chain} {} {}\n", head.seq, head.hash));
    format!("nuncio audit round\n{at}\n{}", lines.collect::<String>()).into_bytes()
}

/// The heads that an audit record names, if it is a round.
pub(super) fn parse_round(record: &str) -> Option<AuditEventRecord> {
    // Most records are calls; they need not be parsed.
    let round = record.contains("audit_round").then(|| serde_json::from_str::<AuditEventRecord>(record).ok())??;
    (round.event == AuditEvent::AuditRound).then_some(round)
}

pub(super) fn is_signed(round: &AuditEventRecord, keys: &AuditPublicKeys) -> bool {
    round.signature.as_ref().is_some_and(|signature| keys.have_signed(&message(&round.heads, round.at), signature))
}
