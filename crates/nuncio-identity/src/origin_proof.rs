//! Origin proofs (Core Binding, appendix A): who made a JSON-RPC request, whoever carried it.

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::did::{Did, DidUrl};
use crate::document::BoundDocument;
use crate::encoding::base64;
use crate::error::AuthError;
use crate::http_signature::parameters::read_signature;
use crate::http_signature::{LABEL, Policy, SignatureInput, SigningOptions, Verified, content_digest};
use crate::jcs;
use crate::keys::SigningKey;
use crate::moment;

/// The name of the scheme in `params.auth`.
pub const SCHEME: &str = "anp-rfc9421-origin-proof-v1";
const COMPONENTS: [&str; 3] = ["@method", "@target-uri", "content-digest"];

/// A request, as far as its origin proof looks at it.
#[derive(Debug, Clone, Copy)]
pub struct OriginRequest<'a> {
    /// The JSON-RPC method.
    pub method: &'a str,
    /// `params.meta`.
    pub meta: &'a Value,
    /// `params.body`.
    pub body: &'a Value,
}

/// A proof of origin, as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginProof {
    /// The digest of the canonical request.
    pub content_digest: String,
    /// What is covered, and the parameters.
    pub signature_input: String,
    /// The signature.
    pub signature: String,
}

impl OriginRequest<'_> {
    /// The canonical form that is signed: method, meta and body, nothing else.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        let mut text = b"{\"body\":".to_vec();
        jcs::push(self.body, &mut text);
        text.extend_from_slice(b",\"meta\":");
        jcs::push(self.meta, &mut text);
        text.extend_from_slice(b",\"method\":");
        jcs::push(&Value::from(self.method), &mut text);
        text.push(b'}');
        text
    }

    fn target_uri(&self) -> Option<String> {
        let target = self.meta.get("target")?;
        let text = |name: &str| target.get(name).and_then(Value::as_str);
        let kind = text("kind").filter(|kind| matches!(*kind, "agent" | "group" | "service"))?;
        Some(target_uri(kind, text("did")?))
    }

    fn signature_base(&self, digest: &str, parameters: &str) -> Option<String> {
        // Names of methods have no line breaks; one could pass for another component.
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
    pub fn sign(&self, key: &SigningKey, options: &SigningOptions<'_>) -> Result<OriginProof, AuthError> {
        let content_digest = content_digest(&self.canonical());
        let expires = options.expires.map(moment::seconds);
        let created = moment::seconds(options.created);
        let parameters = SignatureInput::write(&COMPONENTS, created, expires, options.nonce, options.key_id);
        let no_target = || AuthError::Request("meta.target needs kind and did".to_owned());
        let base = self.signature_base(&content_digest, &parameters).ok_or_else(no_target)?;
        Ok(OriginProof {
            signature_input: format!("{LABEL}={parameters}"),
            signature: format!("{LABEL}=:{}:", base64(&key.sign(base.as_bytes()))),
            content_digest,
        })
    }
}

/// The target of a request as an address: `anp://agent/did%3Awba%3A…`.
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

/// An origin proof that was read and not believed yet.
#[derive(Debug, Clone)]
pub struct OriginClaim {
    digest: String,
    input: SignatureInput,
    signature: Vec<u8>,
    key_id: DidUrl,
    created: i64,
}

impl OriginProof {
    /// The value of `params.auth`.
    #[must_use]
    pub fn to_auth(&self) -> Value {
        json!({ "scheme": SCHEME, "origin_proof": self.to_json() })
    }

