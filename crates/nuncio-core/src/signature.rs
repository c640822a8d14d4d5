//! Text forms of Ed25519 keys and signatures, and the signed bytes. Verification is behind [`SignatureChecker`]: the
//! core has no cryptography of its own.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, canonical};

pub trait SignatureChecker {
    /// Whether `signature` of `message` is valid under `key`.
    fn holds(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool;
}

impl<F: Fn(&PublicKey, &[u8], &Signature) -> bool> SignatureChecker for F {
    fn holds(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        self(key, message, signature)
    }
}

/// The bytes to sign: a label for the purpose and the canonical form of a value, so that a signature for one purpose
/// is invalid for another.
#[must_use]
pub fn labelled(label: &str, value: &impl Serialize) -> Vec<u8> {
    let mut message = format!("{label}\n").into_bytes();
    message.extend(canonical(value));
    message
}

/// A public Ed25519 key, serialised as 43 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Makes a public key. Refuses keys of small order, under which anyone can make a valid signature.
    pub fn new(bytes: [u8; 32]) -> Result<Self, InvalidPublicKey> {
        let mut y = bytes;
        y[31] &= 0x7f;
        if SMALL_ORDER.contains(&y) { Err(InvalidPublicKey::Weak) } else { Ok(Self(bytes)) }
    }

    /// Parses a public key in base64url; refuses other lengths and weak keys.
    pub fn parse(text: &str) -> Result<Self, InvalidPublicKey> {
        Self::new(decode(text).ok_or(InvalidPublicKey::NotAKey)?)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// SHA-256 of the public key, for display and comparison.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::of_bytes(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPublicKey {
    /// The text of a public key is not 32 bytes in base64url.
    #[error("an Ed25519 public key is 32 bytes in base64url without padding")]
    NotAKey,
    /// The public key is a point of small order, for which anyone could make a valid signature.
    #[error("this public key is weak: anyone could sign with it; create a new one")]
    Weak,
}

/// The Ed25519 points of small order, without their sign bit.
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

/// An Ed25519 signature, serialised as 86 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Signature([u8; 64]);

impl Signature {
    #[must_use]
    pub const fn new(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(Self)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Longer texts are refused without decoding.
    if text.len() > N * 2 {
        return None;
    }
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// Implements the text form of a key or signature: base64url without padding.
macro_rules! base64_form {
    ($name:ident, $parse:expr) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::signature::encode(&self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }

        $crate::string_form::string_form!($name, $parse);
    };
}

pub(crate) use base64_form;

base64_form!(PublicKey, |text| PublicKey::parse(text).map_err(|why| why.to_string()));
base64_form!(Signature, |text| Signature::parse(text)
    .ok_or_else(|| "an Ed25519 signature is 64 bytes in base64url without padding".to_owned()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_signatures_round_trip_through_unpadded_base64() {
        let key = PublicKey::new([9; 32]).unwrap();
        assert_eq!(PublicKey::parse(&key.to_string()), Ok(key));
        let signature = Signature::new([7; 64]);
        assert_eq!(Signature::parse(&signature.to_string()), Some(signature));
        for bad in ["", "AA", "!", &"A".repeat(86), &"A".repeat(10_000)] {
            assert_eq!(PublicKey::parse(bad), Err(InvalidPublicKey::NotAKey), "{bad}");
        }
        assert_eq!(Signature::parse(&"A".repeat(43)), None);
        // Padding would be a second text form of the same bytes.
        assert_eq!(PublicKey::parse(&format!("{key}=")), Err(InvalidPublicKey::NotAKey));
    }

    #[test]
    fn small_order_public_keys_are_refused() {
        for weak in SMALL_ORDER {
            assert_eq!(PublicKey::new(weak), Err(InvalidPublicKey::Weak));
            let mut signed = weak;
            signed[31] |= 0x80;
            assert_eq!(PublicKey::new(signed), Err(InvalidPublicKey::Weak));
        }
    }

    #[test]
    fn labelled_message_is_the_label_and_the_canonical_json() {
        let value = serde_json::json!({"b": 1, "a": 2});
        assert_eq!(labelled("x/v1", &value), b"x/v1\n{\"a\":2,\"b\":1}");
    }
}
