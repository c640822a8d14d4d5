//! The key under which a device encrypts its storage, and the file that holds that key in wrapped form.
//!
//! Records are encrypted under a random [`StorageKey`], which is stored only wrapped under a [`WrappingKey`] from one
//! of the [`WrappingKeySource`]s. Changing the source re-wraps one key and no record.

use std::path::PathBuf;

use nuncio_core::opaque_debug;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::backup::{Argon2Params, KeyBackupError, SHORTEST, derive};
use super::cipher::{self, NONCE, TAG};
use crate::encoding::{base64url, base64url_exact};

/// Associated data of a wrapped storage key.
const WRAP_LABEL: &[u8] = b"nuncio/storage-key/v1";
/// Length of a wrapped storage key, in bytes.
const WRAPPED: usize = 32 + TAG + NONCE;
/// Length of the Argon2 salt, in bytes.
const SALT: usize = 32;

/// Key that encrypts records; each ciphertext is bound to the record's name.
pub struct StorageKey(Zeroizing<[u8; 32]>);

impl StorageKey {
    #[must_use]
    pub fn random() -> Self {
        Self(Zeroizing::new(cipher::random()))
    }

    /// Derives the key for one purpose from a server secret.
    #[must_use]
    pub fn derived(secret: &[u8; 32], purpose: &str) -> Self {
        let message = format!("nuncio/derived-storage-key/v1\n{purpose}");
        let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret), message.as_bytes());
        Self(Zeroizing::new(tag.as_ref().try_into().expect("an HMAC-SHA256 has 32 bytes")))
    }

    #[must_use]
    pub fn seal(&self, name: &str, value: &[u8]) -> Vec<u8> {
        cipher::seal(&self.0, format!("nuncio/storage/v1\n{name}").as_bytes(), value)
    }

    /// Decrypts the record of that name; `None` if the key is wrong, or the record was changed or moved to another
    /// name.
    #[must_use]
    pub fn open(&self, name: &str, sealed: Vec<u8>) -> Option<Vec<u8>> {
        cipher::open(&self.0, format!("nuncio/storage/v1\n{name}").as_bytes(), sealed)
    }
}

opaque_debug!(StorageKey);

/// Key that wraps a [`StorageKey`]; it must not be stored beside the records.
pub struct WrappingKey(Zeroizing<[u8; 32]>);

impl WrappingKey {
    #[must_use]
    pub fn random() -> Self {
        Self(Zeroizing::new(cipher::random()))
    }

    /// Writes the key in base64url, for a keyring or a file.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(base64url(self.0.as_slice()))
    }

    /// Parses the text that [`WrappingKey::to_text`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        base64url_exact(text).map(|key| Self(Zeroizing::new(key)))
    }

    /// Derives a key from a new passphrase with a new salt.
    ///
    /// # Errors
    /// The passphrase is too short.
    pub fn from_new_passphrase(passphrase: &str) -> Result<(Self, WrappingKeySource), KeyBackupError> {
        if passphrase.chars().count() < SHORTEST {
            return Err(KeyBackupError::Short);
        }
        let (salt, argon2) = (cipher::random::<SALT>(), Argon2Params::RECOMMENDED);
        let key = derive(argon2, passphrase, &salt)?;
        Ok((Self(key), WrappingKeySource::Passphrase { salt: base64url(&salt), argon2 }))
    }

    /// Derives the key of an existing passphrase.
    ///
    /// # Errors
    /// The salt or the parameters are invalid.
    pub fn from_passphrase(passphrase: &str, salt: &str, argon2: Argon2Params) -> Result<Self, KeyBackupError> {
        let salt = base64url_exact(salt).ok_or(KeyBackupError::Damaged)?;
        derive(argon2, passphrase, &salt).map(Self)
    }
}

opaque_debug!(WrappingKey);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum WrappingKeySource {
    /// The keyring of the operating system.
    Keyring {
        /// Attribute by which the keyring item is found.
        id: String,
    },
    /// A passphrase from which Argon2id derives the wrapping key.
    Passphrase {
        /// Argon2 salt of 32 bytes, in base64url.
        salt: String,
        argon2: Argon2Params,
    },
    /// A separate file with the wrapping key.
    File { path: PathBuf },
}

