//! Signatures of an agent's DID on its key bundle, so that peers who know the DID can verify the keys.

use nuncio_core::bundle::{BundleKeys, KeyBundle, KeyBundleDidProof};

use crate::did::DidUrl;
use crate::document::BoundDidDocument;
use crate::encoding::{base64url, base64url_exact};
use crate::keys::SigningKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DidProofError {
    #[error("no DID has signed the bundle")]
    Missing,
    #[error("the bundle is signed by another DID")]
    OtherDid,
    #[error("the DID that signed the bundle is deactivated")]
    Deactivated,
    /// The DID document has no such key under `assertionMethod`.
    #[error("the DID has no such key, or not for statements (assertionMethod)")]
    Key,
    #[error("the DID's signature is not valid for these keys")]
    Signature,
}

/// Signs the keys of a bundle with a DID's key.
#[must_use]
pub fn sign_did_proof(keys: &BundleKeys, by: &DidUrl, key: &SigningKey) -> KeyBundleDidProof {
    KeyBundleDidProof {
        did: by.did().to_string(),
        verification_method: by.to_string(),
        signature: base64url(&key.sign(&keys.vouched())),
    }
}

/// Verifies that the DID of the document signed the bundle's keys. The caller must know that the agent has this DID.
pub fn verify_did_proof(bundle: &KeyBundle, document: &BoundDidDocument) -> Result<(), DidProofError> {
    let proof = bundle.did.as_ref().ok_or(DidProofError::Missing)?;
    if proof.did != document.did().as_str() {
        return Err(DidProofError::OtherDid);
    }
    if document.document().deactivated() {
        return Err(DidProofError::Deactivated);
    }
    let method = DidUrl::parse(&proof.verification_method).map_err(|_| DidProofError::Key)?;
    let key = document.assertion_key(&method).map_err(|_| DidProofError::Key)?;
    let signature = base64url_exact::<64>(&proof.signature).ok_or(DidProofError::Signature)?;
    key.verify(&bundle.keys.vouched(), &signature).map_err(|_| DidProofError::Signature)
}
