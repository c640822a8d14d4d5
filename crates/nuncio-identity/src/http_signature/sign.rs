//! Signs outgoing requests (RFC 9421).

use nuncio_core::time::Timestamp;

use super::{AuthorityForm, LABEL, SignableRequest, SignatureInput, content_digest, signature_base};
use crate::encoding::base64;
use crate::fields::HeaderFields;
use crate::keys::SigningKey;
use crate::rfc3339;

/// Parameters of a signature, besides the covered components.
#[derive(Debug, Clone, Copy)]
pub struct SignatureParameters<'a> {
    /// DID URL of the signing key.
    pub key_id: &'a str,
    pub created: Timestamp,
    /// Expiry of the signature; usually five minutes after `created`.
    pub expires: Option<Timestamp>,
    /// A nonce never used before, or the one from the server's challenge.
    pub nonce: &'a str,
}

/// Header fields to send with a signed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureHeaders {
    /// `Content-Digest` header; `None` without a body.
    pub content_digest: Option<String>,
    pub signature_input: String,
    pub signature: String,
}

impl SignatureHeaders {
    pub fn into_fields(self) -> impl Iterator<Item = (&'static str, String)> {
        let digest = self.content_digest.map(|value| ("Content-Digest", value));
        digest.into_iter().chain([("Signature-Input", self.signature_input), ("Signature", self.signature)])
    }
}

/// Components that our signatures cover: method, target, host, and the body digest if there is a body.
#[must_use]
pub const fn default_components(body: &[u8]) -> &'static [&'static str] {
    const WITH_BODY: &[&str] = &["@method", "@target-uri", "@authority", "content-digest"];
    if body.is_empty() { WITH_BODY.split_at(3).0 } else { WITH_BODY }
}

/// Signs a request with the default components.
///
/// # Errors
/// The target is not a URI with a host.
pub fn sign(
    request: &SignableRequest<'_>,
    key: &SigningKey,
    options: &SignatureParameters<'_>,
) -> Result<SignatureHeaders, String> {
    sign_covering(request, default_components(request.body), key, options)
}

/// Signs a request and covers exactly these components. Servers accept the signature only if it covers method, target
/// and body.
///
/// # Errors
/// A covered component is missing from the request.
pub fn sign_covering(
    request: &SignableRequest<'_>,
    components: &[&str],
    key: &SigningKey,
    options: &SignatureParameters<'_>,
) -> Result<SignatureHeaders, String> {
    let content_digest = (!request.body.is_empty()).then(|| content_digest(request.body));
    let headers = HeadersWithDigest { headers: request.headers, digest: content_digest.as_deref() };
    let request = SignableRequest { headers: &headers, ..*request };
    let created = rfc3339::seconds(options.created);
    let expires = options.expires.map(rfc3339::seconds);
    let parameters = SignatureInput::write(components, created, expires, options.nonce, options.key_id);
    let base = signature_base(&request, components, &parameters, AuthorityForm::Normal)?;
    Ok(SignatureHeaders {
        signature_input: format!("{LABEL}={parameters}"),
        signature: format!("{LABEL}=:{}:", base64(&key.sign(base.as_bytes()))),
        content_digest,
    })
}

/// Header fields of a request, with the computed `Content-Digest` added.
struct HeadersWithDigest<'a> {
    headers: &'a dyn HeaderFields,
    digest: Option<&'a str>,
}

impl HeaderFields for HeadersWithDigest<'_> {
    fn field(&self, name: &str) -> Option<std::borrow::Cow<'_, str>> {
        match self.digest {
            Some(digest) if name == "content-digest" => Some(digest.into()),
            _ => self.headers.field(name),
        }
    }
}
