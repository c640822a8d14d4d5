//! Data Integrity proofs in JSON documents (ANP-03 §3, ANP Core Binding appendix B, ANP-07). The signature covers the
//! hash of the proof options followed by the hash of the document.

mod description;
mod literal;
mod object;
mod sign;

pub use description::{
    AcceptedProofForms, AllowedProofSigner, DescriptionProofForm, DescriptionProofRules, verify_description,
};
pub use literal::sign_literal;
pub use object::{sign_object, verify_object};
pub use sign::{ProofEncoding, ProofOptions, sign};

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::encoding::{base64url_exact, from_multibase};
use crate::jcs;
use crate::keys::{SignatureAlgorithm, VerifyingKey};
use crate::rfc3339;

/// Signature suite of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofSuite {
    /// `DataIntegrityProof` with `eddsa-jcs-2022`, the suite we write.
    EddsaJcs2022,
    /// `DataIntegrityProof` with `didwba-jcs-ecdsa-secp256k1-2025`.
    Secp256k1Jcs2025,
    /// `Ed25519Signature2020` in the variant of ANP's SDK.
    Ed25519Signature2020,
    /// `EcdsaSecp256k1Signature2019` in the variant of ANP's SDK.
    EcdsaSecp256k1Signature2019,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    #[error("there is no proof, or it is not one object")]
    Missing,
    /// The named member is missing or not a string.
    #[error("the proof has no text member {0}")]
    Field(&'static str),
    #[error("proofs of type {0:?} are not supported")]
    Type(String),
    #[error("the purpose of the proof must be assertionMethod, not {0:?}")]
    Purpose(String),
    /// The named timestamp is not RFC 3339 with a time zone, or is in the past.
    #[error("{0} of the proof is not a time such as 2026-01-01T00:00:00Z, or has passed")]
    Moment(&'static str),
    #[error("the proof must name its key by a full DID URL, not {0:?}")]
    VerificationMethod(String),
    #[error("proofValue is not a signature of 64 bytes in the right encoding")]
    Value,
    #[error("the issuer's document is for another DID")]
    IssuerDocument,
    /// The key belongs to another DID than the issuer's.
    #[error("the key of the proof is not the issuer's")]
    IssuerMismatch,
    /// The key is not listed under `assertionMethod`.
    #[error("{0} is not listed under assertionMethod")]
    Unauthorised(String),
    #[error("the issuer's document has no usable key {0}")]
    KeyMissing(String),
    /// The proof is restricted to another host, or its challenge is missing or wrong.
    #[error("the proof is for another recipient: {0}")]
    Audience(&'static str),
    #[error("the @context of the proof is not the document's")]
    ContextRule,
    #[error("the signature of the proof does not match the document")]
    Signature,
}

/// A parsed proof that is not verified.
#[derive(Debug, Clone)]
pub struct UnverifiedProof<'a> {
    pub suite: ProofSuite,
    pub purpose: &'a str,
    /// Reference to the key that made the proof, as written.
    pub verification_method: &'a str,
    pub created: Option<Timestamp>,
    pub expires: Option<Timestamp>,
    /// Host that the proof is restricted to.
    pub domain: Option<&'a str>,
    /// Challenge of the verifier that the proof must contain.
    pub challenge: Option<&'a str>,
    value: &'a str,
    members: &'a Map<String, Value>,
}

/// Whether the document's `@context` enters the hash of the proof options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProofContextRule {
    /// The `@context` is part of the signed options, as W3C Data Integrity specifies.
    WithOptions,
    /// The `@context` is left out, as in the older form of ANP's SDK and in object proofs.
    Apart,
}

