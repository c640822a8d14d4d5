//! From what was named to an agent's description, with everything that was checked about it.

use std::sync::Arc;

use nuncio_identity::{BoundDocument, Did};
use serde_json::{Map, Value, json};
use url::Url;

use super::AnpClient;
use super::error::{ClientError, Reason, plain, shown};
use super::target::{Named, Target, authority};
use super::verify::{Checks, Claimed, Lookup, checks};
use crate::validate::{self, Kind};
use crate::wire::{AgentDescription, PROTOCOL_TYPE, PROTOCOL_VERSION, Product};

/// A description as it was published, as it is read, and what is odd about it.
struct Read {
    whole: Map<String, Value>,
    description: AgentDescription,
    notes: Vec<String>,
}

/// How many faults of a description are told.
const TOLD: usize = 5;

/// An agent as it describes itself, and what of that holds.
#[derive(Debug, Clone)]
pub struct Described {
    /// Where the description came from.
    pub url: Url,
    /// The description. What it breaks of the specification is in the notes.
    pub description: AgentDescription,
    /// The same as it was published.
    pub whole: Map<String, Value>,
    /// The document of its DID, found to be its own.
    pub document: Option<Arc<BoundDocument>>,
    /// What was checked.
    pub checks: Checks,
    /// What is odd about it.
    pub notes: Vec<String>,
    pub(super) named: Named,
}

impl Described {
    /// The agent's DID, where its document is its own.
    #[must_use]
    pub fn did(&self) -> Option<&Did> {
        self.document.as_ref().map(|bound| bound.did())
    }

    /// Whether an address is on a host that is the agent's: the one that was named, the one its description
    /// came from, or the one of its DID.
    #[must_use]
    pub fn is_at_home(&self, url: &Url) -> bool {
        let of_did = self.did().is_some_and(|did| Some(did.host()) == url.host_str());
        self.named.is_host_of(url) || self.url.host() == url.host() || of_did
    }
}

impl AnpClient {
    /// Finds an agent and checks what it says of itself. What does not hold is told, not refused: whoever
    /// goes on to call it asks [`Checks::trusted`] first.
    ///
    /// # Errors
    /// There is no such agent, or no description that can be read.
    pub async fn describe(&self, target: &Target) -> Result<Described, ClientError> {
        let named = target.named(self.options.local)?;
        match target {
            Target::Did(did) => self.describe_did(did, named).await,
            Target::Description(url) => self.describe_at(url, named).await,
            Target::Host(host) => {
                let url = self.only_agent(host).await?;
                self.describe_at(&url, named).await
            }
        }
    }

    pub(super) async fn describe_did(&self, did: &Did, named: Named) -> Result<Described, ClientError> {
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
            Some(said) if said == bound.did().as_str() => Lookup::Found(Arc::clone(&bound)),
            Some(said) => Lookup::Wrong(format!("{} leads to the description of {}", bound.did(), plain(said))),
            None => Lookup::None,
        };
        Ok(self.described(url, named, read, &lookup))
    }

    pub(super) async fn describe_at(&self, url: &Url, named: Named) -> Result<Described, ClientError> {
        let read = self.read_description(url, &named).await?;
        let lookup = self.look_up(read.description.did.as_deref(), &named).await;
        Ok(self.described(url.clone(), named, read, &lookup))
    }

    fn described(&self, url: Url, named: Named, read: Read, lookup: &Lookup) -> Described {
        let Read { whole, description, mut notes } = read;
        let challenge = self.options.challenge.as_deref();
        let checks = checks(&Claimed { whole: &whole, url: &url, challenge }, lookup, self.clock.now());
        let document = match lookup {
            Lookup::Found(document) if !document.document().deactivated() => Some(Arc::clone(document)),
            _ => None,
        };
        if !named.is_host_of(&url) {
            notes.push(format!("the description is on another host: {}", authority(&url)));
        }
        Described { url, description, whole, document, checks, notes, named }
    }

    async fn look_up(&self, did: Option<&str>, named: &Named) -> Lookup {
        let Some(text) = did else { return Lookup::None };
        let did = match Did::parse(text) {
            Ok(did) => did,
            Err(why) => return Lookup::Unknown(format!("{:?} cannot be looked up: {why}", plain(text))),
        };
        match self.resolve(&did, named).await {
            Ok(document) => Lookup::Found(document),
            Err(error) if error.reason == Reason::BadDid => Lookup::Wrong(error.message.clone()),
            Err(error) => Lookup::Unknown(format!("the document of {did} cannot be had: {}", error.message)),
        }
    }

    async fn read_description(&self, url: &Url, named: &Named) -> Result<Read, ClientError> {
        let value = self.document(url, named, Kind::AgentDescription.max_bytes()).await?;
        tolerate(url, value)
    }
}

/// Reads a description, also one that breaks the specification where other software does: what it breaks is
/// told.
fn tolerate(url: &Url, value: Value) -> Result<Read, ClientError> {
    let report = validate::check(Kind::AgentDescription, &value);
    let Value::Object(whole) = value else { return Err(ClientError::invalid(url, &report)) };
    if report.valid
        && let Ok(description) = serde_json::from_value(Value::Object(whole.clone()))
    {
        return Ok(Read { whole, description, notes: Vec::new() });
    }
    let is_some_agent = whole.get("name").is_some_and(Value::is_string) && whole.get("interfaces").is_some();
    let Some(description) = completed(&whole).filter(|_| is_some_agent) else {
        return Err(ClientError::invalid(url, &report));
    };
    let told = report.errors.iter().take(TOLD).map(|fault| plain(&fault.to_string()));
    let mut notes = vec![format!("{} breaks the specification", shown(url))];
    notes.extend(told);
    notes.extend(report.errors.get(TOLD).map(|_| format!("and {} more faults", report.errors.len() - TOLD)));
    Ok(Read { whole, description, notes })
}

/// The description with what some software leaves out. Nothing is made up that anyone would rely on.
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
        // Where the ways to show who one is cannot be read, whoever asks will say what they want.
        filled.insert("securityDefinitions".to_owned(), json!({}));
        filled.insert("security".to_owned(), json!([]));
        read(&filled)
    })
}
