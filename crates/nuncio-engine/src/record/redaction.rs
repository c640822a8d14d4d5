//! Records from which a person was taken out keep the hash they had, so the chain holds; a signature of this server
//! stands for the text that is there now.

use nuncio_core::audit::{ChainBreak, ChainLink};
use nuncio_core::digest::Digest;
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};

use super::{hex, unhex};
use crate::ports::store::ErasedEntry;

fn link_message(seq: u64, hash: Digest, record: &str) -> Vec<u8> {
    let text = Digest::of_bytes(record.as_bytes());
    format!("nuncio audit redaction\n{seq}\n{hash}\n{text}\n").into_bytes()
}

fn entry_message(entry: &ErasedEntry) -> Vec<u8> {
    let ErasedEntry { relation, seq, previous, hash, entry, .. } = entry;
    let text = Digest::of_bytes(entry.as_bytes());
    format!("nuncio ledger redaction\n{relation}\n{seq}\n{previous}\n{hash}\n{text}\n").into_bytes()
}

/// The signature over the text of a record that replaces the one with that hash.
pub(super) fn sign_link(seq: u64, hash: Digest, record: &str, key: &Ed25519KeyPair) -> String {
    hex(key.sign(&link_message(seq, hash, record)).as_ref())
}

/// The entry with its signature.
pub(super) fn sign_entry(entry: ErasedEntry, key: &Ed25519KeyPair) -> ErasedEntry {
    ErasedEntry { signature: hex(key.sign(&entry_message(&entry)).as_ref()), ..entry }
}

fn holds(message: &[u8], signature: &str, public_key: &[u8]) -> bool {
    let signature = unhex(signature);
    signature.is_some_and(|it| UnparsedPublicKey::new(&ED25519, public_key).verify(message, &it).is_ok())
}

/// Whether the text of a redacted record is the one that was signed.
pub(super) fn check_link(link: &ChainLink, redaction: &str, public_key: &[u8]) -> Result<(), ChainBreak> {
    match holds(&link_message(link.seq, link.hash, &link.record), redaction, public_key) {
        true => Ok(()),
        false => Err(ChainBreak::Altered { seq: link.seq }),
    }
}

/// The first entry of erased ledgers that is not what was signed, or does not follow from the one before it.
pub(super) fn first_broken<'a>(entries: &'a [ErasedEntry], public_key: &[u8]) -> Option<&'a ErasedEntry> {
    let mut before: Option<&ErasedEntry> = None;
    entries.iter().find(|entry| {
        let previous = before.filter(|before| before.relation == entry.relation);
        let follows = entry.seq == previous.map_or(1, |previous| previous.seq + 1)
            && entry.previous == previous.map_or(Digest::ZERO, |previous| previous.hash);
        before = Some(entry);
        !follows || !holds(&entry_message(entry), &entry.signature, public_key)
    })
}
