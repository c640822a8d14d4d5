//! An agent's DID vouches for its bundle: whoever knows the DID knows the keys.

use nuncio_core::bundle::{BundleKeys, DidProof, KeyBundle};

use crate::did::DidUrl;
use crate::document::BoundDocument;
use crate::encoding::{base64url, base64url_exact};
use crate::keys::SigningKey;

/// Why a DID does not vouch for a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DidProofError {
    /// The bundle names no DID.
    #[error("no DID vouches for the bundle")]
    Missing,
    /// It is another DID's.
    #[error("the bundle is vouched for by another DID")]
    OtherDid,
    /// The DID is out of use.
    #[error("the DID that vouches is out of use")]
    Deactivated,
    /// The DID has no such key for statements.
    #[error("the DID has no such key, or not for statements (assertionMethod)")]
    Key,
    /// The signature does not hold.
    #[error("the DID's signature does not hold for these keys")]
    Signature,
}

/// Lets a DID vouch for a bundle's keys.
#[must_use]
pub fn vouch(keys: &BundleKeys, by: &DidUrl, key: &SigningKey) -> DidProof {
    DidProof {
        did: by.did().to_string(),
        verification_method: by.to_string(),
        signature: base64url(&key.sign(&keys.vouched())),
    }
}

/// Whether the DID of a document vouches for a bundle. That the agent is that DID is the caller's to know.
///
/// # Errors
/// It does not.
pub fn verify_did_proof(bundle: &KeyBundle, document: &BoundDocument) -> Result<(), DidProofError> {
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
