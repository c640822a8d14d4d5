//! The Ed25519 private key of an agent or of this service.

use std::fmt;
use std::sync::Arc;

use ed25519_dalek::Signer as _;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::{KeyError, VerifyingKey};
use crate::encoding::{base64, from_base64};

/// An Ed25519 private key. `Debug` prints only the public key.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<ed25519_dalek::SigningKey>,
    public: VerifyingKey,
}

/// The bytes before the 32-byte seed in PKCS #8 version 1 (RFC 8410).
const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const PEM_HEAD: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_FOOT: &str = "-----END PRIVATE KEY-----";

impl SigningKey {
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let pair = ed25519_dalek::SigningKey::from_bytes(seed);
        let public =
            VerifyingKey::ed25519(pair.verifying_key().as_bytes()).expect("a pair's public key is a good point");
        Self { pair: Arc::new(pair), public }
    }

    /// Parses PKCS #8 in DER, with or without the public key.
    ///
    /// # Errors
    /// The key has another format, or its public key does not match the private key.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let declared = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| KeyError::Pkcs8)?;
        let seed = der.get(16..48).and_then(|seed| <&[u8; 32]>::try_from(seed).ok()).ok_or(KeyError::Pkcs8)?;
        let key = Self::from_seed(seed);
        if key.pair.verifying_key().as_bytes() != declared.public_key().as_ref() {
            return Err(KeyError::Pkcs8);
        }
        Ok(key)
    }

    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let inside = pem.trim().strip_prefix(PEM_HEAD).and_then(|rest| rest.strip_suffix(PEM_FOOT));
        let text: String = inside.ok_or(KeyError::Pkcs8)?.split_ascii_whitespace().collect();
        Self::from_pkcs8(&from_base64(&text).ok_or(KeyError::Pkcs8)?)
    }

    /// Encodes the key as PKCS #8 in PEM. The caller must store the text where only it can read it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        format!("{PEM_HEAD}\n{}\n{PEM_FOOT}\n", base64(&[PKCS8_HEAD.as_slice(), self.pair.as_bytes()].concat()))
    }

    #[must_use]
    pub const fn public(&self) -> &VerifyingKey {
        &self.public
    }

    /// The last segment of a DID bound to this key: `e1_…`.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("e1_{}", self.public.thumbprint())
    }

    /// Derives a secret for one purpose (HMAC-SHA256), which does not reveal the key.
    pub(crate) fn derived(&self, purpose: &str) -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.pair.as_bytes());
        ring::hmac::sign(&key, purpose.as_bytes()).as_ref().try_into().expect("an HMAC-SHA256 has 32 bytes")
    }

    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.pair.sign(message).to_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey of {:?}", self.public)
    }
}
