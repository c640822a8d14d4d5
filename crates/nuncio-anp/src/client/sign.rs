//! Signing of outgoing ANP requests with a DID.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ids::AgentName;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::fetch::FetchRequest;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_identity::document::KEY_FRAGMENT;
use nuncio_identity::http_signature::{self, SignatureParameters};
use nuncio_identity::origin_proof::{OriginProof, OriginProofInput};
use nuncio_identity::{Did, SignableRequest, SigningKey, challenge};

const SIGNATURE_LIFETIME: Duration = Duration::from_secs(300);
/// Header fields that a signature sets, replacing existing ones.
const FIELDS: [&str; 3] = ["content-digest", "signature-input", "signature"];

/// Signs requests with one DID.
pub trait RequestSigner: fmt::Debug + Send + Sync {
    fn did(&self) -> Did;

    /// Signs a request (ANP-02 §2): method, URL, host and body, and those of `components` that the request has. Uses
    /// the server's nonce if given, and replaces an existing signature.
    fn sign(&self, outgoing: &mut FetchRequest, nonce: Option<&str>, components: &[String]) -> Result<(), String>;

    /// Creates an origin proof for a JSON-RPC request (Core Binding, appendix A).
    ///
    /// # Errors
    /// The request names no target.
    fn prove(&self, request: &OriginProofInput<'_>) -> Result<OriginProof, String>;
}

/// Provides the signer of each local agent.
pub trait AgentSignerLookup: fmt::Debug + Send + Sync {
    /// Returns the agent's signer with its current key; `None` if the agent has no DID.
    fn signer(&self, agent: &AgentName) -> Option<Arc<dyn RequestSigner>>;
}

/// [`RequestSigner`] with a local key.
#[derive(Clone)]
pub struct KeySigner {
    did: Did,
    key_id: String,
    key: SigningKey,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl KeySigner {
    /// A signer that uses the key `key-1` of the DID.
    #[must_use]
    pub fn new(did: Did, key: SigningKey, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { key_id: did.url(KEY_FRAGMENT), did, key, clock, entropy }
    }

    fn parameters<'a>(&'a self, nonce: &'a str) -> SignatureParameters<'a> {
        let created = self.clock.now();
        SignatureParameters { key_id: &self.key_id, created, expires: Some(created.after(SIGNATURE_LIFETIME)), nonce }
    }
}

impl RequestSigner for KeySigner {
    fn did(&self) -> Did {
        self.did.clone()
    }

    fn sign(&self, outgoing: &mut FetchRequest, nonce: Option<&str>, components: &[String]) -> Result<(), String> {
        outgoing.headers.retain(|(name, _)| !FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field)));
        // The signed URL has no fragment, because a fragment is not sent.
        let mut target = outgoing.url.clone();
        target.set_fragment(None);
        let new_nonce = random_name(&*self.entropy, "");
        let parameters = self.parameters(nonce.unwrap_or(&new_nonce));
        let body = outgoing.body.as_deref().unwrap_or_default();
        let request =
            SignableRequest { method: outgoing.method, target_uri: target.as_str(), headers: &outgoing.headers, body };
        let mut covered = http_signature::default_components(body).to_vec();
        let more = challenge::satisfiable_components(components, &outgoing.headers, body);
        let more: Vec<_> = more.iter().map(String::as_str).filter(|name| !covered.contains(name)).collect();
        covered.extend(more);
        let signed = http_signature::sign_covering(&request, &covered, &self.key, &parameters)?;
        outgoing.headers.extend(signed.into_fields().map(|(name, value)| (name.to_owned(), value)));
        Ok(())
    }

    fn prove(&self, request: &OriginProofInput<'_>) -> Result<OriginProof, String> {
        let nonce = random_name(&*self.entropy, "");
        request.sign(&self.key, &self.parameters(&nonce)).map_err(|error| error.to_string())
    }
}

impl fmt::Debug for KeySigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySigner of {}", self.did)
    }
}
