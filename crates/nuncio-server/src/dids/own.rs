//! The DIDs of one subject: the current one with its key, and the retired ones.

use std::fmt;
use std::sync::Arc;

use nuncio_core::ids::AgentName;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Entropy;
use nuncio_http::{CachePolicy, CacheableDocument};
use nuncio_identity::document::KEY_FRAGMENT;
use nuncio_identity::{BoundDidDocument, Did, DidDocument, DidService, K1ProofRule, NewDidDocument, SigningKey, jcs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::base::DidBaseUrl;

/// Profiles that DID documents list for the message service; its capabilities method returns the current ones.
const PROFILES: &[&str] = &["anp.core.binding.v1", "anp.meta.negotiation.v1", "anp.direct.base.v1"];
const SECURITY_PROFILES: &[&str] = &["transport-protected"];

/// Beginning of the names of agents' entries in the keyring.
pub(super) const AGENT_ENTRIES: &str = "did/agents/";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DidSubject {
    /// The DID of this server itself.
    Service,
    Agent(AgentName),
}

impl DidSubject {
    /// Name of the subject's entry in the keyring.
    pub(super) fn entry(&self) -> String {
        match self {
            Self::Service => "did/service".to_owned(),
            Self::Agent(name) => format!("{AGENT_ENTRIES}{name}"),
        }
    }

    fn did(&self, did_base: &DidBaseUrl, key: &SigningKey) -> Did {
        match self {
            Self::Service => did_base.service.clone(),
            Self::Agent(name) => did_base.agent(name, key),
        }
    }

    fn services(&self, did_base: &DidBaseUrl, did: &Did) -> Vec<DidService> {
        let base = &did_base.base;
        let messages = DidService::messages(did, format!("{base}/anp"), &did_base.service, PROFILES, SECURITY_PROFILES);
        match self {
            // The description of the service is its directory of agents.
            Self::Service => {
                vec![
                    DidService::agent_description(did, format!("{base}{}", nuncio_anp::directory::DESCRIPTION)),
                    messages,
                ]
            }
            Self::Agent(name) => {
                vec![DidService::agent_description(did, format!("{base}/agents/{name}/ad.json")), messages]
            }
        }
    }
}

impl fmt::Display for DidSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => f.write_str("the service"),
            Self::Agent(name) => write!(f, "the agent {name}"),
        }
    }
}

/// A DID of this server with its private key and document.
#[derive(Debug)]
pub struct OwnDid {
    key: SigningKey,
    key_id: String,
    since: Timestamp,
    pub(super) published: PublishedDidDocument,
}

/// A DID document in two forms: as served, and as verified to belong to its DID.
#[derive(Debug, Clone)]
pub(super) struct PublishedDidDocument {
    pub(super) document: CacheableDocument,
    pub(super) bound: Arc<BoundDidDocument>,
}

impl OwnDid {
    fn new(subject: &DidSubject, did_base: &DidBaseUrl, key: SigningKey, since: Timestamp) -> Self {
        let did = subject.did(did_base, &key);
        let mut document = NewDidDocument::new(&did, since);
        document.services = subject.services(did_base, &did);
        let document = document.sign(&key);
        let published = PublishedDidDocument::new(&did, document, since)
            .expect("a document signed with the key of its DID is valid for it");
        Self { key_id: did.url(KEY_FRAGMENT), key, since, published }
    }

    fn fresh(subject: &DidSubject, did_base: &DidBaseUrl, entropy: &dyn Entropy, now: Timestamp) -> Self {
        let mut seed = [0; 32];
        entropy.fill(&mut seed);
        Self::new(subject, did_base, SigningKey::from_seed(&seed), now)
    }

    #[must_use]
    pub fn did(&self) -> &Did {
        self.published.bound.did()
    }

    /// The private key of the DID, for requests, tokens and proofs.
    #[must_use]
    pub const fn key(&self) -> &SigningKey {
        &self.key
    }

    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    #[must_use]
    pub fn document(&self) -> &Arc<BoundDidDocument> {
        &self.published.bound
    }
}

