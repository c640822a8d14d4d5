//! DID documents (ANP-03 §2.3): reading what others publish, making our own, and whether one belongs to its DID.

mod binding;
mod build;
mod read;

pub use binding::{Binding, BindingError, BoundDocument, K1Proof};
pub use build::{KEY_FRAGMENT, NewDocument};
pub use read::{DocumentError, MAX_DOCUMENT_BYTES, Service, VerificationMethod};

use serde_json::{Map, Value};

use crate::did::{Did, DidUrl};
use crate::keys::VerifyingKey;

/// A document as it was published: readable, and nothing more. [`DidDocument::bind`] says whether it is its
/// DID's own.
#[derive(Debug, Clone)]
pub struct DidDocument {
    id: Did,
    whole: Map<String, Value>,
    methods: Vec<VerificationMethod>,
    authentication: Vec<String>,
    assertion: Vec<String>,
    services: Vec<Service>,
    deactivated: bool,
    successor: Option<Did>,
}

impl DidDocument {
    /// Whose document it says it is.
    #[must_use]
    pub const fn id(&self) -> &Did {
        &self.id
    }

    /// The whole document, unknown members included.
    #[must_use]
    pub const fn whole(&self) -> &Map<String, Value> {
        &self.whole
    }

    /// The keys it lists.
    #[must_use]
    pub fn methods(&self) -> &[VerificationMethod] {
        &self.methods
    }

    /// The services it lists.
    #[must_use]
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The first service of a type, such as `AgentDescription` or `ANPMessageService`.
    #[must_use]
    pub fn service(&self, kind: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.kind == kind)
    }

    /// Whether it says that its DID is out of use.
    #[must_use]
    pub const fn deactivated(&self) -> bool {
        self.deactivated
    }

    /// The DID that takes its place.
    #[must_use]
    pub const fn successor(&self) -> Option<&Did> {
        self.successor.as_ref()
    }

    /// The key of that name.
    #[must_use]
    pub fn method(&self, id: &DidUrl) -> Option<&VerificationMethod> {
        self.methods.iter().find(|method| method.id == *id)
    }

    /// Whether a key may authenticate.
    #[must_use]
    pub fn may_authenticate(&self, id: &DidUrl) -> bool {
        names(&self.authentication, id)
    }

    /// Whether a key may sign statements.
    #[must_use]
    pub fn may_assert(&self, id: &DidUrl) -> bool {
        names(&self.assertion, id)
    }

    /// The verifying key of that name, where it is one.
    #[must_use]
    pub fn verifying_key(&self, id: &DidUrl) -> Option<&VerifyingKey> {
        self.method(id).and_then(VerificationMethod::verifying_key)
    }
}

/// Whether a list of absolute references names a key; compared without building the name.
fn names(references: &[String], id: &DidUrl) -> bool {
    references.iter().any(|reference| {
        reference.split_once('#').is_some_and(|(did, fragment)| did == id.did().as_str() && fragment == id.fragment())
    })
}
