//! Signatures of redacted records. A redacted record keeps its original hash, so that the chain stays valid, and the
//! server signs the redacted text.

use nuncio_core::audit::{AuditChainBreak, AuditChainLink};
use nuncio_core::digest::Digest;
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};

use super::{hex, unhex};
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

/// Whether `signature`, in hex, is the server's over `message`.
pub(super) fn is_signed(message: &[u8], signature: &str, public_key: &[u8]) -> bool {
    let signature = unhex(signature);
    signature.is_some_and(|it| UnparsedPublicKey::new(&ED25519, public_key).verify(message, &it).is_ok())
}

/// Verifies the signature of a redacted audit record.
pub(super) fn check_link(link: &AuditChainLink, redaction: &str, public_key: &[u8]) -> Result<(), AuditChainBreak> {
    match is_signed(&link_message(link.seq, link.hash, &link.record), redaction, public_key) {
        true => Ok(()),
        false => Err(AuditChainBreak::Altered { seq: link.seq }),
    }
}

/// First redacted ledger entry with a wrong signature or that does not follow the previous one.
pub(super) fn first_broken<'a>(
    entries: &'a [RedactedLedgerEntry],
    public_key: &[u8],
) -> Option<&'a RedactedLedgerEntry> {
    let mut before: Option<&RedactedLedgerEntry> = None;
    entries.iter().find(|entry| {
        let previous = before.filter(|before| before.relation == entry.relation);
        let follows = entry.seq == previous.map_or(1, |previous| previous.seq + 1)
            && entry.previous == previous.map_or(Digest::ZERO, |previous| previous.hash);
        before = Some(entry);
        !follows || !is_signed(&entry_message(entry), &entry.signature, public_key)
    })
}
