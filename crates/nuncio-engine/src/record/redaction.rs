//! Signatures of redacted records. A redacted record keeps its original hash, so that the chain stays valid, and the
//! server signs the redacted text.

use nuncio_core::audit::{AuditChainBreak, AuditChainLink};
use nuncio_core::digest::Digest;
use ring::signature::Ed25519KeyPair;

use super::checkpoint::{AuditPublicKeys, hex};
use crate::ports::store::RedactedLedgerEntry;

fn link_message(seq: u64, hash: Digest, record: &str) -> Vec<u8> {
    let text = Digest::of_bytes(record.as_bytes());
    format!("nuncio audit redaction\n{seq}\n{hash}\n{text}\n").into_bytes()
}

fn entry_message(entry: &RedactedLedgerEntry) -> Vec<u8> {
    let RedactedLedgerEntry { relation, seq, previous, hash, entry, .. } = entry;
    let text = Digest::of_bytes(entry.as_bytes());
    format!("nuncio ledger redaction\n{relation}\n{seq}\n{previous}\n{hash}\n{text}\n").into_bytes()
}

/// Signs the redacted text `record` of the audit record whose original hash is `hash`.
pub(super) fn sign_link(seq: u64, hash: Digest, record: &str, key: &Ed25519KeyPair) -> String {
    hex(key.sign(&link_message(seq, hash, record)).as_ref())
}

pub(super) fn sign_entry(entry: RedactedLedgerEntry, key: &Ed25519KeyPair) -> RedactedLedgerEntry {
    RedactedLedgerEntry { signature: hex(key.sign(&entry_message(&entry)).as_ref()), ..entry }
}

/// Verifies the signature of a redacted audit record.
pub(super) fn check_link(
    link: &AuditChainLink,
    redaction: &str,
    keys: &AuditPublicKeys,
) -> Result<(), AuditChainBreak> {
    match keys.have_signed(&link_message(link.seq, link.hash, &link.record), redaction) {
        true => Ok(()),
        false => Err(AuditChainBreak::Altered { seq: link.seq }),
    }
}

/// First redacted ledger entry with a wrong signature or that does not follow the previous one.
pub(super) fn first_broken<'a>(
    entries: &'a [RedactedLedgerEntry],
    keys: &AuditPublicKeys,
) -> Option<&'a RedactedLedgerEntry> {
    let mut before: Option<&RedactedLedgerEntry> = None;
    entries.iter().find(|entry| {
        let previous = before.filter(|before| before.relation == entry.relation);
        let follows = entry.seq == previous.map_or(1, |previous| previous.seq + 1)
            && entry.previous == previous.map_or(Digest::ZERO, |previous| previous.hash);
        before = Some(entry);
        !follows || !keys.have_signed(&entry_message(entry), &entry.signature)
    })
}
