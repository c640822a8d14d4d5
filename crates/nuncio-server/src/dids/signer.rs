//! Signs outgoing requests (ANP-02 §2); the receiver resolves the DID in the signature's key id.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_engine::EngineError;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::fetch::FetchRequest;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_identity::SignedRequest;
use nuncio_identity::http_signature::{self, SignatureParameters};

use super::OwnDid;

/// Validity of a request signature.
const SIGNATURE_LIFETIME: Duration = Duration::from_secs(300);
/// Header fields that signing sets; existing ones are replaced.
const FIELDS: [&str; 3] = ["content-digest", "signature-input", "signature"];

/// Signs requests with one DID key.
#[derive(Clone)]
pub struct DidSigner {
    own: Arc<OwnDid>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl DidSigner {
    pub(super) fn new(own: Arc<OwnDid>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { own, clock, entropy }
    }

    #[must_use]
    pub fn own(&self) -> &OwnDid {
        &self.own
    }

    /// Signs a request for five minutes: method, URL, host and body, with the server's nonce if its challenge gave one.
    /// An existing signature is replaced, so that a request can be signed again.
    pub fn sign(&self, outgoing: &mut FetchRequest, nonce: Option<&str>) -> Result<(), EngineError> {
        outgoing.headers.retain(|(name, _)| !FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field)));
        // The request target has no fragment.
        let mut target = outgoing.url.clone();
        target.set_fragment(None);
        let made = random_name(&*self.entropy, "");
        let now = self.clock.now();
        let options = SignatureParameters {
            key_id: self.own.key_id(),
            created: now,
            expires: Some(now.after(SIGNATURE_LIFETIME)),
            nonce: nonce.unwrap_or(&made),
        };
        let request = SignedRequest {
            method: outgoing.method,
            target_uri: target.as_str(),
            headers: &outgoing.headers,
            body: outgoing.body.as_deref().unwrap_or_default(),
        };
        let signed = http_signature::sign(&request, self.own.key(), &options)
            .map_err(|why| EngineError::new(Code::BadRequest, format!("{target} cannot be signed for: {why}")))?;
        outgoing.headers.extend(signed.into_fields().map(|(name, value)| (name.to_owned(), value)));
        Ok(())
    }
}

impl fmt::Debug for DidSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DidSigner of {}", self.own.did())
    }
}
