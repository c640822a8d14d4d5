//! Authentication errors with the codes of ANP-02 §3.

use crate::did::Did;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidAuthError {
    #[error("no credentials: sign the request, or send a token that this server issued")]
    Missing,
    /// The credentials are malformed.
    #[error("{0}")]
    Request(String),
    /// The nonce is missing or was used before.
    #[error("{0}")]
    Nonce(&'static str),
    /// The signature is too old, dated in the future, or expired.
    #[error("{0}")]
    Timestamp(&'static str),
    /// The DID is malformed or has no document, or the document does not belong to the DID.
    #[error("{0}")]
    Did(String),
    #[error("{0}")]
    Signature(&'static str),
    /// The named key is malformed, missing from the DID document, or unusable.
    #[error("{0}")]
    VerificationMethod(String),
    /// The DID document lists the key, but not under `authentication`.
    #[error("the key {0} is not listed under authentication")]
    KeyNotAuthorised(String),
    /// The body does not match the signed digest.
    #[error("{0}")]
    ContentDigest(&'static str),
    /// The token was not issued by this server, or has expired.
    #[error("{0}")]
    AccessToken(&'static str),
    /// The caller is authenticated but not allowed.
    #[error("{0} is not allowed here")]
    ForbiddenDid(Did),
    /// The DID is deactivated, and its document names a successor.
    #[error("{requested} has been replaced by {current}")]
    Superseded { requested: Did, current: Did },
    /// The replay memory is full, so the request is refused for now.
    #[error("too many signed requests at once; try again in a minute")]
    Busy,
}

impl DidAuthError {
    /// Error code of ANP-02, as written in the challenge.
    #[must_use]
    pub const fn error_code(&self) -> &'static str {
        match self {
            Self::Missing | Self::Request(_) => "invalid_request",
            Self::Nonce(_) => "invalid_nonce",
            Self::Timestamp(_) => "invalid_timestamp",
            Self::Did(_) => "invalid_did",
            Self::Signature(_) => "invalid_signature",
            Self::VerificationMethod(_) | Self::KeyNotAuthorised(_) => "invalid_verification_method",
            Self::ContentDigest(_) => "invalid_content_digest",
            Self::AccessToken(_) => "invalid_access_token",
            Self::ForbiddenDid(_) => "forbidden_did",
            Self::Superseded { .. } => "did_superseded",
            Self::Busy => "temporarily_unavailable",
        }
    }

    /// HTTP status of the error response.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::KeyNotAuthorised(_) | Self::ForbiddenDid(_) => 403,
            Self::Superseded { .. } => 409,
            Self::Busy => 503,
            _ => 401,
        }
    }
}
