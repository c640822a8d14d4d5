//! Checks whether a document belongs to its DID (ANP-03 §3). The result is a type: only a [`BoundDidDocument`] can
//! authenticate a caller.

use nuncio_core::time::Timestamp;

use super::DidDocument;
use crate::did::{Did, DidKeyFingerprint, DidUrl};
use crate::error::DidAuthError;
use crate::keys::VerifyingKey;
use crate::proof::{ProofError, ProofSuite, UnverifiedProof};

/// A document that was fetched for a DID and verified to belong to it.
#[derive(Debug, Clone)]
pub struct BoundDidDocument {
    document: DidDocument,
    binding: DidDocumentBinding,
}

/// The evidence that a document belongs to its DID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DidDocumentBinding {
    /// The document is bound only by the domain that served it: a bare domain, or a path DID without a fingerprint.
    Domain,
    /// The document has a proof by the Ed25519 key whose thumbprint is in the DID.
    Ed25519,
    /// The document lists a secp256k1 authentication key whose thumbprint is in the DID.
    Secp256k1,
    /// There is no evidence but the publisher's statement: the document is deactivated and has no proof.
    Publisher,
}

/// Whether a `k1_` document also needs a valid proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum K1ProofRule {
    /// A key with the thumbprint in the DID is enough (ANP-03, appendix A).
    Optional,
    Required,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    #[error("the document is for {found}, not for {expected}")]
    OtherDid {
        /// The DID that the document was fetched for.
        expected: Did,
        /// The DID that the document names.
        found: Did,
    },
    /// The document has no proof, and an `e1_` DID needs one.
    #[error("a document of an e1_ DID needs a proof")]
    ProofMissing,
    #[error("the proof of the document is not valid: {0}")]
    Proof(#[from] ProofError),
    /// The proof has another suite or purpose than the DID requires.
    #[error("the proof must be a DataIntegrityProof with {0} for assertionMethod")]
    ProofKind(&'static str),
    /// The binding key is not listed under the named verification relationship.
    #[error("the binding key is not listed under {0}")]
    KeyNotListed(&'static str),
    /// No key has the thumbprint that is in the DID.
    #[error("no key matches the fingerprint in the DID")]
    Fingerprint,
}

impl From<BindingError> for DidAuthError {
    fn from(error: BindingError) -> Self {
        Self::Did(error.to_string())
    }
}

impl DidDocument {
    /// Checks that the document belongs to the DID it was fetched for.
    pub fn bind(self, expected: &Did, now: Timestamp, k1: K1ProofRule) -> Result<BoundDidDocument, BindingError> {
        if self.id != *expected {
            return Err(BindingError::OtherDid { expected: expected.clone(), found: self.id });
        }
        let binding = match expected.fingerprint() {
            DidKeyFingerprint::None => DidDocumentBinding::Domain,
            DidKeyFingerprint::E1(_) if self.deactivated && !self.whole.contains_key("proof") => {
                DidDocumentBinding::Publisher
            }
            DidKeyFingerprint::E1(thumbprint) => self.bind_e1(&thumbprint, now)?,
            DidKeyFingerprint::K1(thumbprint) => self.bind_k1(&thumbprint, now, k1)?,
        };
        Ok(BoundDidDocument { document: self, binding })
    }

    fn bind_e1(&self, thumbprint: &[u8; 32], now: Timestamp) -> Result<DidDocumentBinding, BindingError> {
        if !self.whole.contains_key("proof") {
            return Err(BindingError::ProofMissing);
        }
        let proof = UnverifiedProof::read(&self.whole)?;
        if proof.suite != ProofSuite::EddsaJcs2022 || proof.purpose != "assertionMethod" {
            return Err(BindingError::ProofKind("eddsa-jcs-2022"));
        }
        let id = self.own_key_name(proof.verification_method).ok_or(BindingError::KeyNotListed("assertionMethod"))?;
        if !self.may_assert(&id) {
            return Err(BindingError::KeyNotListed("assertionMethod"));
        }
        if !self.may_authenticate(&id) {
            return Err(BindingError::KeyNotListed("authentication"));
        }
        let key = self.verifying_key(&id).ok_or(BindingError::Fingerprint)?;
        if key.thumbprint_bytes() != *thumbprint {
            return Err(BindingError::Fingerprint);
        }
        proof.verify(&self.whole, key, now)?;
        Ok(DidDocumentBinding::Ed25519)
    }

    fn bind_k1(
        &self,
        thumbprint: &[u8; 32],
        now: Timestamp,
        k1: K1ProofRule,
    ) -> Result<DidDocumentBinding, BindingError> {
        let mut keys = self.methods.iter().filter_map(|method| Some((&method.id, method.verifying_key()?)));
        let (id, key) = keys.find(|(_, key)| key.thumbprint_bytes() == *thumbprint).ok_or(BindingError::Fingerprint)?;
        if !self.may_authenticate(id) {
            return Err(BindingError::KeyNotListed("authentication"));
        }
        if k1 == K1ProofRule::Required {
            let proof = UnverifiedProof::read(&self.whole)?;
            if proof.suite != ProofSuite::Secp256k1Jcs2025 || proof.purpose != "assertionMethod" {
                return Err(BindingError::ProofKind("didwba-jcs-ecdsa-secp256k1-2025"));
            }
            if self.own_key_name(proof.verification_method).as_ref() != Some(id) || !self.may_assert(id) {
                return Err(BindingError::KeyNotListed("assertionMethod"));
            }
            proof.verify(&self.whole, key, now)?;
        }
        Ok(DidDocumentBinding::Secp256k1)
    }

    /// Resolves an absolute or relative reference to a key of this document.
    fn own_key_name(&self, reference: &str) -> Option<DidUrl> {
        let id = match reference.strip_prefix('#') {
            Some(fragment) => DidUrl::new(self.id.clone(), fragment),
            None => DidUrl::parse(reference),
        };
        id.ok().filter(|id| *id.did() == self.id)
    }
}

impl BoundDidDocument {
    #[must_use]
    pub const fn document(&self) -> &DidDocument {
        &self.document
    }

    #[must_use]
    pub const fn did(&self) -> &Did {
        &self.document.id
    }

    #[must_use]
    pub const fn binding(&self) -> DidDocumentBinding {
        self.binding
    }

    /// Returns the key that a caller claims to have signed with.
    ///
    /// # Errors
    /// The DID is deactivated or superseded, or the key is missing, unusable or not listed under `authentication`.
    pub fn authentication_key(&self, id: &DidUrl) -> Result<&VerifyingKey, DidAuthError> {
        let document = &self.document;
        if *id.did() != document.id {
            return Err(DidAuthError::Did(format!("the document is for {}, not for {}", document.id, id.did())));
        }
        match &document.successor {
            Some(current) if document.deactivated => {
                return Err(DidAuthError::Superseded { requested: document.id.clone(), current: current.clone() });
            }
            _ if document.deactivated => return Err(DidAuthError::Did(format!("{} is deactivated", document.id))),
            _ => {}
        }
        let Some(method) = document.method(id) else {
            return Err(DidAuthError::VerificationMethod(format!("the document has no key {id}")));
        };
        if !document.may_authenticate(id) {
            return Err(DidAuthError::KeyNotAuthorised(id.to_string()));
        }
        let unusable = || DidAuthError::VerificationMethod(format!("the key {id} cannot verify these signatures"));
        method.verifying_key().ok_or_else(unusable)
    }

    /// Returns the key that signed a statement.
    ///
    /// # Errors
    /// The key belongs to another DID, or is missing, unusable or not listed under `assertionMethod`.
    pub fn assertion_key(&self, id: &DidUrl) -> Result<&VerifyingKey, ProofError> {
        let document = &self.document;
        if *id.did() != document.id {
            return Err(ProofError::IssuerMismatch);
        }
        if !document.may_assert(id) {
            return Err(ProofError::Unauthorised(id.to_string()));
        }
        document.verifying_key(id).ok_or_else(|| ProofError::KeyMissing(id.to_string()))
    }
}
