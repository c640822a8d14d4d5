//! Proofs on standalone objects such as receipts (Core Binding, appendix B).

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};

use super::sign::sign_in;
use super::{ProofContextRule, ProofEncoding, ProofError, ProofOptions, ProofSuite, UnverifiedProof};
use crate::did::{Did, DidUrl};
use crate::document::BoundDidDocument;
use crate::encoding::from_multibase;
use crate::keys::SigningKey;

/// Signs an object. Unlike in DID documents, `@context` is never part of the proof options.
pub fn sign_object(object: &mut Map<String, Value>, key: &SigningKey, options: &ProofOptions<'_>) {
    sign_in(object, key, options, ProofEncoding::Multibase, ProofContextRule::Apart);
}

/// Verifies that `issuer` signed the object, and returns the key.
pub fn verify_object(
    object: &Map<String, Value>,
    issuer: &Did,
    document: &BoundDidDocument,
    now: Timestamp,
) -> Result<DidUrl, ProofError> {
    if document.did() != issuer {
        return Err(ProofError::IssuerDocument);
    }
    let proof = UnverifiedProof::read(object)?;
    if proof.suite != ProofSuite::EddsaJcs2022 {
        return Err(ProofError::Type("anything but eddsa-jcs-2022".to_owned()));
    }
    if proof.purpose != "assertionMethod" {
        return Err(ProofError::Purpose(proof.purpose.to_owned()));
    }
    proof.created.ok_or(ProofError::Field("created"))?;
    proof.check_expiry(now)?;
    let unreadable = |_| ProofError::VerificationMethod(proof.verification_method.to_owned());
    let id = DidUrl::parse(proof.verification_method).map_err(unreadable)?;
    let key = document.assertion_key(&id)?;
    let signature = from_multibase(proof.value, 64).and_then(|bytes| bytes.try_into().ok()).ok_or(ProofError::Value)?;
    proof.verify_signature(object, key, &signature, ProofContextRule::Apart)?;
    Ok(id)
}
