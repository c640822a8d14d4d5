//! Keys: Ed25519 to sign with; Ed25519, P-256 and secp256k1 to verify with.

mod method;
mod signing;
mod verifying;

pub use method::VerificationMethodKey;
pub use signing::SigningKey;
pub use verifying::{BadSignature, SignatureAlgorithm, VerifyingKey};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The bytes are not a point on the curve, or the point is weak.
    #[error("the bytes are not a usable {0} key")]
    Point(&'static str),
    #[error("{0} is not readable")]
    Encoding(&'static str),
    #[error("the JWK {0}")]
    Jwk(&'static str),
    /// The verification method has no key member, or more than one.
    #[error("a verification method has exactly one of publicKeyJwk, publicKeyMultibase and publicKeyBase58")]
    KeyFields,
    #[error("keys of type {0:?} are not supported")]
    Unsupported(String),
    #[error("not an Ed25519 private key in PKCS #8")]
    Pkcs8,
}
