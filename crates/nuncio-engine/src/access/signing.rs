//! Request signing keys. Their secrets are encrypted at rest and decrypted when keys are loaded.

use std::fmt;
use std::sync::Arc;

use nuncio_core::digest::Digest;
use nuncio_core::ids::KeyId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use ring::hmac;
use subtle::ConstantTimeEq as _;

use super::{AuthenticationMethod, Caller};
use crate::context::EngineContext;
use crate::ports::store::ApiKey;
use crate::secret_cipher::SecretCipher;

/// A signing key with one decrypted secret, which verifies signatures of requests.
pub struct RequestSigningKey {
    key: Arc<ApiKey>,
    digest: Digest,
    mac: hmac::Key,
}

impl RequestSigningKey {
    /// Encrypts the secret of a signing key, bound to the key's id.
    pub(super) fn seal(context: &EngineContext, id: &KeyId, secret: &str) -> String {
        context.seal(&signing_key_context(id), secret)
    }

    /// Decrypts the secret of a signing key; `None` if it was encrypted with another server key.
    pub(super) fn open(cipher: &SecretCipher, key: &Arc<ApiKey>, digest: Digest, sealed: &str) -> Option<Self> {
        let Some(secret) = cipher.open(&signing_key_context(&key.id), sealed) else {
            tracing::error!(key = %key.id, "this signing key cannot be decrypted; was secret.key replaced?");
            return None;
        };
        Some(Self { key: Arc::clone(key), digest, mac: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()) })
    }

    #[must_use]
    pub fn id(&self) -> &KeyId {
        &self.key.id
    }

    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.key.is_expired(now) && self.key.has_secret(&self.digest, now)
    }

    #[must_use]
    pub fn caller(&self) -> Caller {
        caller_of(&self.key, AuthenticationMethod::Signature)
    }

    /// Whether one of `tags` is this key's HMAC-SHA256 over the concatenated parts. Compares in constant time.
    #[must_use]
    pub fn made(&self, tags: &[[u8; 32]], parts: &[&[u8]]) -> bool {
        let mut context = hmac::Context::with_key(&self.mac);
        parts.iter().for_each(|part| context.update(part));
        let right = context.sign();
        tags.iter().fold(false, |found, tag| found | bool::from(tag.as_slice().ct_eq(right.as_ref())))
    }
}

impl fmt::Debug for RequestSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestSigningKey({})", self.key.id)
    }
}

pub(super) fn caller_of(key: &ApiKey, authentication: AuthenticationMethod) -> Caller {
    Caller { principal: Principal::Key(key.id.clone()), person: key.person.clone(), request: None, authentication }
}

/// Name to which the encryption of a signing key's secret is bound.
pub(crate) fn signing_key_context(id: &(impl fmt::Display + ?Sized)) -> String {
    format!("keys/{id}")
}
