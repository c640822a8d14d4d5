//! Builds and signs our own DID documents.

use nuncio_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::DidService;
use crate::did::{Did, DidParseError};
use crate::keys::SigningKey;
use crate::proof::{self, ProofEncoding, ProofOptions};

/// Fragment of the one key in documents built by this crate, which signs documents and requests.
pub const KEY_FRAGMENT: &str = "key-1";

/// Content of a DID document with one Ed25519 key, optional services and a proof.
#[derive(Debug, Clone)]
pub struct NewDidDocument<'a> {
    pub did: &'a Did,
    pub services: Vec<DidService>,
    /// The DID that replaces this one. A document with a successor is marked as deactivated.
    pub successor: Option<&'a Did>,
    /// Signing time of the proof.
    pub created: Timestamp,
    pub encoding: ProofEncoding,
    /// Host that the proof is restricted to.
    pub domain: Option<&'a str>,
    /// Challenge of a verifier, copied into the proof.
    pub challenge: Option<&'a str>,
}

impl<'a> NewDidDocument<'a> {
    /// Content of a new DID document without services, successor, domain or challenge.
    #[must_use]
    pub const fn new(did: &'a Did, created: Timestamp) -> Self {
        Self {
            did,
            services: Vec::new(),
            successor: None,
            created,
            encoding: ProofEncoding::Multibase,
            domain: None,
            challenge: None,
        }
    }

    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> Value {
        let did = self.did.as_str();
        let key_id = self.did.url(KEY_FRAGMENT);
        let mut document = Map::new();
        document.insert(
            "@context".to_owned(),
            json!([
                "https://www.w3.org/ns/did/v1",
                "https://w3id.org/security/data-integrity/v2",
                "https://w3id.org/security/multikey/v1"
            ]),
        );
        document.insert("id".to_owned(), json!(did));
        document.insert(
            "verificationMethod".to_owned(),
            json!([{
                "id": key_id, "type": "Multikey", "controller": did,
                "publicKeyMultibase": key.public().to_multibase()
            }]),
        );
        document.insert("authentication".to_owned(), json!([key_id]));
        document.insert("assertionMethod".to_owned(), json!([key_id]));
        if !self.services.is_empty() {
            document.insert("service".to_owned(), json!(self.services));
        }
        if let Some(successor) = self.successor {
            document.insert("deactivated".to_owned(), json!(true));
            document.insert("successorDid".to_owned(), json!(successor.as_str()));
        }
        let options = ProofOptions {
            verification_method: &key_id,
            created: self.created,
            domain: self.domain,
            challenge: self.challenge,
        };
        proof::sign(&mut document, key, &options, self.encoding);
        Value::Object(document)
    }
}

impl Did {
    /// Builds a DID from a path and the fingerprint of a key as its last segment.
    pub fn for_key(host: &str, port: Option<u16>, path: &[&str], key: &SigningKey) -> Result<Self, DidParseError> {
        let fingerprint = key.fingerprint();
        let segments: Vec<&str> = path.iter().copied().chain([fingerprint.as_str()]).collect();
        Self::new(host, port, &segments)
    }
}

impl DidService {
    /// The service entry that points to an agent description.
    #[must_use]
    pub fn agent_description(did: &Did, url: impl Into<String>) -> Self {
        Self::of(did, "ad", "AgentDescription", url.into())
    }

    /// The service entry for messages to an agent. `service_did` is the DID that signs messages of the service.
    #[must_use]
    pub fn messages(
        did: &Did,
        url: impl Into<String>,
        service_did: &Did,
        profiles: &[&str],
        security_profiles: &[&str],
    ) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            service_did: Some(service_did.to_string()),
            profiles: texts(profiles),
            security_profiles: texts(security_profiles),
            ..Self::of(did, "anp", "ANPMessageService", url.into())
        }
    }

    fn of(did: &Did, fragment: &str, kind: &str, endpoint: String) -> Self {
        Self {
            id: did.url(fragment),
            kind: kind.to_owned(),
            endpoint,
            service_did: None,
            profiles: Vec::new(),
            security_profiles: Vec::new(),
        }
    }
}
