//! Why a caller was not let in, in the words of ANP-02 §3.

use crate::did::Did;

/// Why a caller was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No credentials came.
    #[error("no credentials: sign the request, or send a token this server gave")]
    Missing,
    /// What came cannot be read.
    #[error("{0}")]
    Request(String),
    /// The nonce is missing or was used before.
    #[error("{0}")]
    Nonce(&'static str),
    /// The signature is too old, from the future, or has run out.
    #[error("{0}")]
    Timestamp(&'static str),
    /// The DID is not well formed, has no document, or the document is not its own.
    #[error("{0}")]
    Did(String),
    /// The signature does not fit the request.
    #[error("{0}")]
    Signature(&'static str),
    /// The document has no such key.
    #[error("{0}")]
    VerificationMethod(String),
    /// The document has the key, but not for authentication.
    #[error("the key {0} is not listed under authentication")]
    KeyNotAuthorised(String),
    /// The body is not the one that was signed.
    #[error("{0}")]
    ContentDigest(&'static str),
    /// The token is not one of this server's, or has run out.
    #[error("{0}")]
    AccessToken(&'static str),
    /// The caller is known and may not.
    #[error("{0} is not allowed here")]
    ForbiddenDid(Did),
    /// The DID has given way to another.
    #[error("{requested} has been replaced by {current}")]
    Superseded {
        /// The DID that was used.
        requested: Did,
        /// The DID its document names in its place.
        current: Did,
    },
    /// Too many nonces are remembered already.
    #[error("too many signed requests at once; try again in a minute")]
    Busy,
}

impl AuthError {
    /// The word of ANP-02 for it, as it stands in the challenge.
    #[must_use]
    pub const fn word(&self) -> &'static str {
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

    /// The HTTP status to answer with.
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