impl PublishedDidDocument {
    fn new(did: &Did, document: Value, now: Timestamp) -> Result<Self, String> {
        let bytes = jcs::canonical(&document);
        let document = DidDocument::from_json(document).map_err(|fault| fault.to_string())?;
        let bound = document.bind(did, now, K1ProofRule::Optional).map_err(|fault| fault.to_string())?;
        Ok(Self { document: CacheableDocument::json(bytes, CachePolicy::Public), bound: Arc::new(bound) })
    }
}

/// The current and the retired DIDs of one subject.
#[derive(Debug, Clone)]
pub(super) struct DidHistory {
    pub(super) base: String,
    pub(super) current: Arc<OwnDid>,
    /// Documents of retired DIDs, oldest first. Their keys are deleted.
    pub(super) retired: Vec<PublishedDidDocument>,
    /// Revision of this entry in the keyring of the store; 0 if it is not stored yet.
    pub(super) revision: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DidHistoryRecord {
    base: String,
    since: Timestamp,
    key: String,
    retired: Vec<Value>,
}

impl DidHistory {
    pub(super) fn begin(subject: &DidSubject, did_base: &DidBaseUrl, entropy: &dyn Entropy, now: Timestamp) -> Self {
        let current = Arc::new(OwnDid::fresh(subject, did_base, entropy, now));
        Self { base: did_base.base.clone(), current, retired: Vec::new(), revision: 0 }
    }

    /// Rotates to a new key. If that changes the DID, the old one is retired.
    pub(super) fn rotate(
        &self,
        subject: &DidSubject,
        did_base: &DidBaseUrl,
        entropy: &dyn Entropy,
        now: Timestamp,
    ) -> Self {
        let next = OwnDid::fresh(subject, did_base, entropy, now);
        let (old, mut retired) = (&self.current, self.retired.clone());
        if old.did() != next.did() {
            let mut last = NewDidDocument::new(old.did(), now);
            last.successor = Some(next.did());
            let last = PublishedDidDocument::new(old.did(), last.sign(&old.key), now);
            retired.push(last.expect("a document signed with the key of its DID is valid for it"));
        }
        // After a move back to an earlier domain, the service's DID of that domain is current again.
        retired.retain(|old| old.bound.did() != next.did());
        Self { base: did_base.base.clone(), current: Arc::new(next), retired, revision: self.revision }
    }

    pub(super) fn follow(&self, subject: &DidSubject, did_base: &DidBaseUrl) -> Self {
        let OwnDid { key, since, .. } = &*self.current;
        let current = Arc::new(OwnDid::new(subject, did_base, key.clone(), *since));
        Self { base: did_base.base.clone(), current, retired: self.retired.clone(), revision: self.revision }
    }

    /// Reads the stored form of a key history, whatever public URL it was made for. The error contains nothing of it.
    pub(super) fn parse(subject: &DidSubject, content: &[u8], revision: u64, now: Timestamp) -> Result<Self, String> {
        // The parser's message could contain parts of the key, so only the line number is reported.
        let record: DidHistoryRecord =
            serde_json::from_slice(content).map_err(|fault| format!("line {} is wrong", fault.line()))?;
        let key = SigningKey::from_pem(&record.key).map_err(|fault| fault.to_string())?;
        let did_base = DidBaseUrl::at(&record.base)?;
        let old = |document: Value| {
            let did = document["id"].as_str().and_then(|id| Did::parse(id).ok()).ok_or("an old document has no DID")?;
            PublishedDidDocument::new(&did, document, now)
        };
        let retired = record.retired.into_iter().map(old).collect::<Result<_, String>>()?;
        let current = Arc::new(OwnDid::new(subject, &did_base, key, record.since));
        Ok(Self { base: did_base.base, current, retired, revision })
    }

    pub(super) fn to_stored(&self) -> String {
        let OwnDid { key, since, .. } = &*self.current;
        let retired = self.retired.iter().map(|old| Value::Object(old.bound.document().whole().clone())).collect();
        let record = DidHistoryRecord { base: self.base.clone(), since: *since, key: key.to_pem(), retired };
        serde_json::to_string_pretty(&record).expect("a record is JSON")
    }
}
