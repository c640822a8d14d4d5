//! Validation of DID documents.

use nuncio_core::json::read;
use nuncio_core::report::DocumentFault;
use nuncio_core::time::Timestamp;
use nuncio_identity::{BindingError, DidDocument, K1ProofRule};
use serde_json::Value;

/// The errors and warnings of a DID document: its shape, and whether it belongs to its DID.
pub(super) fn check(bytes: &[u8], now: Timestamp) -> (Vec<DocumentFault>, Vec<DocumentFault>) {
    let fault = |path: &str, message: String| DocumentFault::new(path, message, Value::Null, Value::Null);
    let document = match read(bytes, nuncio_identity::document::MAX_DOCUMENT_BYTES) {
        Ok(document) => document,
        Err(why) => return (DocumentFault::unreadable(&why), Vec::new()),
    };
    let document = match DidDocument::from_json(document) {
        Ok(document) => document,
        Err(error) => return (vec![fault(&error.at, error.what)], Vec::new()),
    };
    let mut warnings = Vec::new();
    if document.service("AgentDescription").is_none() {
        warnings.push(fault("/service", "has no AgentDescription, so the agent cannot be found by its DID".to_owned()));
    }
    if document.deactivated() {
        warnings.push(fault("/deactivated", "says that the DID is deactivated".to_owned()));
    }
    let did = document.id().clone();
    let errors = match document.bind(&did, now, K1ProofRule::Optional) {
        Ok(_) => Vec::new(),
        Err(error) => {
            let path = match &error {
                BindingError::KeyNotListed("authentication") => "/authentication",
                BindingError::KeyNotListed(_) => "/assertionMethod",
                BindingError::Fingerprint => "/verificationMethod",
                BindingError::OtherDid { .. } => "/id",
                BindingError::ProofMissing | BindingError::Proof(_) | BindingError::ProofKind(_) => "/proof",
            };
            vec![fault(path, error.to_string())]
        }
    };
    (errors, warnings)
}
