//! Finds the credentials in the header fields of a request.

use crate::error::DidAuthError;
use crate::fields::HeaderFields;
use crate::http_signature::UnverifiedSignature;
use crate::legacy::UnverifiedLegacyHeader;

/// Credentials of a request, parsed but not verified.
#[derive(Debug, Clone)]
pub enum ParsedCredentials {
    /// A bearer token: `Authorization: Bearer …`.
    Bearer(String),
    /// A message signature: `Signature-Input` and `Signature`.
    Signature(Box<UnverifiedSignature>),
    /// `Authorization: DIDWba …`, the header of clients before ANP 1.1.
    Legacy(Box<UnverifiedLegacyHeader>),
}

/// The signing schemes that a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedSigningSchemes {
    /// Whether RFC 9421 message signatures are accepted.
    pub signature: bool,
    /// Whether the `DIDWba` header of clients before ANP 1.1 is accepted.
    pub legacy: bool,
}

impl Default for AcceptedSigningSchemes {
    fn default() -> Self {
        Self { signature: true, legacy: true }
    }
}

impl ParsedCredentials {
    /// Looks for a bearer token, then a signature, then the legacy header, and returns the first one found.
    ///
    /// # Errors
    /// [`DidAuthError::Missing`] if the request has no credentials (an unknown `Authorization` scheme counts as none);
    /// [`DidAuthError::Request`] if the credentials are malformed or of a scheme that is switched off.
    pub fn read(headers: &dyn HeaderFields, schemes: AcceptedSigningSchemes) -> Result<Self, DidAuthError> {
        let authorization = headers.field("authorization");
        let (scheme, rest) = authorization.as_deref().and_then(|text| text.split_once(' ')).unwrap_or_default();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self::Bearer(rest.trim().to_owned()));
        }
        match (headers.field("signature-input"), headers.field("signature")) {
            (None, None) => {}
            (Some(_), Some(_)) if !schemes.signature => {
                return Err(DidAuthError::Request("signed requests are switched off here".to_owned()));
            }
            (Some(input), Some(signature)) => {
                return UnverifiedSignature::read(&input, &signature).map(|claim| Self::Signature(Box::new(claim)));
            }
            (Some(_), None) => return Err(DidAuthError::Request("Signature is missing".to_owned())),
            (None, Some(_)) => return Err(DidAuthError::Request("Signature-Input is missing".to_owned())),
        }
        if !scheme.eq_ignore_ascii_case("didwba") {
            return Err(DidAuthError::Missing);
        }
        if !schemes.legacy {
            return Err(DidAuthError::Request("the DIDWba header is switched off here; sign the request".to_owned()));
        }
        UnverifiedLegacyHeader::from_header(authorization.as_deref().unwrap_or_default())
            .map(|claim| Self::Legacy(Box::new(claim)))
    }
}
