//! Resolves a target to an agent description and verifies the description.

use std::sync::Arc;

use nuncio_identity::{BoundDocument, Did};
use serde_json::{Map, Value, json};
use url::Url;

use super::AnpClient;
use super::error::{ClientError, Reason, plain, shown};
use super::target::{AgentTarget, NamedHost, authority};
use super::verify::{ClaimedDescription, DescriptionChecks, DidLookup, checks};
use crate::validate::{self, AnpDocumentType};
use crate::wire::{AgentDescription, PROTOCOL_TYPE, PROTOCOL_VERSION, Product};

/// A fetched description: the raw JSON, the parsed form, and notes about deviations.
struct FetchedDescription {
    whole: Map<String, Value>,
    description: AgentDescription,
    notes: Vec<String>,
}

/// Number of validation errors listed in the notes.
const TOLD: usize = 5;

/// An agent description with the results of its verification.
#[derive(Debug, Clone)]
pub struct VerifiedDescription {
    /// The URL from which the description was fetched.
    pub url: Url,
    /// The parsed description. Its violations of the specification are listed in `notes`.
    pub description: AgentDescription,
    /// The description as raw JSON.
    pub whole: Map<String, Value>,
    /// The verified DID document of the described agent.
    pub document: Option<Arc<BoundDocument>>,
    pub checks: DescriptionChecks,
    /// Deviations and warnings, for people.
    pub notes: Vec<String>,
    pub(super) named: NamedHost,
}

impl VerifiedDescription {
    /// The agent's DID, if its document was verified.
    #[must_use]
    pub fn did(&self) -> Option<&Did> {
        self.document.as_ref().map(|bound| bound.did())
    }

    /// Returns whether a URL is on one of the agent's own hosts: the one the user named, the one that served the
    /// description, or the one of its DID.
    #[must_use]
    pub fn is_at_home(&self, url: &Url) -> bool {
        let of_did = self.did().is_some_and(|did| Some(did.host()) == url.host_str());
        self.named.is_host_of(url) || self.url.host() == url.host() || of_did
    }
}

impl AnpClient {
    /// Fetches and verifies an agent description. Failed checks do not make this fail; callers must ask
    /// [`DescriptionChecks::trusted`] before they call the agent.
    pub async fn describe(&self, target: &AgentTarget) -> Result<VerifiedDescription, ClientError> {
        let named = target.named(self.options.local)?;
        match target {
            AgentTarget::Did(did) => self.describe_did(did, named).await,
            AgentTarget::Description(url) => self.describe_at(url, named).await,
            AgentTarget::Host(host) => {
                let url = self.only_agent(host).await?;
                self.describe_at(&url, named).await
            }
        }
    }

    pub(super) async fn describe_did(&self, did: &Did, named: NamedHost) -> Result<VerifiedDescription, ClientError> {
        let mut notes = Vec::new();
        let bound = self.current(did, &named, &mut notes).await?;
        let Some(service) = bound.document().service("AgentDescription") else {
            let message = format!("the document of {} names no description", bound.did());
            return Err(ClientError::new(Reason::BadDid, message).advice("name the address of its description"));
        };
        let url = Url::parse(&service.endpoint).map_err(|why| {
            let message = format!("the description of {did} is at {:?}: {why}", plain(&service.endpoint));
            ClientError::new(Reason::BadDid, message)
        })?;
        let mut read = self.read_description(&url, &named).await?;
        notes.append(&mut read.notes);
        read.notes = notes;
        let lookup = match read.whole.get("did").and_then(Value::as_str) {
            Some(said) if said == bound.did().as_str() => DidLookup::Found(Arc::clone(&bound)),
            Some(said) => DidLookup::Wrong(format!("{} leads to the description of {}", bound.did(), plain(said))),
            None => DidLookup::None,
        };
        Ok(self.described(url, named, read, &lookup))
    }

    pub(super) async fn describe_at(&self, url: &Url, named: NamedHost) -> Result<VerifiedDescription, ClientError> {
        let read = self.read_description(url, &named).await?;
        let lookup = self.look_up(read.description.did.as_deref(), &named).await;
        Ok(self.described(url.clone(), named, read, &lookup))
    }

