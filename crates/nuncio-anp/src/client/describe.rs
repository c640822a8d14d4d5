//! Resolves a target to an agent description and verifies the description.

use std::borrow::Cow;
use std::sync::Arc;

use nuncio_identity::proof::AcceptedProofForms;
use nuncio_identity::{BoundDidDocument, Did};
use serde_json::{Map, Value, json};
use url::Url;

use super::AnpClient;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::target::{AgentTarget, UserNamedHost, authority, did_authority};
use super::verify::{DescriptionCheckResults, DidLookupResult, UnverifiedAgentDescription, checks};
use crate::validate::{self, AnpDocumentType};
use crate::wire::{AgentDescription, PROTOCOL_TYPE, PROTOCOL_VERSION, Product};

/// A fetched description: the raw JSON, the parsed form, and notes about deviations.
struct FetchedAgentDescription {
    raw: Map<String, Value>,
    description: AgentDescription,
    notes: Vec<String>,
}

const MAX_NOTED_FAULTS: usize = 5;

/// Parameter of a description's address that asks for the literal form of the proof.
const PROOF_FORM: (&str, &str) = ("proof", "literal");

#[derive(Debug, Clone)]
pub struct VerifiedAgentDescription {
    /// URL of the description, without the form of its proof.
    pub url: Url,
    /// The parsed description. Its violations of the specification are listed in `notes`.
    pub description: AgentDescription,
    pub raw: Map<String, Value>,
    /// The verified DID document of the described agent; `None` if there is none.
    pub document: Option<Arc<BoundDidDocument>>,
    pub checks: DescriptionCheckResults,
    /// Deviations of the description from the specification and other warnings, as texts for the user.
    pub notes: Vec<String>,
    pub(super) named_host: UserNamedHost,
}

impl VerifiedAgentDescription {
    /// The agent's DID, if its document was verified.
    #[must_use]
    pub fn did(&self) -> Option<&Did> {
        self.document.as_ref().map(|bound| bound.did())
    }

    /// Whether a URL is on the host that the user named, on the host that served the description, or on the host of
    /// the agent's DID.
    #[must_use]
    pub fn is_on_own_host(&self, url: &Url) -> bool {
        let of_did = self.did().is_some_and(|did| did_authority(did) == authority(url));
        self.named_host.is_host_of(url) || authority(&self.url) == authority(url) || of_did
    }
}

impl AnpClient {
    /// Fetches and verifies an agent description. A failed check is not an error here; callers must use
    /// [`DescriptionCheckResults::ensure_trusted`] before they call the agent.
    pub async fn describe(&self, target: &AgentTarget) -> Result<VerifiedAgentDescription, ClientError> {
        let named_host = target.named_host(self.options.local)?;
        match target {
            AgentTarget::Did(did) => self.describe_did(did, named_host).await,
            AgentTarget::Description(url) => self.describe_at(url, named_host).await,
            AgentTarget::Host(host) => {
                let url = self.only_agent(host).await?;
                self.describe_at(&url, named_host).await
            }
        }
    }

    pub(super) async fn describe_did(
        &self,
        did: &Did,
        named_host: UserNamedHost,
    ) -> Result<VerifiedAgentDescription, ClientError> {
        let mut notes = Vec::new();
        let bound = self.current(did, &named_host, &mut notes).await?;
        let Some(service) = bound.document().service("AgentDescription") else {
            let message = format!("the DID document of {} names no description", bound.did());
            return Err(
                ClientError::new(ClientErrorReason::BadDid, message).advice("name the address of its description")
            );
        };
        let url = Url::parse(&service.endpoint).map_err(|why| {
            let message = format!("the description of {did} is at {:?}: {why}", plain(&service.endpoint));
            ClientError::new(ClientErrorReason::BadDid, message)
        })?;
        let mut read = self.read_description(&url, &named_host).await?;
        notes.append(&mut read.notes);
        read.notes = notes;
        let lookup = match read.raw.get("did").and_then(Value::as_str) {
            Some(claimed_did) if claimed_did == bound.did().as_str() => DidLookupResult::Found(Arc::clone(&bound)),
            Some(claimed_did) => {
                DidLookupResult::Wrong(format!("{} leads to the description of {}", bound.did(), plain(claimed_did)))
            }
            None => DidLookupResult::None,
        };
        Ok(self.described(url, named_host, read, &lookup, Some(bound.did().as_str())))
    }

    pub(super) async fn describe_at(
        &self,
        url: &Url,
        named_host: UserNamedHost,
    ) -> Result<VerifiedAgentDescription, ClientError> {
        let read = self.read_description(url, &named_host).await?;
        let lookup = self.look_up(read.description.did.as_deref(), &named_host).await;
        let did = read.description.did.clone();
        Ok(self.described(without_proof_form(url), named_host, read, &lookup, did.as_deref()))
    }

