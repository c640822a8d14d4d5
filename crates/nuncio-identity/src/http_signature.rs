//! Signed requests: RFC 9421 as ANP-02 §2 profiles it.
//!
//! The signature covers the text of the parameters as received, not a re-serialised form, and is accepted only if it
//! covers method, target and body.

mod base;
mod digest;
pub(crate) mod parameters;
mod sign;
mod verify;

pub use base::{AuthorityForm, host, normal_authority, signature_base};
pub use digest::{check_content_digest, content_digest};
pub use parameters::SignatureInput;
pub use sign::{SignatureHeaders, SignatureParameters, default_components, sign, sign_covering};
pub use verify::{SignaturePolicy, UnverifiedSignature, VerifiedSigner, verify_request};

use std::fmt;

use crate::fields::HeaderFields;

/// Label of the signatures that this crate makes; preferred when a request has several signatures.
pub const LABEL: &str = "sig1";

/// The parts of an HTTP request that a signature can cover.
#[derive(Clone, Copy)]
pub struct SignableRequest<'a> {
    pub method: &'a str,
    /// The absolute URL the client requested, as sent: scheme, host, path and query.
    pub target_uri: &'a str,
    pub headers: &'a dyn HeaderFields,
    /// Request body; an empty slice means no body.
    pub body: &'a [u8],
}

impl fmt::Debug for SignableRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} bytes)", self.method, self.target_uri, self.body.len())
    }
}