    fn described(
        &self,
        url: Url,
        named: NamedHost,
        read: FetchedDescription,
        lookup: &DidLookup,
    ) -> VerifiedDescription {
        let FetchedDescription { whole, description, mut notes } = read;
        let challenge = self.options.challenge.as_deref();
        let checks = checks(&ClaimedDescription { whole: &whole, url: &url, challenge }, lookup, self.clock.now());
        let document = match lookup {
            DidLookup::Found(document) if !document.document().deactivated() => Some(Arc::clone(document)),
            _ => None,
        };
        if !named.is_host_of(&url) {
            notes.push(format!("the description is on another host: {}", authority(&url)));
        }
        VerifiedDescription { url, description, whole, document, checks, notes, named }
    }

    async fn look_up(&self, did: Option<&str>, named: &NamedHost) -> DidLookup {
        let Some(text) = did else { return DidLookup::None };
        let did = match Did::parse(text) {
            Ok(did) => did,
            Err(why) => return DidLookup::Unknown(format!("{:?} cannot be looked up: {why}", plain(text))),
        };
        match self.resolve(&did, named).await {
            Ok(document) => DidLookup::Found(document),
            Err(error) if error.reason == Reason::BadDid => DidLookup::Wrong(error.message.clone()),
            Err(error) => DidLookup::Unknown(format!("the document of {did} cannot be had: {}", error.message)),
        }
    }

    async fn read_description(&self, url: &Url, named: &NamedHost) -> Result<FetchedDescription, ClientError> {
        let value = self.document(url, named, AnpDocumentType::AgentDescription.max_bytes()).await?;
        tolerate(url, value)
    }
}

/// Parses a description leniently: known deviations of other software are accepted and listed in the notes.
fn tolerate(url: &Url, value: Value) -> Result<FetchedDescription, ClientError> {
    let report = validate::check(AnpDocumentType::AgentDescription, &value);
    let Value::Object(whole) = value else { return Err(ClientError::invalid(url, &report)) };
    if report.valid
        && let Ok(description) = serde_json::from_value(Value::Object(whole.clone()))
    {
        return Ok(FetchedDescription { whole, description, notes: Vec::new() });
    }
    let is_some_agent = whole.get("name").is_some_and(Value::is_string) && whole.get("interfaces").is_some();
    let Some(description) = completed(&whole).filter(|_| is_some_agent) else {
        return Err(ClientError::invalid(url, &report));
    };
    let reported = report.errors.iter().take(TOLD).map(|fault| plain(&fault.to_string()));
    let mut notes = vec![format!("{} breaks the specification", shown(url))];
    notes.extend(reported);
    notes.extend(report.errors.get(TOLD).map(|_| format!("and {} more faults", report.errors.len() - TOLD)));
    Ok(FetchedDescription { whole, description, notes })
}

/// Adds defaults for members that some software omits. No default is security-relevant.
fn completed(whole: &Map<String, Value>) -> Option<AgentDescription> {
    let mut filled = whole.clone();
    let mut usual = |name: &str, value: Value| {
        filled.entry(name.to_owned()).or_insert(value);
    };
    usual("protocolType", json!(PROTOCOL_TYPE));
    usual("protocolVersion", json!(PROTOCOL_VERSION));
    usual("securityDefinitions", json!({}));
    usual("security", json!([]));
    if whole.get("type").and_then(Value::as_str) == Some(Product::TYPE) {
        let said = whole.get("identifier").filter(|id| id.as_str().is_some_and(|id| id.starts_with("did:")));
        said.into_iter().for_each(|did| usual("did", did.clone()));
    }
    filled.insert("type".to_owned(), json!(AgentDescription::TYPE));
    let read = |filled: &Map<String, Value>| serde_json::from_value(Value::Object(filled.clone())).ok();
    read(&filled).or_else(|| {
        // If the security definitions cannot be parsed, they are dropped; the server will ask for credentials when it
        // needs them.
        filled.insert("securityDefinitions".to_owned(), json!({}));
        filled.insert("security".to_owned(), json!([]));
        read(&filled)
    })
}