    fn described(
        &self,
        url: Url,
        named_host: UserNamedHost,
        read: FetchedAgentDescription,
        lookup: &DidLookupResult,
        did: Option<&str>,
    ) -> VerifiedAgentDescription {
        let FetchedAgentDescription { raw, description, mut notes } = read;
        let challenge = self.options.challenge.as_deref();
        let claimed =
            UnverifiedAgentDescription { did, raw: &raw, url: &url, challenge, forms: self.options.proof_forms };
        let checks = checks(&claimed, lookup, self.http.clock.now());
        let document = match lookup {
            DidLookupResult::Found(document) if !document.document().deactivated() => Some(Arc::clone(document)),
            _ => None,
        };
        if !named_host.is_host_of(&url) {
            notes.push(format!("the description is on another host: {}", authority(&url)));
        }
        VerifiedAgentDescription { url, description, raw, document, checks, notes, named_host }
    }

    async fn look_up(&self, did: Option<&str>, named_host: &UserNamedHost) -> DidLookupResult {
        let Some(text) = did else { return DidLookupResult::None };
        let did = match Did::parse(text) {
            Ok(did) => did,
            Err(why) => return DidLookupResult::Unknown(format!("{:?} cannot be resolved: {why}", plain(text))),
        };
        match self.resolve(&did, named_host).await {
            Ok(document) => DidLookupResult::Found(document),
            Err(error) if error.reason == ClientErrorReason::BadDid => DidLookupResult::Wrong(error.message.clone()),
            Err(error) => {
                DidLookupResult::Unknown(format!("the DID document of {did} cannot be fetched: {}", error.message))
            }
        }
    }

    async fn read_description(
        &self,
        url: &Url,
        named_host: &UserNamedHost,
    ) -> Result<FetchedAgentDescription, ClientError> {
        let mut address = url.clone();
        if self.options.proof_forms == AcceptedProofForms::WithLiteral
            && !url.query_pairs().any(|it| asks_for_literal(&it))
        {
            address.query_pairs_mut().append_pair(PROOF_FORM.0, PROOF_FORM.1);
        }
        let value = self.http.document(&address, named_host, AnpDocumentType::AgentDescription.max_bytes()).await?;
        tolerate(url, value)
    }
}

/// Removes the parameter that asks for the literal form. The form of the proof is not part of a description's address,
/// so that DID document and description name the address without it.
fn without_proof_form(url: &Url) -> Url {
    let mut bare = url.clone();
    if url.query_pairs().any(|it| asks_for_literal(&it)) {
        bare.set_query(None);
        let others: Vec<_> = url.query_pairs().filter(|it| !asks_for_literal(it)).collect();
        if !others.is_empty() {
            bare.query_pairs_mut().extend_pairs(others);
        }
    }
    bare
}

fn asks_for_literal((name, value): &(Cow<'_, str>, Cow<'_, str>)) -> bool {
    (name.as_ref(), value.as_ref()) == PROOF_FORM
}

/// Parses a description leniently: known deviations of other software are accepted and listed in the notes.
fn tolerate(url: &Url, value: Value) -> Result<FetchedAgentDescription, ClientError> {
    let report = validate::check(AnpDocumentType::AgentDescription, &value);
    let Value::Object(raw) = value else { return Err(ClientError::invalid(url, &report)) };
    if report.valid
        && let Ok(description) = serde_json::from_value(Value::Object(raw.clone()))
    {
        return Ok(FetchedAgentDescription { raw, description, notes: Vec::new() });
    }
    let is_some_agent = raw.get("name").is_some_and(Value::is_string) && raw.get("interfaces").is_some();
    let Some(description) = completed(&raw).filter(|_| is_some_agent) else {
        return Err(ClientError::invalid(url, &report));
    };
    let mut notes = vec![format!("{} breaks the specification", display_url(url))];
    notes.extend(report.errors.iter().take(MAX_NOTED_FAULTS).map(|fault| plain(&fault.to_string())));
    if report.errors.len() > MAX_NOTED_FAULTS {
        notes.push(format!("and {} more faults", report.errors.len() - MAX_NOTED_FAULTS));
    }
    Ok(FetchedAgentDescription { raw, description, notes })
}

/// Adds defaults for members that some software omits, and drops security definitions that cannot be parsed; `None` if
/// the rest still cannot. Nothing of this weakens a check.
fn completed(raw: &Map<String, Value>) -> Option<AgentDescription> {
    let mut filled = raw.clone();
    let defaults = [
        ("protocolType", json!(PROTOCOL_TYPE)),
        ("protocolVersion", json!(PROTOCOL_VERSION)),
        ("securityDefinitions", json!({})),
        ("security", json!([])),
    ];
    let is_product = raw.get("type").and_then(Value::as_str) == Some(Product::TYPE);
    let did = raw.get("identifier").filter(|id| is_product && id.as_str().is_some_and(|id| id.starts_with("did:")));
    for (name, default) in defaults.into_iter().chain(did.map(|did| ("did", did.clone()))) {
        filled.entry(name).or_insert(default);
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
