//! What a caller brought to show who it is.

use crate::error::AuthError;
use crate::fields::Fields;
use crate::http_signature::Claim;
use crate::legacy::LegacyClaim;

/// What a caller brought; nothing of it is believed yet.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// `Authorization: Bearer …`.
    Bearer(String),
    /// `Signature-Input` and `Signature`.
    Signature(Box<Claim>),
    /// `Authorization: DIDWba …`.
    Legacy(Box<LegacyClaim>),
}

/// The ways of signing a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schemes {
    /// Signed requests.
    pub signature: bool,
    /// The header of clients before ANP 1.1.
    pub legacy: bool,
}

impl Default for Schemes {
    fn default() -> Self {
        Self { signature: true, legacy: true }
    }
}

impl Credentials {
    /// Looks for a token, then for a signature, then for the old header; the first that is there counts.
    ///
    /// # Errors
    /// Nothing came, it cannot be read, or its kind is not taken here. A scheme of somebody else's under
    /// `Authorization` is as nothing.
    pub fn read(headers: &dyn Fields, schemes: Schemes) -> Result<Self, AuthError> {
        let authorization = headers.field("authorization");
        let (scheme, rest) = authorization.as_deref().and_then(|text| text.split_once(' ')).unwrap_or_default();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self::Bearer(rest.trim().to_owned()));
        }
        match (headers.field("signature-input"), headers.field("signature")) {
            (None, None) => {}
            (Some(_), Some(_)) if !schemes.signature => {
                return Err(AuthError::Request("signed requests are switched off here".to_owned()));
            }
            (Some(input), Some(signature)) => {
                return Claim::read(&input, &signature).map(|claim| Self::Signature(Box::new(claim)));
            }
            (Some(_), None) => return Err(AuthError::Request("Signature is missing".to_owned())),
            (None, Some(_)) => return Err(AuthError::Request("Signature-Input is missing".to_owned())),
        }
        if !scheme.eq_ignore_ascii_case("didwba") {
            return Err(AuthError::Missing);
        }
        if !schemes.legacy {
            return Err(AuthError::Request("the DIDWba header is switched off here; sign the request".to_owned()));
        }
        LegacyClaim::from_header(authorization.as_deref().unwrap_or_default())
            .map(|claim| Self::Legacy(Box::new(claim)))
    }
}
