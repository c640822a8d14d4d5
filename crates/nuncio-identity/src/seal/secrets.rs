//! The long-term keys: Ed25519 for signatures, X25519 for HPKE.

use std::fmt;

use ed25519_dalek::Signer as _;
use nuncio_core::bundle::X25519PublicKey;
use nuncio_core::signature::{PublicKey, Signature};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{cipher, hpke};

/// Private keys of an identity. They are wiped on drop and never printed.
pub(super) struct SealPrivateKeys {
    signing: ed25519_dalek::SigningKey,
    hpke: Zeroizing<[u8; 32]>,
    /// Cached public key: computing it costs as much as opening a message.
    hpke_key: X25519PublicKey,
}

/// Stored form of [`SealPrivateKeys`].
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
pub(super) struct StoredSealPrivateKeys {
    signing: [u8; 32],
    hpke: [u8; 32],
}

impl SealPrivateKeys {
    pub(super) fn generate() -> Self {
        let (signing, agreement) = (Zeroizing::new(cipher::random()), Zeroizing::new(cipher::random()));
        Self::new(&signing, &agreement)
    }

    pub(super) fn new(signing: &[u8; 32], agreement: &[u8; 32]) -> Self {
        let signing = ed25519_dalek::SigningKey::from_bytes(signing);
        Self { signing, hpke: Zeroizing::new(*agreement), hpke_key: hpke::public(agreement) }
    }

    pub(super) fn signing_seed(&self) -> &[u8; 32] {
        self.signing.as_bytes()
    }

    pub(super) fn agreement_secret(&self) -> &[u8; 32] {
        &self.hpke
    }

    pub(super) fn signing_key(&self) -> PublicKey {
        PublicKey::new(self.signing.verifying_key().to_bytes()).expect("a generated key is not a weak one")
    }

    pub(super) const fn hpke_key(&self) -> X25519PublicKey {
        self.hpke_key
    }

    pub(super) fn sign(&self, message: &[u8]) -> Signature {
        Signature::new(self.signing.sign(message).to_bytes())
    }

    pub(super) fn to_record(&self) -> StoredSealPrivateKeys {
        StoredSealPrivateKeys { signing: *self.signing_seed(), hpke: *self.hpke }
    }
}

impl From<StoredSealPrivateKeys> for SealPrivateKeys {
    fn from(stored: StoredSealPrivateKeys) -> Self {
        Self::new(&stored.signing, &stored.hpke)
    }
}

impl fmt::Debug for SealPrivateKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets of {}", self.signing_key())
    }
}
