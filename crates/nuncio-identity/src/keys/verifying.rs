//! Public keys, and verification of signatures.

use std::fmt;

use p256::elliptic_curve::sec1::ToSec1Point as _;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Map, Value, json};

use super::KeyError;
use crate::encoding::{base64url, base64url_exact, from_multibase, multibase};
use crate::jcs::sha256;

/// A public key that verifies signatures. The point is validated when it is parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey(PublicKeyKind);

#[derive(Clone, PartialEq, Eq)]
enum PublicKeyKind {
    /// The decompressed point, so that it is computed once for all signatures.
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
    /// The uncompressed point, the form ring needs.
    P256([u8; 65]),
    Secp256k1(Box<k256::ecdsa::VerifyingKey>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    Ed25519,
    /// ECDSA on P-256 with SHA-256; signatures are `r` and `s` of 32 bytes each.
    P256,
    /// ECDSA on secp256k1 with SHA-256; signatures are `r` and `s` of 32 bytes each.
    Secp256k1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not match")]
pub struct BadSignature;

/// Multicodec prefixes of public keys.
const ED25519_CODEC: [u8; 2] = [0xed, 0x01];
const P256_CODEC: [u8; 2] = [0x80, 0x24];
const SECP256K1_CODEC: [u8; 2] = [0xe7, 0x01];

impl VerifyingKey {
    /// Fails if the bytes are not a curve point, or are a weak point, for which almost any signature verifies.
    pub fn ed25519(bytes: &[u8]) -> Result<Self, KeyError> {
        let refused = KeyError::Point("Ed25519");
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| refused.clone())?;
        let point = ed25519_dalek::VerifyingKey::from_bytes(&bytes).map_err(|_| refused.clone())?;
        if point.is_weak() {
            return Err(refused);
        }
        Ok(Self(PublicKeyKind::Ed25519(Box::new(point))))
    }

    /// Parses a P-256 key from a compressed or uncompressed SEC1 point.
    pub fn p256(sec1: &[u8]) -> Result<Self, KeyError> {
        let key = p256::PublicKey::from_sec1_bytes(sec1).map_err(|_| KeyError::Point("P-256"))?;
        let point = key.to_sec1_point(false);
        Ok(Self(PublicKeyKind::P256(point.as_bytes().try_into().map_err(|_| KeyError::Point("P-256"))?)))
    }

    /// Parses a secp256k1 key from a compressed or uncompressed SEC1 point.
    pub fn secp256k1(sec1: &[u8]) -> Result<Self, KeyError> {
        let key = k256::ecdsa::VerifyingKey::from_sec1_bytes(sec1).map_err(|_| KeyError::Point("secp256k1"))?;
        Ok(Self(PublicKeyKind::Secp256k1(Box::new(key))))
    }

    /// Parses a JWK.
    ///
    /// # Errors
    /// The type or curve is not supported, a coordinate is not exactly 32 bytes, or the JWK contains a private key.
    pub fn from_jwk(jwk: &Map<String, Value>) -> Result<Self, KeyError> {
        if jwk.contains_key("d") {
            return Err(KeyError::Jwk("contains a private key (d)"));
        }
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let coordinate = |name: &str, fault| text(name).and_then(base64url_exact::<32>).ok_or(KeyError::Jwk(fault));
        let x = || coordinate("x", "needs x of 32 bytes in base64url");
        let point = || {
            let y = coordinate("y", "needs y of 32 bytes in base64url")?;
            Ok([[4].as_slice(), &x()?, &y].concat())
        };
        match (text("kty"), text("crv")) {
            (Some("OKP"), Some("Ed25519")) => Self::ed25519(&x()?),
            (Some("EC"), Some("P-256")) => Self::p256(&point()?),
            (Some("EC"), Some("secp256k1")) => Self::secp256k1(&point()?),
            _ => Err(KeyError::Jwk("is neither OKP/Ed25519 nor EC/P-256 nor EC/secp256k1")),
        }
    }

    /// Parses a Multikey: `z` and base58btc of a multicodec prefix and the key.
    pub fn from_multibase(text: &str) -> Result<Self, KeyError> {
        let bytes = from_multibase(text, 67).ok_or(KeyError::Encoding("publicKeyMultibase"))?;
        let (codec, key) = bytes.split_first_chunk::<2>().ok_or(KeyError::Encoding("publicKeyMultibase"))?;
        match *codec {
            ED25519_CODEC => Self::ed25519(key),
            P256_CODEC => Self::p256(key),
            SECP256K1_CODEC => Self::secp256k1(key),
            _ => Err(KeyError::Unsupported(format!("multicodec {:02x}{:02x}", codec[0], codec[1]))),
        }
    }

    #[must_use]
    pub fn to_multibase(&self) -> String {
        let compressed = |point: &[u8]| {
            let sign = 2 + (point[64] & 1);
            [[sign].as_slice(), &point[1..33]].concat()
        };
        let (codec, key) = match &self.0 {
            PublicKeyKind::Ed25519(key) => (ED25519_CODEC, key.to_bytes().to_vec()),
            PublicKeyKind::P256(point) => (P256_CODEC, compressed(point)),
            PublicKeyKind::Secp256k1(key) => (SECP256K1_CODEC, key.to_sec1_point(true).as_bytes().to_vec()),
        };
        multibase(&[codec.as_slice(), &key].concat())
    }

    /// The key as a JWK with only the members that enter the thumbprint.
    #[must_use]
    pub fn to_jwk(&self) -> Value {
        let ec = |curve: &str, point: &[u8]| json!({ "crv": curve, "kty": "EC", "x": base64url(&point[1..33]), "y": base64url(&point[33..65]) });
        match &self.0 {
            PublicKeyKind::Ed25519(key) => json!({ "crv": "Ed25519", "kty": "OKP", "x": base64url(key.as_bytes()) }),
            PublicKeyKind::P256(point) => ec("P-256", point),
            PublicKeyKind::Secp256k1(key) => ec("secp256k1", key.to_sec1_point(false).as_bytes()),
        }
    }

    /// RFC 7638 thumbprint in base64url.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        base64url(&self.thumbprint_bytes())
    }

