//! Verifies the signatures of incoming requests (RFC 9421).

use std::time::Duration;

use nuncio_core::time::Timestamp;

use super::parameters::{SignatureInput, read_signature};
use super::{AuthorityForm, SignableRequest, check_content_digest, signature_base};
use crate::did::{Did, DidUrl};
use crate::document::BoundDidDocument;
use crate::error::DidAuthError;
use crate::rfc3339;

/// Limits on the age of a signature, and whether it needs a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignaturePolicy {
    pub max_age: Duration,
    /// How far the signer's clock may be ahead of ours.
    pub ahead: Duration,
    pub nonce_required: bool,
}

impl Default for SignaturePolicy {
    /// Five minutes of age, one minute of clock skew, nonce required: the values of ANP's SDK.
    fn default() -> Self {
        Self { max_age: Duration::from_secs(300), ahead: Duration::from_secs(60), nonce_required: true }
    }
}

impl SignaturePolicy {
    /// Checks the times of a signature, given in seconds since the Unix epoch.
    pub(crate) fn check(&self, created: i64, expires: Option<i64>, now: Timestamp) -> Result<(), DidAuthError> {
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let now = rfc3339::seconds(now);
        if created > now.saturating_add(seconds(self.ahead)) {
            return Err(DidAuthError::Timestamp("the signature was made in the future; check the clock"));
        }
        if now.saturating_sub(created) > seconds(self.max_age) {
            return Err(DidAuthError::Timestamp("the signature is too old; sign again"));
        }
        if expires.is_some_and(|expires| expires < now || expires < created) {
            return Err(DidAuthError::Timestamp("the signature has expired; sign again"));
        }
        Ok(())
    }

    /// Time until which the nonce of a signature made at `created` must be remembered.
    #[must_use]
    pub fn remember_until(&self, created: Timestamp) -> Timestamp {
        created.after(self.max_age + Duration::from_secs(1))
    }
}

/// The signer of a verified request. The caller must still record the nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSigner {
    pub did: Did,
    pub key_id: DidUrl,
    /// Nonce of the signature; the request must be refused if the key used the nonce before.
    pub nonce: Option<String>,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
}

impl VerifiedSigner {
    pub(crate) fn new(key_id: &DidUrl, input: &SignatureInput, created: i64) -> Self {
        Self {
            did: key_id.did().clone(),
            key_id: key_id.clone(),
            nonce: input.nonce.clone(),
            created: rfc3339::from_seconds(created),
            expires: input.expires.map(rfc3339::from_seconds),
        }
    }
}

/// A parsed signature that is not verified. It names the DID whose document must be fetched.
#[derive(Debug, Clone)]
pub struct UnverifiedSignature {
    input: SignatureInput,
    signature: Vec<u8>,
    key_id: DidUrl,
    created: i64,
}

impl UnverifiedSignature {
    /// Parses `Signature-Input` and `Signature`.
    ///
    /// # Errors
    /// A field is malformed, or `keyid` is not a DID URL.
    pub fn read(signature_input: &str, signature: &str) -> Result<Self, DidAuthError> {
        let refused = |fault: &str| DidAuthError::Request(format!("the signature fields are not usable: {fault}"));
        let input = SignatureInput::read(signature_input).map_err(refused)?;
        let signature = read_signature(signature, &input.label).map_err(refused)?;
        let unnamed = || DidAuthError::VerificationMethod("keyid must be a DID, '#' and the name of a key".to_owned());
        let keyid = input.keyid.as_deref().filter(|keyid| keyid.contains('#')).ok_or_else(unnamed)?;
        let key_id = DidUrl::parse(keyid).map_err(|fault| DidAuthError::Did(format!("keyid: {fault}")))?;
        let created = input.created.ok_or_else(|| refused("created is missing"))?;
        Ok(Self { input, signature, key_id, created })
    }

