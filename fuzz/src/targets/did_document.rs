//! DID documents: every document is read or refused, and a bound document belongs to the DID it was fetched for.

use nuncio_core::time::Timestamp;
use nuncio_identity::{DidDocument, K1ProofRule};

use crate::seeds::objects_with;

pub fn run(data: &[u8]) {
    let Ok(document) = DidDocument::from_slice(data) else { return };
    let (did, services) = (document.id().clone(), document.services().len());
    assert!(document.methods().iter().all(|method| document.method(&method.id).is_some()));
    if let Ok(bound) = document.bind(&did, Timestamp::from_millis(1_767_225_600_000), K1ProofRule::Optional) {
        assert_eq!((bound.document().id(), bound.document().services().len()), (&did, services));
    }
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    objects_with("verificationMethod", include_str!("../../../crates/nuncio-identity/tests/data/did_documents.json"))
}
