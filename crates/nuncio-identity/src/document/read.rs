//! Parses DID documents: unknown members are kept, sizes are limited.

use serde::Serialize;
use serde_json::{Map, Value};

use super::DidDocument;
use crate::did::{Did, DidUrl};
use crate::keys::{VerificationMethodKey, VerifyingKey};

pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
/// Limit for keys, for services, and for references under each verification relationship.
const MAX_ENTRIES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct DidDocumentError {
    /// JSON pointer to the faulty member of the document.
    pub at: String,
    pub what: String,
}

impl DidDocumentError {
    fn new(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into() }
    }
}

/// A verification method: a key of a DID document.
#[derive(Debug, Clone)]
pub struct VerificationMethod {
    pub id: DidUrl,
    /// The `type` of the verification method, as written.
    pub kind: String,
    pub key: VerificationMethodKey,
}

impl VerificationMethod {
    /// Returns the key if it can verify signatures.
    #[must_use]
    pub const fn verifying_key(&self) -> Option<&VerifyingKey> {
        match &self.key {
            VerificationMethodKey::Verifying(key) => Some(key),
            VerificationMethodKey::Agreement(_) | VerificationMethodKey::Unusable(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DidService {
    pub id: String,
    /// The `type` member, such as `AgentDescription` or `ANPMessageService`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(rename = "serviceEndpoint")]
    pub endpoint: String,
    /// The DID that signs messages of the service to other domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_did: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_profiles: Vec<String>,
}

impl DidDocument {
    pub fn from_slice(bytes: &[u8]) -> Result<Self, DidDocumentError> {
        if bytes.len() > MAX_DOCUMENT_BYTES {
            return Err(DidDocumentError::new(
                "",
                format!("a DID document must have at most {MAX_DOCUMENT_BYTES} bytes"),
            ));
        }
        let whole: Value =
            serde_json::from_slice(bytes).map_err(|fault| DidDocumentError::new("", fault.to_string()))?;
        Self::from_json(whole)
    }

    pub fn from_json(whole: Value) -> Result<Self, DidDocumentError> {
        let Value::Object(whole) = whole else {
            return Err(DidDocumentError::new("", "a DID document must be an object"));
        };
        let text =
            whole.get("id").and_then(Value::as_str).ok_or_else(|| DidDocumentError::new("/id", "must be a DID"))?;
        let id = Did::parse(text).map_err(|fault| DidDocumentError::new("/id", fault.to_string()))?;
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
            Some(_) => return Err(DidDocumentError::new("/deactivated", "must be true or false")),
        };
        if let Some(successor) = whole.get("successorDid") {
            let text = successor.as_str().ok_or_else(|| DidDocumentError::new("/successorDid", "must be a DID"))?;
            let fault = |fault: crate::did::DidParseError| DidDocumentError::new("/successorDid", fault.to_string());
            document.successor = Some(Did::parse(text).map_err(fault)?);
        }
        document.whole = whole;
        Ok(document)
    }

    /// Adds a verification method. A method with another controller, or under another DID, is skipped.
    fn add_method(&mut self, at: &str, entry: &Value) -> Result<Option<String>, DidDocumentError> {
        let method =
            entry.as_object().ok_or_else(|| DidDocumentError::new(at, "a verification method must be an object"))?;
        let text = |name: &str| {
            let fault = || DidDocumentError::new(format!("{at}/{name}"), "must be a text");
            method.get(name).and_then(Value::as_str).ok_or_else(fault)
        };
        let id = absolute(&self.id, text("id")?);
        let kind = text("type")?;
        let foreign = method.get("controller").is_some_and(|controller| controller != self.id.as_str());
        let Some(id) = DidUrl::parse(&id).ok().filter(|id| *id.did() == self.id && !foreign) else {
            return Ok(None);
        };
        if self.method(&id).is_some() {
            return Err(DidDocumentError::new(format!("{at}/id"), format!("{id} occurs twice")));
        }
        if self.methods.len() >= MAX_ENTRIES {
            return Err(DidDocumentError::new(at, format!("a document must have at most {MAX_ENTRIES} keys")));
        }
        let name = id.to_string();
        self.methods.push(VerificationMethod {
            id,
            kind: kind.to_owned(),
            key: VerificationMethodKey::read(kind, method),
        });
        Ok(Some(name))
    }

    /// Reads the keys of one verification relationship: references (absolute or relative), or keys written inline.
    fn references(&mut self, whole: &Map<String, Value>, name: &str) -> Result<Vec<String>, DidDocumentError> {
        let mut references = Vec::new();
        for (at, entry) in list(whole, name)? {
            match entry {
                Value::String(reference) => references.push(absolute(&self.id, reference)),
                Value::Object(_) => references.extend(self.add_method(&at, entry)?),
                _ => return Err(DidDocumentError::new(at, "must be the name of a key, or a key")),
            }
        }
        Ok(references)
    }
}

fn absolute(id: &Did, reference: &str) -> String {
    if reference.starts_with('#') { format!("{id}{reference}") } else { reference.to_owned() }
}

/// Returns the entries of an array member with their JSON pointers; none if the member is absent.
fn list<'a>(whole: &'a Map<String, Value>, name: &str) -> Result<Vec<(String, &'a Value)>, DidDocumentError> {
    let entries = match whole.get(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries.as_slice(),
        Some(_) => return Err(DidDocumentError::new(format!("/{name}"), "must be a list")),
    };
    if entries.len() > MAX_ENTRIES {
        return Err(DidDocumentError::new(format!("/{name}"), format!("may have at most {MAX_ENTRIES} entries")));
    }
    Ok(entries.iter().enumerate().map(|(at, entry)| (format!("/{name}/{at}"), entry)).collect())
}

/// Parses a service entry. Services with endpoints of another shape, which other DID methods use, are skipped.
fn service(id: &Did, at: &str, entry: &Value) -> Result<Option<DidService>, DidDocumentError> {
    let entry = entry.as_object().ok_or_else(|| DidDocumentError::new(at, "a service must be an object"))?;
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let (Some(name), Some(kind), Some(endpoint)) = (text("id"), text("type"), text("serviceEndpoint")) else {
        return Ok(None);
    };
    let texts = |name: &str| {
        let entries = entry.get(name).and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(Value::as_str).map(str::to_owned).take(MAX_ENTRIES).collect()
    };
    Ok(Some(DidService {
        id: absolute(id, name),
        kind: kind.to_owned(),
        endpoint: endpoint.to_owned(),
        service_did: text("serviceDid").map(str::to_owned),
        profiles: texts("profiles"),
        security_profiles: texts("securityProfiles"),
    }))
}