    /// The proof itself.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "contentDigest": self.content_digest,
            "signatureInput": self.signature_input,
            "signature": self.signature,
        })
    }

    /// Reads `params.auth`.
    ///
    /// # Errors
    /// Its scheme is another, or a member is missing, unknown or no text.
    pub fn from_auth(auth: &Value) -> Result<Self, AuthError> {
        let auth = exactly(auth, &["scheme", "origin_proof"])?;
        if auth["scheme"] != SCHEME {
            return Err(AuthError::Request(format!("auth.scheme must be {SCHEME}")));
        }
        Self::from_json(&auth["origin_proof"])
    }

    /// Reads the proof itself.
    ///
    /// # Errors
    /// A member is missing, unknown or no text.
    pub fn from_json(proof: &Value) -> Result<Self, AuthError> {
        let proof = exactly(proof, &["contentDigest", "signatureInput", "signature"])?;
        let text = |name: &str| {
            let no_text = || AuthError::Request(format!("origin_proof.{name} must be a text"));
            proof[name].as_str().map(str::to_owned).ok_or_else(no_text)
        };
        Ok(Self {
            content_digest: text("contentDigest")?,
            signature_input: text("signatureInput")?,
            signature: text("signature")?,
        })
    }

    /// Reads what the proof claims, so that the sender's document can be fetched.
    ///
    /// # Errors
    /// The label, the components or the key's name are others than the binding fixes.
    pub fn claim(&self) -> Result<OriginClaim, AuthError> {
        let refused = |fault: &str| AuthError::Request(format!("the origin proof is not usable: {fault}"));
        let mut inputs = SignatureInput::read_all(&self.signature_input).map_err(refused)?;
        let input = inputs.pop().filter(|input| inputs.is_empty() && input.label == LABEL);
        let input = input.ok_or_else(|| refused("it needs exactly one signature, labelled sig1"))?;
        if input.components != COMPONENTS {
            return Err(refused("it covers \"@method\" \"@target-uri\" \"content-digest\", in this order"));
        }
        let signature = read_signature(&self.signature, LABEL).map_err(refused)?;
        let keyid = input.keyid.as_deref().ok_or_else(|| refused("keyid is missing"))?;
        let key_id = DidUrl::parse(keyid).map_err(|fault| AuthError::VerificationMethod(fault.to_string()))?;
        let created = input.created.ok_or_else(|| refused("created is missing"))?;
        Ok(OriginClaim { digest: self.content_digest.clone(), input, signature, key_id, created })
    }
}

/// An object with exactly these members: an unknown one is refused (Core Binding §7).
fn exactly<'a>(value: &'a Value, names: &[&str]) -> Result<&'a Map<String, Value>, AuthError> {
    let fits = |members: &&Map<String, Value>| {
        members.len() == names.len() && names.iter().all(|name| members.contains_key(*name))
    };
    let refused = || AuthError::Request(format!("expected an object with exactly {}", names.join(", ")));
    value.as_object().filter(fits).ok_or_else(refused)
}

impl OriginClaim {
    /// Whose proof it claims to be.
    #[must_use]
    pub fn did(&self) -> &Did {
        self.key_id.did()
    }

    /// The name of the key, and with it whose document is needed.
    #[must_use]
    pub const fn key_id(&self) -> &DidUrl {
        &self.key_id
    }

    /// Checks all that needs no document: sender, digest, times, the nonce's presence.
    ///
    /// # Errors
    /// Says what does not hold.
    pub fn check(&self, request: &OriginRequest<'_>, now: Timestamp, policy: &Policy) -> Result<(), AuthError> {
        if request.meta.get("sender_did").and_then(Value::as_str) != Some(self.key_id.did().as_str()) {
            return Err(AuthError::VerificationMethod("the key is not the one of meta.sender_did".to_owned()));
        }
        if self.digest != content_digest(&request.canonical()) {
            return Err(AuthError::ContentDigest("contentDigest is not the one of method, meta and body"));
        }
        if policy.nonce_required && self.input.nonce.as_deref().is_none_or(str::is_empty) {
            return Err(AuthError::Nonce("a nonce is required"));
        }
        policy.check(self.created, self.input.expires, now)
    }

    /// Checks the signature against the sender's document. What [`OriginClaim::check`] checks is not checked
    /// again.
    ///
    /// # Errors
    /// The document does not let the key authenticate, or the signature does not fit.
    pub fn verify(&self, request: &OriginRequest<'_>, document: &BoundDocument) -> Result<Verified, AuthError> {
        let key = document.authentication_key(&self.key_id)?;
        if self.input.alg.as_deref().is_some_and(|alg| !key.algorithm().answers_to(alg)) {
            return Err(AuthError::Signature("alg is not what the key signs with"));
        }
        let no_target = || AuthError::Request("meta.target needs kind and did".to_owned());
        let base = request.signature_base(&self.digest, &self.input.raw).ok_or_else(no_target)?;
        key.verify(base.as_bytes(), &self.signature)
            .map_err(|_| AuthError::Signature("the origin proof does not fit the request"))?;
        Ok(Verified {
            did: self.key_id.did().clone(),
            key_id: self.key_id.clone(),
            nonce: self.input.nonce.clone(),
            created: moment::from_seconds(self.created),
            expires: self.input.expires.map(moment::from_seconds),
        })
    }
}

/// Verifies an origin proof against the sender's document: the whole way in one step.
///
/// # Errors
/// Says what does not hold. The nonce is handed back, not remembered: that comes after.
pub fn verify_origin(
    proof: &OriginProof,
    request: &OriginRequest<'_>,
    document: &BoundDocument,
    now: Timestamp,
    policy: &Policy,
) -> Result<Verified, AuthError> {
    let claim = proof.claim()?;
    claim.check(request, now, policy)?;
    claim.verify(request, document)
}
