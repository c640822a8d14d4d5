//! Signed checkpoints, and the keys that sign them.

use nuncio_core::audit::{AuditChainHead, AuditChainId};
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

/// Signed head of an audit chain, kept outside the store, so that a truncated chain is detected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCheckpoint {
    /// Number of the last link that the checkpoint covers.
    pub seq: u64,
    pub hash: Digest,
    pub at: Timestamp,
    /// Whether the checkpoint signs a pruning: the audit chain then begins after link `seq`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub pruned: bool,
    #[serde(skip_serializing_if = "is_main", default)]
    pub chain: AuditChainId,
    /// Ed25519 signature over the other fields, in hex.
    pub signature: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_main(chain: &AuditChainId) -> bool {
    *chain == AuditChainId::MAIN
}

impl AuditCheckpoint {
    #[must_use]
    pub fn sign(head: AuditChainHead, at: Timestamp, key: &Ed25519KeyPair) -> Self {
        Self::signed(head, at, false, key)
    }

    /// Signs that the audit records up to `head` were pruned. The signed text differs from a checkpoint's, so that no
    /// checkpoint can cover up a deletion.
    #[must_use]
    pub fn sign_pruned(head: AuditChainHead, at: Timestamp, key: &Ed25519KeyPair) -> Self {
        Self::signed(head, at, true, key)
    }

    fn signed(
        AuditChainHead { chain, head }: AuditChainHead,
        at: Timestamp,
        pruned: bool,
        key: &Ed25519KeyPair,
    ) -> Self {
        let unsigned = Self { seq: head.seq, hash: head.hash, at, pruned, chain, signature: String::new() };
        Self { signature: hex(key.sign(&unsigned.message()).as_ref()), ..unsigned }
    }

    #[must_use]
    pub fn is_signed_by(&self, keys: &AuditPublicKeys) -> bool {
        keys.have_signed(&self.message(), &self.signature)
    }

    fn message(&self) -> Vec<u8> {
        let kind = if self.pruned { "pruned" } else { "checkpoint" };
        let chain = if is_main(&self.chain) { String::new() } else { format!("chain {}\n", self.chain) };
        format!("nuncio audit {kind}\n{}\n{}\n{}\n{chain}", self.seq, self.hash, self.at).into_bytes()
    }
}

/// Public keys of the nodes of a store. Each signs checkpoints, rounds and redactions with a key of its own.
#[derive(Debug, Clone, Default)]
pub struct AuditPublicKeys(pub Vec<Vec<u8>>);

impl AuditPublicKeys {
    /// Whether `signature`, in hex, is that of one of the keys over `message`.
    pub(super) fn have_signed(&self, message: &[u8], signature: &str) -> bool {
        let Some(signature) = unhex(signature) else { return false };
        self.0.iter().any(|key| UnparsedPublicKey::new(&ED25519, key).verify(message, &signature).is_ok())
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
