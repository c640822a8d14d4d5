//! Reads the key of a verification method, for every type that ANP's SDK writes (ANP-03 §2.3).

use serde_json::{Map, Value};

use super::{KeyError, VerifyingKey};
use crate::encoding::{from_base58, from_multibase};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerificationMethodKey {
    Verifying(VerifyingKey),
    /// An X25519 public key for key agreement.
    Agreement([u8; 32]),
    /// A key that cannot be used, and why. Other keys of the document stay usable.
    Unusable(KeyError),
}

impl VerificationMethodKey {
    #[must_use]
    pub fn read(kind: &str, method: &Map<String, Value>) -> Self {
        if kind == "X25519KeyAgreementKey2019" {
            return agreement(method).map_or_else(Self::Unusable, Self::Agreement);
        }
        verifying(kind, method).map_or_else(Self::Unusable, Self::Verifying)
    }
}

/// The member of a verification method that holds the key.
enum VerificationMethodKeyField<'a> {
    Jwk(&'a Map<String, Value>),
    Multibase(&'a str),
    Base58(&'a str),
}

fn key_field(method: &Map<String, Value>) -> Result<VerificationMethodKeyField<'_>, KeyError> {
    let text = |name| method.get(name).map(|value| value.as_str().ok_or(KeyError::KeyFields)).transpose();
    let jwk = method.get("publicKeyJwk").map(|value| value.as_object().ok_or(KeyError::KeyFields)).transpose()?;
    match (jwk, text("publicKeyMultibase")?, text("publicKeyBase58")?) {
        (Some(jwk), None, None) => Ok(VerificationMethodKeyField::Jwk(jwk)),
        (None, Some(text), None) => Ok(VerificationMethodKeyField::Multibase(text)),
        (None, None, Some(text)) => Ok(VerificationMethodKeyField::Base58(text)),
        _ => Err(KeyError::KeyFields),
    }
}

fn verifying(kind: &str, method: &Map<String, Value>) -> Result<VerifyingKey, KeyError> {
    let field = key_field(method)?;
    match kind {
        "Multikey" | "Ed25519VerificationKey2018" | "Ed25519VerificationKey2020" => ed25519_or_prefixed(kind, &field),
        "JsonWebKey2020" => match field {
            VerificationMethodKeyField::Jwk(jwk) if jwk.get("kty").is_some_and(|kty| kty == "OKP") => {
                VerifyingKey::from_jwk(jwk)
            }
            VerificationMethodKeyField::Jwk(_) => Err(KeyError::Jwk("of a JsonWebKey2020 must be OKP/Ed25519")),
            VerificationMethodKeyField::Multibase(_) | VerificationMethodKeyField::Base58(_) => {
                Err(KeyError::KeyFields)
            }
        },
        "EcdsaSecp256k1VerificationKey2019" => elliptic(&field, super::SignatureAlgorithm::Secp256k1),
        "EcdsaSecp256r1VerificationKey2019" => elliptic(&field, super::SignatureAlgorithm::P256),
        _ => Err(KeyError::Unsupported(kind.to_owned())),
    }
}

/// Parses an Ed25519 key with or without its multicodec prefix. A prefixed `Multikey` may be of another curve.
fn ed25519_or_prefixed(kind: &str, field: &VerificationMethodKeyField<'_>) -> Result<VerifyingKey, KeyError> {
    let key = match *field {
        VerificationMethodKeyField::Jwk(jwk) => VerifyingKey::from_jwk(jwk)?,
        VerificationMethodKeyField::Multibase(text) => match from_multibase(text, 67) {
            Some(bytes) if bytes.len() == 32 => VerifyingKey::ed25519(&bytes)?,
            _ => VerifyingKey::from_multibase(text)?,
        },
        VerificationMethodKeyField::Base58(text) => {
            VerifyingKey::ed25519(&from_base58(text, 32).ok_or(KeyError::Encoding("publicKeyBase58"))?)?
        }
    };
    if kind != "Multikey" && key.algorithm() != super::SignatureAlgorithm::Ed25519 {
        return Err(KeyError::Point("Ed25519"));
    }
    Ok(key)
}

/// Parses a key of an ECDSA curve: a JWK, or a point with or without its multicodec prefix.
fn elliptic(
    field: &VerificationMethodKeyField<'_>,
    curve: super::SignatureAlgorithm,
) -> Result<VerifyingKey, KeyError> {
    let bare = |bytes: &[u8]| match curve {
        super::SignatureAlgorithm::P256 => VerifyingKey::p256(bytes),
        _ => VerifyingKey::secp256k1(bytes),
    };
    let key = match *field {
        VerificationMethodKeyField::Jwk(jwk) => VerifyingKey::from_jwk(jwk)?,
        VerificationMethodKeyField::Multibase(text) => match from_multibase(text, 67) {
            Some(bytes) if matches!(bytes.len(), 33 | 65) => bare(&bytes)?,
            _ => VerifyingKey::from_multibase(text)?,
        },
        VerificationMethodKeyField::Base58(text) => {
            bare(&from_base58(text, 65).ok_or(KeyError::Encoding("publicKeyBase58"))?)?
        }
    };
    if key.algorithm() != curve {
        return Err(KeyError::Jwk("is for another curve than its type requires"));
    }
    Ok(key)
}

/// Parses an X25519 key of 32 bytes, with or without its multicodec prefix.
fn agreement(method: &Map<String, Value>) -> Result<[u8; 32], KeyError> {
    let bytes = match key_field(method)? {
        VerificationMethodKeyField::Jwk(_) => {
            return Err(KeyError::Jwk("of an X25519KeyAgreementKey2019 is not supported"));
        }
        VerificationMethodKeyField::Multibase(text) => {
            from_multibase(text, 34).ok_or(KeyError::Encoding("publicKeyMultibase"))?
        }
        VerificationMethodKeyField::Base58(text) => {
            from_base58(text, 32).ok_or(KeyError::Encoding("publicKeyBase58"))?
        }
    };
    let key = if bytes.len() == 34 { bytes.strip_prefix(&[0xec, 0x01]).unwrap_or(&bytes) } else { &bytes };
    key.try_into().map_err(|_| KeyError::Point("X25519"))
}
