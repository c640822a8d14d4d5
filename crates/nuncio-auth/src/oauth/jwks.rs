//! An issuer's public keys (RFC 7517), and checking signatures with them (RFC 7518, RFC 8037).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::Value;

use crate::settings::TokenSignatureAlgorithm;

/// Number of keys that an issuer may publish.
const MAX_KEYS: usize = 64;

/// The signature keys of an issuer that have a supported type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IssuerKeys(Vec<VerificationKey>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct VerificationKey {
    id: Option<String>,
    /// The only algorithm that the key may be used with (`alg`), if set.
    only: Option<String>,
    material: KeyMaterial,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyMaterial {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JwtSignatureCheckResult {
    Good,
    /// The key that the token names did not make the signature.
    Bad,
    /// No key of the set verifies the signature; a newer set may contain the key.
    Unknown,
}

#[derive(Deserialize)]
struct JwksDocument {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl IssuerKeys {
    /// Parses a JWK set. Keys of unsupported types and keys for other uses are left out.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let document: JwksDocument =
            serde_json::from_slice(bytes).map_err(|error| format!("not a JWK set: {error}"))?;
        if document.keys.len() > MAX_KEYS {
            return Err(format!("it publishes {} keys; at most {MAX_KEYS} are used", document.keys.len()));
        }
        let keys = document.keys.into_iter().filter_map(|key| VerificationKey::read(serde_json::from_value(key).ok()?));
        Ok(Self(keys.collect()))
    }

    /// Whether every key of this set is also in `others`.
    pub(super) fn is_subset_of(&self, others: &Self) -> bool {
        self.0.iter().all(|key| others.0.contains(key))
    }

    /// Verifies a signature with the key `id`, or with any key if `id` is `None`.
    pub(super) fn verify(
        &self,
        algorithm: TokenSignatureAlgorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> JwtSignatureCheckResult {
        let mut seen = false;
        let fitting = self.0.iter().filter(|key| key.fits(algorithm));
        for key in fitting.filter(|key| id.is_none() || key.id.as_deref() == id) {
            seen = true;
            if key.verify(algorithm, message, signature) {
                return JwtSignatureCheckResult::Good;
            }
        }
        if seen && id.is_some() { JwtSignatureCheckResult::Bad } else { JwtSignatureCheckResult::Unknown }
    }
}

impl VerificationKey {
    fn read(jwk: Jwk) -> Option<Self> {
        let for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return None;
        }
        let field = |field: &Option<String>| URL_SAFE_NO_PAD.decode(field.as_deref()?).ok();
        let point = |length: usize| {
            let (x, y) = (field(&jwk.x)?, field(&jwk.y)?);
            (x.len() == length && y.len() == length).then(|| [&[4], x.as_slice(), &y].concat())
        };
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                KeyMaterial::Rsa { n: without_leading_zeros(field(&jwk.n)?), e: without_leading_zeros(field(&jwk.e)?) }
            }
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(field(&jwk.x)?),
            _ => return None,
        };
        Some(Self { id: jwk.kid, only: jwk.alg, material })
    }

    /// Whether the key has the type that the algorithm needs, and its `alg` permits it. Without this check a public key
    /// could be used as a shared secret.
    fn fits(&self, algorithm: TokenSignatureAlgorithm) -> bool {
        use TokenSignatureAlgorithm as A;
        let has_type = matches!(
            (algorithm, &self.material),
            (A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512, KeyMaterial::Rsa { .. })
                | (A::Es256, KeyMaterial::P256(_))
                | (A::Es384, KeyMaterial::P384(_))
                | (A::EdDsa, KeyMaterial::Ed25519(_))
        );
        has_type && self.only.as_deref().is_none_or(|only| TokenSignatureAlgorithm::parse(only) == Some(algorithm))
    }

    fn verify(&self, algorithm: TokenSignatureAlgorithm, message: &[u8], tag: &[u8]) -> bool {
        let rsa = match algorithm {
            TokenSignatureAlgorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            TokenSignatureAlgorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            TokenSignatureAlgorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            TokenSignatureAlgorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            TokenSignatureAlgorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => &signature::RSA_PSS_2048_8192_SHA256,
        };
        let (curve, point): (&'static dyn VerificationAlgorithm, _) = match &self.material {
            KeyMaterial::Rsa { n, e } => return RsaPublicKeyComponents { n, e }.verify(rsa, message, tag).is_ok(),
            KeyMaterial::P256(point) => (&signature::ECDSA_P256_SHA256_FIXED, point),
            KeyMaterial::P384(point) => (&signature::ECDSA_P384_SHA384_FIXED, point),
            KeyMaterial::Ed25519(point) => (&signature::ED25519, point),
        };
        UnparsedPublicKey::new(curve, point).verify(message, tag).is_ok()
    }
}

