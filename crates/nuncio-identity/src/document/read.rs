//! Reading a document: open to members it does not know, closed to sizes nobody needs.

use serde_json::{Map, Value};

use super::DidDocument;
use crate::did::{Did, DidUrl};
use crate::keys::{MethodKey, VerifyingKey};

/// The largest document that is read.
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
/// How many keys, references of one kind or services a document may list.
const MAX_ENTRIES: usize = 64;

/// What is wrong with a document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct DocumentError {
    /// A JSON pointer to the place.
    pub at: String,
    /// What is wrong there.
    pub what: String,
}

impl DocumentError {
    fn new(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into() }
    }

    /// The stable word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        "did_document_invalid"
    }
}

/// A key of a document.
#[derive(Debug, Clone)]
pub struct VerificationMethod {
    /// Its name.
    pub id: DidUrl,
    /// Its type, as written.
    pub kind: String,
    /// What it holds.
    pub key: MethodKey,
}

impl VerificationMethod {
    /// The key, where it verifies signatures.
    #[must_use]
    pub const fn verifying_key(&self) -> Option<&VerifyingKey> {
        match &self.key {
            MethodKey::Verifying(key) => Some(key),
            MethodKey::Agreement(_) | MethodKey::Unusable(_) => None,
        }
    }
}

/// A service of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name: the DID, `#` and a fragment.
    pub id: String,
    /// Its type, such as `AgentDescription` or `ANPMessageService`.
    pub kind: String,
    /// Its address.
    pub endpoint: String,
    /// The DID that signs what the service sends to other domains.
    pub service_did: Option<String>,
    /// Profiles it hints at.
    pub profiles: Vec<String>,
    /// Security profiles it hints at.
    pub security_profiles: Vec<String>,
}

impl DidDocument {
    /// Reads a document from its bytes.
    ///
    /// # Errors
    /// It is too large, no JSON, or not of the shape of a DID document.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() > MAX_DOCUMENT_BYTES {
            return Err(DocumentError::new("", format!("a DID document has at most {MAX_DOCUMENT_BYTES} bytes")));
        }
        let whole: Value = serde_json::from_slice(bytes).map_err(|fault| DocumentError::new("", fault.to_string()))?;
        Self::from_json(whole)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// It is not of the shape of a DID document.
    pub fn from_json(whole: Value) -> Result<Self, DocumentError> {
        let Value::Object(whole) = whole else {
            return Err(DocumentError::new("", "a DID document is an object"));
        };
        let text = whole.get("id").and_then(Value::as_str).ok_or_else(|| DocumentError::new("/id", "must be a DID"))?;
        let id = Did::parse(text).map_err(|fault| DocumentError::new("/id", fault.to_string()))?;
        let mut document = Self {
            methods: Vec::new(),
            authentication: Vec::new(),
            assertion: Vec::new(),
            services: Vec::new(),
            deactivated: false,
            successor: None,
            id,
            whole: Map::new(),
        };
        for (at, entry) in list(&whole, "verificationMethod")? {
            document.add_method(&at, entry)?;
        }
        document.authentication = document.references(&whole, "authentication")?;
        document.assertion = document.references(&whole, "assertionMethod")?;
        for (at, entry) in list(&whole, "service")? {
            document.services.extend(service(&document.id, &at, entry)?);
        }
        document.deactivated = match whole.get("deactivated") {
            None => false,
            Some(Value::Bool(value)) => *value,
            Some(_) => return Err(DocumentError::new("/deactivated", "must be true or false")),
        };
        if let Some(successor) = whole.get("successorDid") {
            let text = successor.as_str().ok_or_else(|| DocumentError::new("/successorDid", "must be a DID"))?;
            let fault = |fault: crate::did::DidError| DocumentError::new("/successorDid", fault.to_string());
            document.successor = Some(Did::parse(text).map_err(fault)?);
        }
        document.whole = whole;
        Ok(document)
    }

    /// Adds a key. One with another controller, or under another DID, is not this document's to use.
    fn add_method(&mut self, at: &str, entry: &Value) -> Result<Option<String>, DocumentError> {
        let method = entry.as_object().ok_or_else(|| DocumentError::new(at, "a verification method is an object"))?;
        let text = |name: &str| {
            let fault = || DocumentError::new(format!("{at}/{name}"), "must be a text");
            method.get(name).and_then(Value::as_str).ok_or_else(fault)
        };
        let id = absolute(&self.id, text("id")?);
        let kind = text("type")?;
        let foreign = method.get("controller").is_some_and(|controller| controller != self.id.as_str());
        let Some(id) = DidUrl::parse(&id).ok().filter(|id| *id.did() == self.id && !foreign) else {
            return Ok(None);
        };
        if self.method(&id).is_some() {
            return Err(DocumentError::new(format!("{at}/id"), format!("{id} is there twice")));
        }
        if self.methods.len() >= MAX_ENTRIES {
            return Err(DocumentError::new(at, format!("a document lists at most {MAX_ENTRIES} keys")));
        }
        let name = id.to_string();
        self.methods.push(VerificationMethod { id, kind: kind.to_owned(), key: MethodKey::read(kind, method) });
        Ok(Some(name))
    }

    /// Reads the keys of one purpose: names, absolute or not, or keys written out in place.
    fn references(&mut self, whole: &Map<String, Value>, name: &str) -> Result<Vec<String>, DocumentError> {
        let mut references = Vec::new();
        for (at, entry) in list(whole, name)? {
            match entry {
                Value::String(reference) => references.push(absolute(&self.id, reference)),
                Value::Object(_) => references.extend(self.add_method(&at, entry)?),
                _ => return Err(DocumentError::new(at, "must be the name of a key, or a key")),
            }
        }
        Ok(references)
    }
}

fn absolute(id: &Did, reference: &str) -> String {
    if reference.starts_with('#') { format!("{id}{reference}") } else { reference.to_owned() }
}

/// The entries of a member that is a list, with their places; none where there is no such member.
fn list<'a>(whole: &'a Map<String, Value>, name: &str) -> Result<Vec<(String, &'a Value)>, DocumentError> {
    let entries = match whole.get(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries.as_slice(),
        Some(_) => return Err(DocumentError::new(format!("/{name}"), "must be a list")),
    };
    if entries.len() > MAX_ENTRIES {
        return Err(DocumentError::new(format!("/{name}"), format!("may have at most {MAX_ENTRIES} entries")));
    }
    Ok(entries.iter().enumerate().map(|(at, entry)| (format!("/{name}/{at}"), entry)).collect())
}

/// Reads a service. DID documents of other trades may have endpoints of other shapes; those are passed over.
fn service(id: &Did, at: &str, entry: &Value) -> Result<Option<Service>, DocumentError> {
    let entry = entry.as_object().ok_or_else(|| DocumentError::new(at, "a service is an object"))?;
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let (Some(name), Some(kind), Some(endpoint)) = (text("id"), text("type"), text("serviceEndpoint")) else {
        return Ok(None);
    };
    let texts = |name: &str| {
        let entries = entry.get(name).and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(Value::as_str).map(str::to_owned).take(MAX_ENTRIES).collect()
    };
    Ok(Some(Service {
        id: absolute(id, name),
        kind: kind.to_owned(),
        endpoint: endpoint.to_owned(),
        service_did: text("serviceDid").map(str::to_owned),
        profiles: texts("profiles"),
        security_profiles: texts("securityProfiles"),
    }))
}
