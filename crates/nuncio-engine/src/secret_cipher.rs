//! Encryption of stored secrets: AES-256-GCM with the server's key, bound to the name of the record with the secret.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::ports::Entropy;

/// Encrypts and decrypts stored secrets. Clones share the keys.
#[derive(Clone)]
pub struct SecretCipher {
    /// The current key, then those that it replaced in this process.
    keys: Arc<RwLock<Vec<Arc<CipherKey>>>>,
}

struct CipherKey {
    bytes: [u8; KEY_BYTES],
    key: LessSafeKey,
}

/// Length of the server's encryption key, in bytes.
pub const KEY_BYTES: usize = 32;

impl CipherKey {
    fn new(bytes: &[u8; KEY_BYTES]) -> Arc<Self> {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("the key has the algorithm's length");
        Arc::new(Self { bytes: *bytes, key: LessSafeKey::new(key) })
    }

    fn seal(&self, entropy: &dyn Entropy, place: &str, secret: &str) -> String {
        let mut nonce = [0_u8; NONCE_LEN];
        entropy.fill(&mut nonce);
        let mut sealed = secret.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), &mut sealed)
            .expect("a secret is far shorter than the algorithm's limit");
        STANDARD_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
    }

    fn open(&self, place: &str, sealed: &str) -> Option<String> {
        let bytes = STANDARD_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let clear = self.key.open_in_place(nonce, Aad::from(place), &mut sealed).ok()?;
        String::from_utf8(clear.to_vec()).ok()
    }
}

impl SecretCipher {
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self { keys: Arc::new(RwLock::new(vec![CipherKey::new(key)])) }
    }

    /// Encrypts under `key` from now on. What the earlier keys encrypted can still be read.
    pub fn replace_key(&self, key: &[u8; KEY_BYTES]) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.first().is_none_or(|current| current.bytes != *key) {
            keys.insert(0, CipherKey::new(key));
        }
    }

    /// Whether the key was replaced in this process.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.keys().len() > 1
    }

    /// Encrypts a secret so that it opens only for `place`, the name of its record, such as a session's option.
    #[must_use]
    pub fn seal(&self, entropy: &dyn Entropy, place: &str, secret: &str) -> String {
        self.keys()[0].seal(entropy, place, secret)
    }

    /// Decrypts a secret; `None` if it was changed or encrypted for another `place` or with another key.
    #[must_use]
    pub fn open(&self, place: &str, sealed: &str) -> Option<String> {
        self.keys().iter().find_map(|key| key.open(place, sealed))
    }

    /// Encrypts under the current key what an earlier one encrypted; `None` if the current key did, or none of them.
    #[must_use]
    pub fn reseal(&self, entropy: &dyn Entropy, place: &str, sealed: &str) -> Option<String> {
        let keys = self.keys();
        let (current, earlier) = keys.split_first()?;
        if current.open(place, sealed).is_some() {
            return None;
        }
        let secret = earlier.iter().find_map(|key| key.open(place, sealed))?;
        Some(current.seal(entropy, place, &secret))
    }

    fn keys(&self) -> Vec<Arc<CipherKey>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for SecretCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretCipher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct FixedEntropy;

    impl Entropy for FixedEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    #[test]
    fn sealed_secret_opens_only_with_its_key_and_record_name() {
        let cipher = SecretCipher::new(&[1; KEY_BYTES]);
        let sealed = cipher.seal(&FixedEntropy, "ses_1/apiKey", "sk-123");
        assert!(!sealed.contains("sk-123"));
        assert_eq!(cipher.open("ses_1/apiKey", &sealed).as_deref(), Some("sk-123"));
        assert_eq!(cipher.open("ses_2/apiKey", &sealed), None);
        assert_eq!(SecretCipher::new(&[2; KEY_BYTES]).open("ses_1/apiKey", &sealed), None);
        assert_eq!(cipher.open("ses_1/apiKey", &sealed.replace(&sealed[20..22], "zz")), None);
        assert_eq!(cipher.open("ses_1/apiKey", ""), None);
    }

    #[test]
    fn replaced_key_opens_what_it_sealed_and_only_that_is_sealed_again() {
        let (old, cipher) = (SecretCipher::new(&[1; KEY_BYTES]), SecretCipher::new(&[1; KEY_BYTES]));
        let sealed = cipher.seal(&FixedEntropy, "a", "secret");
        assert!(!cipher.is_replaced());
        assert_eq!(cipher.reseal(&FixedEntropy, "a", &sealed), None);
        cipher.replace_key(&[2; KEY_BYTES]);
        cipher.replace_key(&[2; KEY_BYTES]);
        assert!(cipher.is_replaced());
        assert_eq!(cipher.open("a", &sealed).as_deref(), Some("secret"));
        let again = cipher.reseal(&FixedEntropy, "a", &sealed).unwrap();
        assert_eq!(SecretCipher::new(&[2; KEY_BYTES]).open("a", &again).as_deref(), Some("secret"));
        assert_eq!(old.open("a", &again), None);
        assert_eq!(cipher.reseal(&FixedEntropy, "a", &again), None);
        assert_eq!(cipher.reseal(&FixedEntropy, "b", &sealed), None, "it was sealed for another record");
    }
}