impl TokenSignatureAlgorithm {
    pub(super) fn parse(name: &str) -> Option<Self> {
        use serde::de::IntoDeserializer;
        use serde::de::value::Error;
        Self::deserialize(IntoDeserializer::<Error>::into_deserializer(name)).ok()
    }
}

/// Removes leading zeros of a big-endian number, which some issuers write and `ring` refuses.
fn without_leading_zeros(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    fn encode(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn set(keys: &Value) -> IssuerKeys {
        IssuerKeys::parse(json!({"keys": keys}).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn signature_is_accepted_only_with_the_key_and_algorithm_that_made_it() {
        let random = SystemRandom::new();
        let pair = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &random).unwrap();
        let point = ec.public_key().as_ref();
        let keys = set(&json!([
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encode(pair.public_key().as_ref())},
            {"kty": "EC", "crv": "P-256", "kid": "ec", "x": encode(&point[1..33]), "y": encode(&point[33..])},
        ]));
        let by_ed = pair.sign(b"message");
        let by_ec = ec.sign(&random, b"message").unwrap();
        let (ed, ec) = (by_ed.as_ref(), by_ec.as_ref());
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::EdDsa, Some("ed"), b"message", ed),
            JwtSignatureCheckResult::Good
        );
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::EdDsa, None, b"message", ed),
            JwtSignatureCheckResult::Good,
            "a token without a key id is accepted"
        );
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::Es256, Some("ec"), b"message", ec),
            JwtSignatureCheckResult::Good
        );
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::EdDsa, Some("ed"), b"massage", ed),
            JwtSignatureCheckResult::Bad
        );
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::EdDsa, Some("ed"), b"message", ec),
            JwtSignatureCheckResult::Bad
        );
        assert_eq!(keys.verify(TokenSignatureAlgorithm::EdDsa, None, b"massage", ed), JwtSignatureCheckResult::Unknown);
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::Es256, Some("ed"), b"message", ed),
            JwtSignatureCheckResult::Unknown,
            "a key of another kind"
        );
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::Rs256, Some("ed"), b"message", ed),
            JwtSignatureCheckResult::Unknown
        );
        assert_eq!(
            keys.verify(TokenSignatureAlgorithm::EdDsa, Some("new"), b"message", ed),
            JwtSignatureCheckResult::Unknown
        );
        for broken in [&b""[..], &ed[..63], &[0; 64]] {
            assert_eq!(
                keys.verify(TokenSignatureAlgorithm::EdDsa, Some("ed"), b"message", broken),
                JwtSignatureCheckResult::Bad
            );
        }
    }

    #[test]
    fn keys_for_other_uses_or_of_unsupported_types_are_ignored() {
        let x = encode(&[1; 32]);
        let other = set(&json!([
            {"kty": "OKP", "crv": "Ed25519", "x": x, "use": "enc"},
            {"kty": "OKP", "crv": "Ed25519", "x": x, "key_ops": ["sign"]},
            {"kty": "OKP", "crv": "X25519", "x": x},
            {"kty": "EC", "crv": "P-256", "x": x, "y": encode(&[1; 31])},
            {"kty": "EC", "crv": "secp256k1", "x": x, "y": x},
            {"kty": "oct", "k": x},
            {"kty": "RSA", "e": "AQAB"},
            {"kty": 7},
            "text",
        ]));
        assert_eq!(other, set(&json!([])));
        let one = set(&json!([{"kty": "OKP", "crv": "Ed25519", "x": x, "use": "sig", "alg": "Ed25519"}]));
        assert!(one.0[0].fits(TokenSignatureAlgorithm::EdDsa) && !one.0[0].fits(TokenSignatureAlgorithm::Es256));
        assert!(other.is_subset_of(&one) && !one.is_subset_of(&other));
    }

    #[test]
    fn key_set_that_is_malformed_or_has_too_many_keys_is_refused() {
        let keys = vec![json!({"kty": "oct"}); MAX_KEYS + 1];
        assert!(IssuerKeys::parse(json!({"keys": keys}).to_string().as_bytes()).unwrap_err().contains("65 keys"));
        for wrong in ["", "[]", "{}", "{\"keys\":{}}"] {
            assert!(IssuerKeys::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
