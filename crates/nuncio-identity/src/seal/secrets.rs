//! The keys that stay: one to sign with, one that HPKE seals to.

use std::fmt;

use ed25519_dalek::Signer as _;
use nuncio_core::bundle::AgreementKey;
use nuncio_core::signature::{PublicKey, Signature};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{cipher, hpke};

/// A party's private keys. They are wiped when dropped and never shown.
pub(super) struct Secrets {
    signing: ed25519_dalek::SigningKey,
    hpke: Zeroizing<[u8; 32]>,
    /// Its public half, which costs as much to find as a message to open.
    hpke_key: AgreementKey,
}

/// The same as it is kept.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
pub(super) struct KeptSecrets {
    signing: [u8; 32],
    hpke: [u8; 32],
}

impl Secrets {
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

    pub(super) const fn hpke_key(&self) -> AgreementKey {
        self.hpke_key
    }

    pub(super) fn sign(&self, message: &[u8]) -> Signature {
        Signature::new(self.signing.sign(message).to_bytes())
    }

    pub(super) fn kept(&self) -> KeptSecrets {
        KeptSecrets { signing: *self.signing_seed(), hpke: *self.hpke }
    }
}

impl From<KeptSecrets> for Secrets {
    fn from(kept: KeptSecrets) -> Self {
        Self::new(&kept.signing, &kept.hpke)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets of {}", self.signing_key())
    }
}
