//! Origin proofs (Core Binding, appendix A): signatures that name the author of a JSON-RPC request, also when others
//! forward it.

use nuncio_core::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::did::{Did, DidUrl};
use crate::document::BoundDidDocument;
use crate::encoding::base64;
use crate::error::DidAuthError;
use crate::http_signature::parameters::read_signature;
use crate::http_signature::{
    LABEL, SignatureInput, SignatureParameters, SignaturePolicy, VerifiedSigner, content_digest,
};
use crate::keys::SigningKey;
use crate::rfc3339;

/// Value of `scheme` in `params.auth`.
pub const SCHEME: &str = "anp-rfc9421-origin-proof-v1";
const COMPONENTS: [&str; 3] = ["@method", "@target-uri", "content-digest"];

/// The parts of a JSON-RPC request that an origin proof covers.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OriginProofInput<'a> {
    /// JSON-RPC method name of the request.
    pub method: &'a str,
    /// The request's `params.meta`.
    pub meta: &'a Value,
    /// The request's `params.body`.
    pub body: &'a Value,
}

/// An origin proof in its wire form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginProof {
    /// Digest of the canonical request, as sent in the proof.
    pub content_digest: String,
    /// Covered components and parameters, as in RFC 9421.
    pub signature_input: String,
    pub signature: String,
}

impl OriginProofInput<'_> {
    /// Canonical JSON of method, meta and body: the content that is digested.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        nuncio_core::digest::canonical(self)
    }

    fn target_uri(&self) -> Option<String> {
        let target = self.meta.get("target")?;
        let text = |name: &str| target.get(name).and_then(Value::as_str);
        let kind = text("kind").filter(|kind| matches!(*kind, "agent" | "group" | "service"))?;
        Some(target_uri(kind, text("did")?))
    }

    fn signature_base(&self, digest: &str, parameters: &str) -> Option<String> {
        // A line break in the method name could be read as another component.
        let method = Some(self.method).filter(|method| !method.contains(['\n', '\r']))?;
        Some(format!(
            "\"@method\": {method}\n\"@target-uri\": {}\n\"content-digest\": {digest}\n\"@signature-params\": {parameters}",
            self.target_uri()?
        ))
    }

    /// Signs the request.
    ///
    /// # Errors
    /// `meta.target` has no kind or DID.
    pub fn sign(&self, key: &SigningKey, options: &SignatureParameters<'_>) -> Result<OriginProof, DidAuthError> {
        let content_digest = content_digest(&self.canonical());
        let expires = options.expires.map(rfc3339::seconds);
        let created = rfc3339::seconds(options.created);
        let parameters = SignatureInput::write(&COMPONENTS, created, expires, options.nonce, options.key_id);
        let no_target = || DidAuthError::Request("meta.target needs kind and did".to_owned());
        let base = self.signature_base(&content_digest, &parameters).ok_or_else(no_target)?;
        Ok(OriginProof {
            signature_input: format!("{LABEL}={parameters}"),
            signature: format!("{LABEL}=:{}:", base64(&key.sign(base.as_bytes()))),
            content_digest,
        })
    }
}

