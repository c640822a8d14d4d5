//! DID documents (ANP-03 §2.3): parsing, building and signing them, and checking that a document belongs to its DID.

mod binding;
mod build;
mod read;

pub use binding::{BindingError, BoundDidDocument, DidDocumentBinding, K1ProofRule};
pub use build::{KEY_FRAGMENT, NewDidDocument};
pub use read::{DidDocumentError, DidService, MAX_DOCUMENT_BYTES, VerificationMethod};

use serde_json::{Map, Value};

use crate::did::{Did, DidUrl};
use crate::keys::VerifyingKey;

/// A parsed DID document that is not verified. [`DidDocument::bind`] checks that it belongs to its DID.
#[derive(Debug, Clone)]
pub struct DidDocument {
    id: Did,
    whole: Map<String, Value>,
    methods: Vec<VerificationMethod>,
    authentication: Vec<String>,
    assertion: Vec<String>,
    services: Vec<DidService>,
    deactivated: bool,
    successor: Option<Did>,
}

impl DidDocument {
    /// The `id` that the document claims.
    #[must_use]
    pub const fn id(&self) -> &Did {
        &self.id
    }

    /// The complete JSON object, including unknown members.
    #[must_use]
    pub const fn whole(&self) -> &Map<String, Value> {
        &self.whole
    }

    #[must_use]
    pub fn methods(&self) -> &[VerificationMethod] {
        &self.methods
    }

    #[must_use]
    pub fn services(&self) -> &[DidService] {
        &self.services
    }

    /// The first service of a type, such as `AgentDescription` or `ANPMessageService`.
    #[must_use]
    pub fn service(&self, kind: &str) -> Option<&DidService> {
        self.services.iter().find(|service| service.kind == kind)
    }

    #[must_use]
    pub const fn deactivated(&self) -> bool {
        self.deactivated
    }

    /// `successorDid`: the DID that replaces this one.
    #[must_use]
    pub const fn successor(&self) -> Option<&Did> {
        self.successor.as_ref()
    }

    #[must_use]
    pub fn method(&self, id: &DidUrl) -> Option<&VerificationMethod> {
        self.methods.iter().find(|method| method.id == *id)
    }

    /// Returns whether the key is listed under `authentication`.
    #[must_use]
    pub fn may_authenticate(&self, id: &DidUrl) -> bool {
        names(&self.authentication, id)
    }

    /// Returns whether the key is listed under `assertionMethod`.
    #[must_use]
    pub fn may_assert(&self, id: &DidUrl) -> bool {
        names(&self.assertion, id)
    }

    #[must_use]
    pub fn verifying_key(&self, id: &DidUrl) -> Option<&VerifyingKey> {
        self.method(id).and_then(VerificationMethod::verifying_key)
    }
}

/// Returns whether a list of absolute references contains a key, without allocating the reference.
fn names(references: &[String], id: &DidUrl) -> bool {
    references.iter().any(|reference| {
        reference.split_once('#').is_some_and(|(did, fragment)| did == id.did().as_str() && fragment == id.fragment())
    })
}
