//! The proof that the text of ANP-07 defines: a signature over the SHA-256 of the canonical description, which includes
//! the proof without its `proofValue`, in base64url. The text does not bind the type of the proof to a key, so the key
//! determines the algorithm.

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::sign::unsigned;
use super::{ProofError, ProofOptions, without};
use crate::encoding::{base64url, base64url_exact};
use crate::jcs;
use crate::keys::{SigningKey, VerifyingKey};
use crate::rfc3339;

/// Signs a description in the literal form and replaces its existing proof.
pub fn sign_literal(description: &mut Map<String, Value>, key: &SigningKey, options: &ProofOptions<'_>) {
    // Verifiers of Data Integrity proofs do not know this type, so that they do not take the proof for a wrong one.
    let mut proof = unsigned(options, "Ed25519Signature2018", None);
    description.insert("proof".to_owned(), Value::Object(proof.clone()));
    let signature = key.sign(&hash(description));
    proof.insert("proofValue".to_owned(), json!(base64url(&signature)));
    description.insert("proof".to_owned(), Value::Object(proof));
}

pub(super) fn verify(description: &Map<String, Value>, key: &VerifyingKey, now: Timestamp) -> Result<(), ProofError> {
    let proof = description.get("proof").and_then(Value::as_object).ok_or(ProofError::Missing)?;
    let text = |name: &'static str| proof.get(name).and_then(Value::as_str);
    if let Some(expires) = text("expires")
        && rfc3339::read(expires).is_none_or(|expires| expires < now)
    {
        return Err(ProofError::Moment("expires"));
    }
    let value = text("proofValue").ok_or(ProofError::Field("proofValue"))?.trim_end_matches('=');
    let signature = base64url_exact::<64>(value).ok_or(ProofError::Value)?;
    let mut signed = description.clone();
    signed.insert("proof".to_owned(), Value::Object(without(proof, "proofValue")));
    key.verify(&hash(&signed), &signature).map_err(|_| ProofError::Signature)
}

fn hash(description: &Map<String, Value>) -> [u8; 32] {
    jcs::sha256(&jcs::canonical(&Value::Object(description.clone())))
}