/// The target of a request as a URI: `anp://agent/did%3Awba%3A…`.
#[must_use]
pub fn target_uri(kind: &str, did: &str) -> String {
    let mut uri = format!("anp://{kind}/");
    for byte in did.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// A parsed origin proof that is not verified.
#[derive(Debug, Clone)]
pub struct UnverifiedOriginProof {
    digest: String,
    input: SignatureInput,
    signature: Vec<u8>,
    key_id: DidUrl,
    created: i64,
}

impl OriginProof {
    /// The proof as the value of `params.auth`.
    #[must_use]
    pub fn to_auth(&self) -> Value {
        json!({ "scheme": SCHEME, "origin_proof": self.to_json() })
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "contentDigest": self.content_digest,
            "signatureInput": self.signature_input,
            "signature": self.signature,
        })
    }

    /// Parses `params.auth`. Unknown members are refused.
    pub fn from_auth(auth: &Value) -> Result<Self, DidAuthError> {
        let auth = exactly(auth, &["scheme", "origin_proof"])?;
        if auth["scheme"] != SCHEME {
            return Err(DidAuthError::Request(format!("auth.scheme must be {SCHEME}")));
        }
        Self::from_json(&auth["origin_proof"])
    }

    pub fn from_json(proof: &Value) -> Result<Self, DidAuthError> {
        let proof = exactly(proof, &["contentDigest", "signatureInput", "signature"])?;
        let text = |name: &str| {
            let no_text = || DidAuthError::Request(format!("origin_proof.{name} must be a text"));
            proof[name].as_str().map(str::to_owned).ok_or_else(no_text)
        };
        Ok(Self {
            content_digest: text("contentDigest")?,
            signature_input: text("signatureInput")?,
            signature: text("signature")?,
        })
    }

    /// Parses the signature parameters, which name the DID document to fetch.
    ///
    /// # Errors
    /// Label, components or key name differ from what the Core Binding requires.
    pub fn claim(&self) -> Result<UnverifiedOriginProof, DidAuthError> {
        let refused = |fault: &str| DidAuthError::Request(format!("the origin proof is not usable: {fault}"));
        let mut inputs = SignatureInput::read_all(&self.signature_input).map_err(refused)?;
        let input = inputs.pop().filter(|input| inputs.is_empty() && input.label == LABEL);
        let input = input.ok_or_else(|| refused("it needs exactly one signature, labelled sig1"))?;
        if input.components != COMPONENTS {
            return Err(refused("it must cover \"@method\" \"@target-uri\" \"content-digest\", in this order"));
        }
        let signature = read_signature(&self.signature, LABEL).map_err(refused)?;
        let keyid = input.keyid.as_deref().ok_or_else(|| refused("keyid is missing"))?;
        let key_id = DidUrl::parse(keyid).map_err(|fault| DidAuthError::VerificationMethod(fault.to_string()))?;
        let created = input.created.ok_or_else(|| refused("created is missing"))?;
        Ok(UnverifiedOriginProof { digest: self.content_digest.clone(), input, signature, key_id, created })
    }
}

/// Returns the object if it has exactly these members; unknown members are refused (Core Binding §7).
fn exactly<'a>(value: &'a Value, names: &[&str]) -> Result<&'a Map<String, Value>, DidAuthError> {
    let fits = |members: &&Map<String, Value>| {
        members.len() == names.len() && names.iter().all(|name| members.contains_key(*name))
    };
    let refused = || DidAuthError::Request(format!("expected an object with exactly {}", names.join(", ")));
    value.as_object().filter(fits).ok_or_else(refused)
}

impl UnverifiedOriginProof {
    /// The DID that the proof claims.
    #[must_use]
    pub fn did(&self) -> &Did {
        self.key_id.did()
    }

    #[must_use]
    pub const fn key_id(&self) -> &DidUrl {
        &self.key_id
    }

    /// Makes the checks that need no DID document: sender, digest, times, and presence of the nonce.
    pub fn check(
        &self,
        request: &OriginProofInput<'_>,
        now: Timestamp,
        policy: &SignaturePolicy,
    ) -> Result<(), DidAuthError> {
        if request.meta.get("sender_did").and_then(Value::as_str) != Some(self.key_id.did().as_str()) {
            return Err(DidAuthError::VerificationMethod("the key does not belong to meta.sender_did".to_owned()));
        }
        if self.digest != content_digest(&request.canonical()) {
            return Err(DidAuthError::ContentDigest("contentDigest does not match method, meta and body"));
        }
        if policy.nonce_required && self.input.nonce.as_deref().is_none_or(str::is_empty) {
            return Err(DidAuthError::Nonce("a nonce is required"));
        }
        policy.check(self.created, self.input.expires, now)
    }

    /// Verifies the signature with the key from the sender's document. Does not repeat
    /// [`UnverifiedOriginProof::check`].
    pub fn verify(
        &self,
        request: &OriginProofInput<'_>,
        document: &BoundDidDocument,
    ) -> Result<VerifiedSigner, DidAuthError> {
        let key = document.authentication_key(&self.key_id)?;
        self.input.check_algorithm(key)?;
        let no_target = || DidAuthError::Request("meta.target needs kind and did".to_owned());
        let base = request.signature_base(&self.digest, &self.input.raw).ok_or_else(no_target)?;
        key.verify(base.as_bytes(), &self.signature)
            .map_err(|_| DidAuthError::Signature("the origin proof does not match the request"))?;
        Ok(VerifiedSigner::new(&self.key_id, &self.input, self.created))
    }
}

/// Parses, checks and verifies an origin proof in one call. The caller must still record the nonce.
pub fn verify_origin(
    proof: &OriginProof,
    request: &OriginProofInput<'_>,
    document: &BoundDidDocument,
    now: Timestamp,
    policy: &SignaturePolicy,
) -> Result<VerifiedSigner, DidAuthError> {
    let claim = proof.claim()?;
    claim.check(request, now, policy)?;
    claim.verify(request, document)
}