impl<'a> UnverifiedProof<'a> {
    /// Parses the `proof` member of a document.
    pub fn read(document: &'a Map<String, Value>) -> Result<Self, ProofError> {
        let members = document.get("proof").and_then(Value::as_object).ok_or(ProofError::Missing)?;
        let optional = |name: &'static str| match members.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(ProofError::Field(name)),
        };
        let text = |name: &'static str| optional(name)?.ok_or(ProofError::Field(name));
        let moment = |name: &'static str| {
            optional(name)?.map(|text| rfc3339::read(text).ok_or(ProofError::Moment(name))).transpose()
        };
        Ok(Self {
            suite: ProofSuite::read(text("type")?, optional("cryptosuite")?)?,
            purpose: text("proofPurpose")?,
            verification_method: text("verificationMethod")?,
            created: moment("created")?,
            expires: moment("expires")?,
            domain: optional("domain")?,
            challenge: optional("challenge")?,
            value: text("proofValue")?,
            members,
        })
    }

    /// Verifies the proof over the document, in multibase or base64url encoding. The caller checks purpose, host and
    /// challenge, and that `key` is one of the issuer's.
    ///
    /// # Errors
    ///
    /// The signature does not match, or the proof has expired.
    pub fn verify(&self, document: &Map<String, Value>, key: &VerifyingKey, now: Timestamp) -> Result<(), ProofError> {
        self.check_expiry(now)?;
        let data_integrity = matches!(self.suite, ProofSuite::EddsaJcs2022 | ProofSuite::Secp256k1Jcs2025);
        // 64 bytes take 87 or 88 characters in base58 and 86 in base64url, so a text is never valid in both.
        let (signature, context) = match from_multibase(self.value, 64).and_then(|bytes| bytes.try_into().ok()) {
            Some(signature) if data_integrity => (signature, ProofContextRule::WithOptions),
            _ => (base64url_exact::<64>(self.value).ok_or(ProofError::Value)?, ProofContextRule::Apart),
        };
        self.verify_signature(document, key, &signature, context)
    }

    fn check_expiry(&self, now: Timestamp) -> Result<(), ProofError> {
        if self.expires.is_some_and(|expires| expires < now) {
            return Err(ProofError::Moment("expires"));
        }
        Ok(())
    }

    fn verify_signature(
        &self,
        document: &Map<String, Value>,
        key: &VerifyingKey,
        signature: &[u8; 64],
        context: ProofContextRule,
    ) -> Result<(), ProofError> {
        if key.algorithm() != self.suite.algorithm() {
            return Err(ProofError::Signature);
        }
        let input = signing_input(document, self.members, context)?;
        key.verify(&input, signature).map_err(|_| ProofError::Signature)
    }
}

impl ProofSuite {
    fn read(kind: &str, cryptosuite: Option<&str>) -> Result<Self, ProofError> {
        match (kind, cryptosuite) {
            ("DataIntegrityProof", Some("eddsa-jcs-2022")) => Ok(Self::EddsaJcs2022),
            ("DataIntegrityProof", Some("didwba-jcs-ecdsa-secp256k1-2025")) => Ok(Self::Secp256k1Jcs2025),
            ("Ed25519Signature2020", None) => Ok(Self::Ed25519Signature2020),
            ("EcdsaSecp256k1Signature2019", None) => Ok(Self::EcdsaSecp256k1Signature2019),
            (kind, Some(suite)) => Err(ProofError::Type(format!("{kind}/{suite}"))),
            (kind, None) => Err(ProofError::Type(kind.to_owned())),
        }
    }

    const fn algorithm(self) -> SignatureAlgorithm {
        match self {
            Self::EddsaJcs2022 | Self::Ed25519Signature2020 => SignatureAlgorithm::Ed25519,
            Self::Secp256k1Jcs2025 | Self::EcdsaSecp256k1Signature2019 => SignatureAlgorithm::Secp256k1,
        }
    }
}

/// The signed bytes: the hash of the proof options, then the hash of the document without its proof.
fn signing_input(
    document: &Map<String, Value>,
    proof: &Map<String, Value>,
    context: ProofContextRule,
) -> Result<[u8; 64], ProofError> {
    let mut options = without(proof, "proofValue");
    if context == ProofContextRule::WithOptions
        && let Some(found) = document.get("@context")
    {
        if proof.get("@context").is_some_and(|given| given != found) {
            return Err(ProofError::ContextRule);
        }
        options.insert("@context".to_owned(), found.clone());
    }
    let mut input = [0; 64];
    input[..32].copy_from_slice(&jcs::sha256(&jcs::canonical(&Value::Object(options))));
    input[32..].copy_from_slice(&jcs::sha256(&jcs::canonical(&Value::Object(without(document, "proof")))));
    Ok(input)
}

fn without(members: &Map<String, Value>, name: &str) -> Map<String, Value> {
    members.iter().filter(|(given, _)| *given != name).map(|(name, value)| (name.clone(), value.clone())).collect()
}