    /// The DID whose document is needed for [`UnverifiedSignature::verify`].
    #[must_use]
    pub const fn did(&self) -> &Did {
        self.key_id.did()
    }

    #[must_use]
    pub const fn key_id(&self) -> &DidUrl {
        &self.key_id
    }

    #[must_use]
    pub const fn input(&self) -> &SignatureInput {
        &self.input
    }

    /// Makes the checks that need no DID document: coverage, times, presence of the nonce, and the body digest.
    pub fn check(
        &self,
        request: &SignableRequest<'_>,
        now: Timestamp,
        policy: &SignaturePolicy,
    ) -> Result<(), DidAuthError> {
        let covers = |name: &str| self.input.components.iter().any(|component| component == name);
        for name in ["@method", "@target-uri"] {
            if !covers(name) {
                return Err(DidAuthError::Request(format!("the signature must cover {name}")));
            }
        }
        policy.check(self.created, self.input.expires, now)?;
        match &self.input.nonce {
            None if policy.nonce_required => return Err(DidAuthError::Nonce("a nonce is required")),
            Some(nonce) if nonce.is_empty() || nonce.len() > 256 => {
                return Err(DidAuthError::Nonce("a nonce must have 1 to 256 characters"));
            }
            _ => {}
        }
        match request.headers.field("content-digest") {
            Some(digest) => check_content_digest(&digest, request.body).map_err(DidAuthError::ContentDigest)?,
            None if covers("content-digest") || !request.body.is_empty() => {
                return Err(DidAuthError::ContentDigest("a body needs Content-Digest"));
            }
            None => {}
        }
        if !request.body.is_empty() && !covers("content-digest") {
            return Err(DidAuthError::ContentDigest("the signature must cover content-digest"));
        }
        Ok(())
    }

    /// Verifies the signature with the key from the DID document. Does not repeat the checks of
    /// [`UnverifiedSignature::check`].
    pub fn verify(
        &self,
        request: &SignableRequest<'_>,
        document: &BoundDidDocument,
    ) -> Result<VerifiedSigner, DidAuthError> {
        let key = document.authentication_key(&self.key_id)?;
        self.input.check_algorithm(key)?;
        let fits = |authority| {
            let base = signature_base(request, &self.input.components, &self.input.raw, authority)
                .map_err(DidAuthError::Request)?;
            key.verify(base.as_bytes(), &self.signature)
                .map_err(|_| DidAuthError::Signature("the signature does not match the request"))
        };
        // The target URI is covered byte for byte, so accepting the host as written does not weaken the signature.
        fits(AuthorityForm::Normal).or_else(|fault| {
            if self.spells_authority(request) { fits(AuthorityForm::AsWritten) } else { Err(fault) }
        })?;
        Ok(VerifiedSigner::new(&self.key_id, &self.input, self.created))
    }

    /// Returns whether `@authority` is covered and the host is not written in its normal form.
    fn spells_authority(&self, request: &SignableRequest<'_>) -> bool {
        let written = super::normal_authority(request.target_uri);
        self.input.components.iter().any(|component| component == "@authority")
            && written.is_some_and(|normal| {
                let after = request.target_uri.split_once("://").map_or("", |(_, after)| after);
                !after.strip_prefix(&*normal).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
            })
    }
}

/// Parses, checks and verifies a signed request in one call. The caller must still record the nonce.
pub fn verify_request(
    request: &SignableRequest<'_>,
    document: &BoundDidDocument,
    now: Timestamp,
    policy: &SignaturePolicy,
) -> Result<VerifiedSigner, DidAuthError> {
    let field = |name: &'static str| {
        let missing = || DidAuthError::Request(format!("{name} is missing"));
        request.headers.field(name).ok_or_else(missing)
    };
    let claim = UnverifiedSignature::read(&field("signature-input")?, &field("signature")?)?;
    claim.check(request, now, policy)?;
    claim.verify(request, document)
}