    #[must_use]
    pub fn thumbprint_bytes(&self) -> [u8; 32] {
        // The thumbprint input is the canonical JSON of exactly these members.
        sha256(&crate::jcs::canonical(&self.to_jwk()))
    }

    #[must_use]
    pub const fn algorithm(&self) -> SignatureAlgorithm {
        match self.0 {
            PublicKeyKind::Ed25519(_) => SignatureAlgorithm::Ed25519,
            PublicKeyKind::P256(_) => SignatureAlgorithm::P256,
            PublicKeyKind::Secp256k1(_) => SignatureAlgorithm::Secp256k1,
        }
    }

    /// Verifies a signature. For ECDSA, low and high `s` are accepted and DER encoding is not.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        match &self.0 {
            PublicKeyKind::Ed25519(key) => {
                use ed25519_dalek::Verifier as _;
                let signature = ed25519_dalek::Signature::from_slice(signature).map_err(|_| BadSignature)?;
                key.verify(message, &signature).map_err(|_| BadSignature)
            }
            PublicKeyKind::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .map_err(|_| BadSignature),
            PublicKeyKind::Secp256k1(key) => {
                use k256::ecdsa::signature::Verifier as _;
                let signature = k256::ecdsa::Signature::from_slice(signature).map_err(|_| BadSignature)?;
                key.verify(message, &signature.normalize_s()).map_err(|_| BadSignature)
            }
        }
    }
}

impl SignatureAlgorithm {
    /// Returns whether an `alg` parameter matches this algorithm. secp256k1 has no registered name, so any name that
    /// contains `secp256k1` is accepted.
    pub(crate) fn answers_to(self, name: &str) -> bool {
        match self {
            Self::Ed25519 => name == "ed25519",
            Self::P256 => name == "ecdsa-p256-sha256",
            Self::Secp256k1 => name.contains("secp256k1"),
        }
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_multibase())
    }
}