/// A storage key in its file format, stored beside the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrappedStorageKey {
    /// Format version, always 1.
    version: u32,
    pub source: WrappingKeySource,
    /// The wrapped storage key in base64url.
    wrapped: String,
}

impl WrappedStorageKey {
    #[must_use]
    pub fn new(key: &StorageKey, by: &WrappingKey, source: WrappingKeySource) -> Self {
        Self { version: 1, source, wrapped: base64url(&cipher::seal(&by.0, WRAP_LABEL, key.0.as_slice())) }
    }

    /// Unwraps the storage key; `None` if the wrapping key is wrong, or the file was changed.
    #[must_use]
    pub fn unwrap_with(&self, by: &WrappingKey) -> Option<StorageKey> {
        let wrapped: [u8; WRAPPED] = base64url_exact(&self.wrapped).filter(|_| self.version == 1)?;
        let key = Zeroizing::new(cipher::open(&by.0, WRAP_LABEL, wrapped.to_vec())?);
        <[u8; 32]>::try_from(key.as_slice()).ok().map(|key| StorageKey(Zeroizing::new(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_record_opens_only_under_its_name_and_key() {
        let (key, other) = (StorageKey::random(), StorageKey::random());
        for value in [&b""[..], b"a secret"] {
            let sealed = key.seal("talk/1", value);
            assert_eq!(key.open("talk/1", sealed.clone()).as_deref(), Some(value));
            assert_eq!(key.open("talk/2", sealed.clone()), None);
            assert_eq!(other.open("talk/1", sealed.clone()), None);
            for place in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[place] ^= 1;
                assert_eq!(key.open("talk/1", changed), None);
            }
            assert_eq!(key.open("talk/1", sealed[..sealed.len().min(11)].to_vec()), None);
        }
        assert_ne!(key.seal("a", b"x"), key.seal("a", b"x"));
    }

    #[test]
    fn derived_storage_key_depends_only_on_secret_and_purpose() {
        let sealed = StorageKey::derived(&[1; 32], "seals/a").seal("talk/1", b"x");
        assert_eq!(StorageKey::derived(&[1; 32], "seals/a").open("talk/1", sealed.clone()).unwrap(), b"x");
        for other in [StorageKey::derived(&[2; 32], "seals/a"), StorageKey::derived(&[1; 32], "seals/b")] {
            assert_eq!(other.open("talk/1", sealed.clone()), None);
        }
    }

    #[test]
    fn storage_key_unwraps_only_with_the_same_passphrase() {
        assert_eq!(WrappingKey::from_new_passphrase("too short").unwrap_err(), KeyBackupError::Short);
        let (by, source) = WrappingKey::from_new_passphrase("correct horse battery").unwrap();
        let key = StorageKey::random();
        let file = serde_json::to_string(&WrappedStorageKey::new(&key, &by, source)).unwrap();
        let wrapped: WrappedStorageKey = serde_json::from_str(&file).unwrap();
        let WrappingKeySource::Passphrase { salt, argon2 } = &wrapped.source else { panic!("{file}") };
        let right = WrappingKey::from_passphrase("correct horse battery", salt, *argon2).unwrap();
        let sealed = key.seal("a", b"x");
        assert_eq!(wrapped.unwrap_with(&right).unwrap().open("a", sealed).unwrap(), b"x");
        let wrong = WrappingKey::from_passphrase("another horse battery", salt, *argon2).unwrap();
        assert!(wrapped.unwrap_with(&wrong).is_none());
        assert_eq!(WrappingKey::from_passphrase("x", "no salt", *argon2).unwrap_err(), KeyBackupError::Damaged);
    }

    #[test]
    fn wrapping_key_round_trips_through_text() {
        let (by, key) = (WrappingKey::random(), StorageKey::random());
        let read = WrappingKey::parse(&by.to_text()).unwrap();
        let wrapped = WrappedStorageKey::new(&key, &by, WrappingKeySource::File { path: "/a".into() });
        assert!(wrapped.unwrap_with(&read).is_some());
        for wrong in ["", "AAAA", "not base64!"] {
            assert!(WrappingKey::parse(wrong).is_none(), "{wrong}");
        }
    }
}
