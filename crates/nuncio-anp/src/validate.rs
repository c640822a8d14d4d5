//! Validates ANP documents and reports every error with its location.
//!
//! A violation of the specification is an error; allowed content that existing software misreads or refuses is a
//! warning. Proofs and DIDs are not checked here, because that needs keys and a network.

mod description;
mod openrpc;
mod product;
mod security;
mod validator;

use nuncio_core::json::{self, JsonDocumentError};
use nuncio_core::schema::{MAX_DEPTH, depth};
use nuncio_core::string_enum;
use serde_json::Value;

pub use nuncio_core::report::{DocumentFault, MAX_FAULTS};

use crate::wire::{AgentDescription, Product};
use validator::{AnpDocumentValidator, LocatedJsonValue};

pub type AnpValidationReport = nuncio_core::report::DocumentValidationReport<AnpDocumentType>;

#[must_use]
pub fn validate(kind: AnpDocumentType, document: &[u8]) -> AnpValidationReport {
    match json::read(document, kind.max_bytes()) {
        Ok(value) => check(kind, &value),
        Err(error) => AnpValidationReport::unreadable(kind, &error),
    }
}

/// Validates a document that is already parsed JSON.
#[must_use]
pub fn check(kind: AnpDocumentType, document: &Value) -> AnpValidationReport {
    if depth(document) > MAX_DEPTH {
        return AnpValidationReport::unreadable(kind, &JsonDocumentError::TooDeep);
    }
    let mut validator = AnpDocumentValidator::default();
    let check = match kind {
        AnpDocumentType::AgentDescription => description::check,
        AnpDocumentType::OpenRpc => openrpc::check,
        AnpDocumentType::Product => product::check,
        AnpDocumentType::CollectionPage => description::check_page,
    };
    let node = LocatedJsonValue::root(document);
    if validator.object(&node) {
        check(&mut validator, &node);
    }
    AnpValidationReport::new(kind, validator.errors, validator.warnings)
}

string_enum! {
    pub enum AnpDocumentType {
        /// An agent description (ANP-07).
        AgentDescription = "AgentDescription",
        /// An OpenRPC interface document (ANP-07).
        OpenRpc = "OpenRPC",
        /// A product document (ANP-07).
        Product = "Product",
        /// A page of a host's agents (ANP-08).
        CollectionPage = "CollectionPage",
    }
}

impl AnpDocumentType {
    /// Maximum size of a document of this kind, in bytes.
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::AgentDescription | Self::OpenRpc => 4 << 20,
            Self::Product | Self::CollectionPage => 1 << 20,
        }
    }

    #[must_use]
    pub fn of(document: &Value) -> Option<Self> {
        if document.get("openrpc").is_some() {
            return Some(Self::OpenRpc);
        }
        if document.get("@type").and_then(Value::as_str) == Some("CollectionPage") {
            return Some(Self::CollectionPage);
        }
        let is_anp = document.get("protocolType").is_some() || document.get("securityDefinitions").is_some();
        match document.get("type").and_then(Value::as_str) {
            Some(AgentDescription::TYPE) => Some(Self::AgentDescription),
            // Some software writes agent descriptions as products.
            Some(Product::TYPE) if document.get("interfaces").is_some() => Some(Self::AgentDescription),
            Some(Product::TYPE) if is_anp => Some(Self::Product),
            _ => document.get("securityDefinitions").map(|_| Self::AgentDescription),
        }
    }
}
