//! Ed25519 keys and signatures as they are written, and what is signed. Checking one is somebody else's
//! work: the core computes no curves.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, canonical};

/// Checks signatures.
pub trait CheckSignature {
    /// Whether the holder of `key` signed `message`.
    fn holds(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool;
}

impl<F: Fn(&PublicKey, &[u8], &Signature) -> bool> CheckSignature for F {
    fn holds(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        self(key, message, signature)
    }
}

/// What is signed: a label that says what it is for, and the canonical form of a value. A signature for
/// one purpose is worth nothing for another.
#[must_use]
pub fn labelled(label: &str, value: &impl Serialize) -> Vec<u8> {
    let mut message = format!("{label}\n").into_bytes();
    message.extend(canonical(value));
    message
}

/// The public half of an Ed25519 key, written as 43 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads 32 bytes.
    ///
    /// # Errors
    /// It is one of the few keys under which anyone can sign anything.
    pub fn new(bytes: [u8; 32]) -> Result<Self, InvalidKey> {
        let mut y = bytes;
        y[31] &= 0x7f;
        if SMALL_ORDER.contains(&y) { Err(InvalidKey::Weak) } else { Ok(Self(bytes)) }
    }

    /// Reads the written form.
    ///
    /// # Errors
    /// It is not 32 bytes in base64url, or a weak key.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        Self::new(decode(text).ok_or(InvalidKey::NotAKey)?)
    }

    /// The key's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A digest to show and to compare.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::of_bytes(&self.0)
    }
}

/// Why a text is no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// It is not written as one.
    #[error("an Ed25519 public key is 32 bytes in base64url without padding")]
    NotAKey,
    /// Anyone could sign with it.
    #[error("this public key is weak: anyone could sign with it; make a new one")]
    Weak,
}

/// The points of small order, without their sign bit.
const SMALL_ORDER: [[u8; 32]; 7] = {
    const fn ends(first: u8, filler: u8, last: u8) -> [u8; 32] {
        let mut bytes = [filler; 32];
        bytes[0] = first;
        bytes[31] = last;
        bytes
    }
    [
        ends(0, 0, 0),
        ends(1, 0, 0),
        [
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
            0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
        ],
        [
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
            0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
        ],
        ends(0xec, 0xff, 0x7f),
        ends(0xed, 0xff, 0x7f),
        ends(0xee, 0xff, 0x7f),
    ]
};

/// An Ed25519 signature, written as 86 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Signature([u8; 64]);

impl Signature {
    /// A signature of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// Reads the written form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(Self)
    }

    /// The signature's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Longer texts are not even looked at.
    if text.len() > N * 2 {
        return None;
    }
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

macro_rules! written {
    ($name:ident, $read:expr) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> Self {
                it.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                $read(&text)
            }
        }
    };
}

written!(PublicKey, |text: &str| PublicKey::parse(text).map_err(|why| why.to_string()));
written!(Signature, |text: &str| Signature::parse(text)
    .ok_or_else(|| "an Ed25519 signature is 64 bytes in base64url without padding".to_owned()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_signatures_are_read_back_as_written() {
        let key = PublicKey::new([9; 32]).unwrap();
        assert_eq!(PublicKey::parse(&key.to_string()), Ok(key));
        let signature = Signature::new([7; 64]);
        assert_eq!(Signature::parse(&signature.to_string()), Some(signature));
        for bad in ["", "AA", "!", &"A".repeat(86), &"A".repeat(10_000)] {
            assert_eq!(PublicKey::parse(bad), Err(InvalidKey::NotAKey), "{bad}");
        }
        assert_eq!(Signature::parse(&"A".repeat(43)), None);
        // Padding is another writing of the same bytes: there is one writing.
        assert_eq!(PublicKey::parse(&format!("{key}=")), Err(InvalidKey::NotAKey));
    }

    #[test]
    fn keys_under_which_anyone_can_sign_are_refused() {
        for weak in SMALL_ORDER {
            assert_eq!(PublicKey::new(weak), Err(InvalidKey::Weak));
            let mut signed = weak;
            signed[31] |= 0x80;
            assert_eq!(PublicKey::new(signed), Err(InvalidKey::Weak));
        }
    }

    #[test]
    fn a_label_separates_purposes() {
        let value = serde_json::json!({"b": 1, "a": 2});
        assert_eq!(labelled("x/v1", &value), b"x/v1\n{\"a\":2,\"b\":1}");
    }
}
