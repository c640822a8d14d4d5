//! Verification of Ed25519 signatures.

use nuncio_core::signature::{PublicKey, Signature, SignatureChecker};
use ring::signature::{ED25519, UnparsedPublicKey};

#[derive(Debug, Clone, Copy, Default)]
pub struct Ed25519Verifier;

impl SignatureChecker for Ed25519Verifier {
    fn holds(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(message, signature.as_bytes()).is_ok()
    }
}
