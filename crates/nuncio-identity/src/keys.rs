//! Keys: Ed25519 to sign with; Ed25519, P-256 and secp256k1 to verify with.

mod method;
mod signing;
mod verifying;

pub use method::MethodKey;
pub use signing::SigningKey;
pub use verifying::{Algorithm, BadSignature, VerifyingKey};

/// What is wrong with a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The bytes are no point on the curve, or one that verifies anything.
    #[error("the bytes are no usable {0} key")]
    Point(&'static str),
    /// The text is not in the encoding it should be in.
    #[error("{0} is not readable")]
    Encoding(&'static str),
    /// A JWK has another shape than its type wants.
    #[error("the JWK {0}")]
    Jwk(&'static str),
    /// A verification method has no key, or more than one.
    #[error("a verification method has exactly one of publicKeyJwk, publicKeyMultibase and publicKeyBase58")]
    KeyFields,
    /// A key of a kind that is not known here.
    #[error("keys of type {0:?} are not supported")]
    Unsupported(String),
    /// The private key is not PKCS #8 of Ed25519.
    #[error("not an Ed25519 private key in PKCS #8")]
    Pkcs8,
}

impl KeyError {
    /// The stable word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Point(_) => "key_point_invalid",
            Self::Encoding(_) => "key_encoding_invalid",
            Self::Jwk(_) => "key_jwk_invalid",
            Self::KeyFields => "key_fields_invalid",
            Self::Unsupported(_) => "key_type_unsupported",
            Self::Pkcs8 => "key_pkcs8_invalid",
        }
    }
}
