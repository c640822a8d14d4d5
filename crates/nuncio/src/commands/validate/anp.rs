//! ANP's documents: descriptions, OpenRPC, products, lists of agents, and DID documents.

use nuncio_anp::validate::{AnpDocumentType, AnpReport, DocumentFault, validate};
use nuncio_core::json::read;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_identity::{BindingError, DidDocument, K1ProofRule};
use nuncio_server::SystemClock;
use serde_json::Value;

use super::MAX_BYTES;
use crate::cli::DocumentKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnpDocumentKind {
    Of(AnpDocumentType),
    Did,
}

/// The ANP kind named with `--kind`, if it is one of ANP's.
pub(super) fn kind(kind: DocumentKind) -> Option<AnpDocumentKind> {
    match kind {
        DocumentKind::AgentDescription => Some(AnpDocumentKind::Of(AnpDocumentType::AgentDescription)),
        DocumentKind::Openrpc => Some(AnpDocumentKind::Of(AnpDocumentType::OpenRpc)),
        DocumentKind::Product => Some(AnpDocumentKind::Of(AnpDocumentType::Product)),
        DocumentKind::AgentList => Some(AnpDocumentKind::Of(AnpDocumentType::CollectionPage)),
        DocumentKind::DidDocument => Some(AnpDocumentKind::Did),
        _ => None,
    }
}

/// Detects whether a document is one of ANP's, and of which kind.
pub(super) fn detect(bytes: &[u8]) -> Option<AnpDocumentKind> {
    let document = read(bytes, MAX_BYTES).ok()?;
    let is_did = document.get("id").and_then(Value::as_str).is_some_and(|id| id.starts_with("did:"));
    if is_did || document.get("verificationMethod").is_some() {
        return Some(AnpDocumentKind::Did);
    }
    AnpDocumentType::of(&document).map(AnpDocumentKind::Of)
}

/// The name of the document kind, and every fault of the document.
pub(super) fn check(kind: AnpDocumentKind, bytes: &[u8]) -> (&'static str, Vec<DocumentFault>, Vec<DocumentFault>) {
    match kind {
        AnpDocumentKind::Of(kind) => {
            let AnpReport { errors, warnings, .. } = validate(kind, bytes);
            (kind.as_str(), errors, warnings)
        }
        AnpDocumentKind::Did => {
            let (errors, warnings) = did_document(bytes, SystemClock.now());
            ("DID document", errors, warnings)
        }
    }
}

/// Validates a DID document: its shape, and whether it belongs to its DID.
fn did_document(bytes: &[u8], now: Timestamp) -> (Vec<DocumentFault>, Vec<DocumentFault>) {
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
        warnings.push(fault("/deactivated", "says that the DID is out of use".to_owned()));
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
