//! Signing what we send.

use nuncio_core::time::Timestamp;

use super::{Authority, LABEL, SignatureInput, SignedRequest, content_digest, signature_base};
use crate::encoding::base64;
use crate::fields::Fields;
use crate::keys::SigningKey;
use crate::moment;

/// What a signature says beside what it covers.
#[derive(Debug, Clone, Copy)]
pub struct SigningOptions<'a> {
    /// The full name of the key.
    pub key_id: &'a str,
    /// When it is made.
    pub created: Timestamp,
    /// When it runs out; five minutes later is usual.
    pub expires: Option<Timestamp>,
    /// A text never used before, or the server's.
    pub nonce: &'a str,
}

/// The fields to send along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureHeaders {
    /// `Content-Digest`, where there is a body.
    pub content_digest: Option<String>,
    /// `Signature-Input`.
    pub signature_input: String,
    /// `Signature`.
    pub signature: String,
}

impl SignatureHeaders {
    /// The fields by name.
    pub fn into_fields(self) -> impl Iterator<Item = (&'static str, String)> {
        let digest = self.content_digest.map(|value| ("Content-Digest", value));
        digest.into_iter().chain([("Signature-Input", self.signature_input), ("Signature", self.signature)])
    }
}

/// What we cover: method, target, host, and the body where there is one.
#[must_use]
pub const fn default_components(body: &[u8]) -> &'static [&'static str] {
    const WITH_BODY: &[&str] = &["@method", "@target-uri", "@authority", "content-digest"];
    if body.is_empty() { WITH_BODY.split_at(3).0 } else { WITH_BODY }
}

/// Signs a request.
///
/// # Errors
/// The target is no address with a host.
pub fn sign(
    request: &SignedRequest<'_>,
    key: &SigningKey,
    options: &SigningOptions<'_>,
) -> Result<SignatureHeaders, String> {
    sign_covering(request, default_components(request.body), key, options)
}

/// Signs a request and covers exactly these components. A server takes it only if method, target and body are
/// among them.
///
/// # Errors
/// A component is covered that the request does not have.
pub fn sign_covering(
    request: &SignedRequest<'_>,
    components: &[&str],
    key: &SigningKey,
    options: &SigningOptions<'_>,
) -> Result<SignatureHeaders, String> {
    let content_digest = (!request.body.is_empty()).then(|| content_digest(request.body));
    let headers = WithDigest { headers: request.headers, digest: content_digest.as_deref() };
    let request = SignedRequest { headers: &headers, ..*request };
    let created = moment::seconds(options.created);
    let expires = options.expires.map(moment::seconds);
    let parameters = SignatureInput::write(components, created, expires, options.nonce, options.key_id);
    let base = signature_base(&request, components, &parameters, Authority::Normal)?;
    Ok(SignatureHeaders {
        signature_input: format!("{LABEL}={parameters}"),
        signature: format!("{LABEL}=:{}:", base64(&key.sign(base.as_bytes()))),
        content_digest,
    })
}

/// The fields of a request and the digest that is sent with it.
struct WithDigest<'a> {
    headers: &'a dyn Fields,
    digest: Option<&'a str>,
}

impl Fields for WithDigest<'_> {
    fn field(&self, name: &str) -> Option<std::borrow::Cow<'_, str>> {
        match self.digest {
            Some(digest) if name == "content-digest" => Some(digest.into()),
            _ => self.headers.field(name),
        }
    }
}
