//! Signed requests: RFC 9421 as ANP-02 §2 uses it.
//!
//! What is signed is the text of the parameters as it came, not what a parser made of it; and a signature
//! counts only if it covers method, target and body.

mod base;
mod digest;
pub(crate) mod parameters;
mod sign;
mod verify;

pub use base::{Authority, host, normal_authority, signature_base};
pub use digest::{check_content_digest, content_digest};
pub use parameters::SignatureInput;
pub use sign::{SignatureHeaders, SigningOptions, default_components, sign, sign_covering};
pub use verify::{Claim, Policy, Verified, verify_request};

use std::fmt;

use crate::fields::Fields;

/// The label under which we sign, and which is preferred where several signatures came.
pub const LABEL: &str = "sig1";

/// A request, as far as a signature looks at it.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The whole address the client dialled, as sent: scheme, host, path and query.
    pub target_uri: &'a str,
    /// The header fields.
    pub headers: &'a dyn Fields,
    /// The body; empty is the same as none.
    pub body: &'a [u8],
}

impl fmt::Debug for SignedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} bytes)", self.method, self.target_uri, self.body.len())
    }
}
