//! Negotiation, the caller's side (ANP-06). The DID document determines identity and endpoint, `anp.get_capabilities`
//! the current capabilities; the description is only a hint.

mod agreement_file;
mod cache;
mod check;
mod draft;
mod local_choice;

use nuncio_engine::ports::entropy::random_name;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::negotiation::{InterfaceExecutionMode, NegotiationMode, SecurityProfile};

pub(super) use cache::AgreementCache;
pub use draft::ProtocolDraftDecision;

use super::AnpClient;
use super::capabilities::RemoteMessageService;
use super::describe::VerifiedAgentDescription;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::exchange::AuthTiming;
use crate::wire::{
    AnpErrorCode, AnpRequest, CallerCapabilities, Constraints, Intent, NegotiateBody, NegotiationResult, RequestMeta,
    RequestTarget, RequestTargetKind, RpcError, method, profile, texts,
};

/// Requirements of a caller on an interface. The request contains no data of the later call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NegotiationRequest {
    /// Description of the task in natural language.
    pub intent: Option<String>,
    /// Intent tags, such as `hotel.booking`.
    pub tags: Vec<String>,
    /// Capability ids that the interface must have.
    pub required: Vec<String>,
    /// The security profile that the interface must have.
    pub security: Option<SecurityProfile>,
    /// `true` requires approval by a person, `false` excludes it; `None` accepts both.
    pub human_authorization: Option<bool>,
    pub max_latency_ms: Option<u64>,
    /// Whether only interfaces with callable methods are acceptable.
    pub calls_only: bool,
    /// Whether a new protocol may be drafted if no structured interface matches.
    pub draft: bool,
    pub draft_decision: Option<ProtocolDraftDecision>,
}

/// Result of a negotiation. The agreement grants no permission: the following call is authorised on its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NegotiationAgreement {
    pub result: NegotiationResult,
    pub decided: ChosenBy,
    /// Deviations of the result from the specification, as texts for the user.
    pub notes: Vec<String>,
    /// Whether the agreement came from the cache.
    #[serde(skip)]
    pub reused: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// The agent chose the interface, at its negotiation endpoint.
    Agent(Box<RemoteMessageService>),
    /// The client chose the interface, from the description alone.
    Client { why: String },
}

impl NegotiationRequest {
    /// Content types that this client sends and accepts.
    const CONTENT_TYPES: [&str; 2] = ["application/json", "text/plain"];

    fn profiles(&self) -> Vec<&'static str> {
        let talks = (!self.calls_only).then_some(profile::DIRECT);
        let drafts = self.drafts().then_some(profile::NEGOTIATION);
        [profile::CORE_BINDING, profile::RPC].into_iter().chain(talks).chain(drafts).collect()
    }

    /// Whether the request asks for a protocol draft or decides on one.
    fn drafts(&self) -> bool {
        self.draft || self.draft_decision.is_some()
    }

    /// Security profiles that this client supports, plus the requested one, so that any profile can be requested.
    pub(super) fn securities(&self) -> Vec<SecurityProfile> {
        let usual = SecurityProfile::TransportProtected;
        [Some(usual), self.security.filter(|it| *it != usual)].into_iter().flatten().collect()
    }

    fn body(&self, negotiation_id: String) -> NegotiateBody {
        let securities: Vec<_> = self.securities().iter().map(|it| it.as_str()).collect();
        let modes = self.calls_only.then_some([InterfaceExecutionMode::DirectStructuredCall.as_str()]);
        NegotiateBody {
            negotiation_id: Some(negotiation_id),
            mode: self.drafts().then(|| NegotiationMode::Drafting.as_str().to_owned()),
            intent: Intent { description: self.intent.clone(), intent_tags: self.tags.clone(), ..Intent::default() },
            required_capabilities: self.required.clone(),
            caller_capabilities: Some(CallerCapabilities {
                supported_profiles: Some(texts(&self.profiles())),
                supported_security_profiles: Some(texts(&securities)),
                supported_content_types: Some(texts(&Self::CONTENT_TYPES)),
                supported_execution_modes: modes.map(|modes| texts(&modes)),
                ..CallerCapabilities::default()
            }),
            constraints: Some(Constraints {
                requires_human_authorization: self.human_authorization,
                max_latency_ms: self.max_latency_ms,
                allow_natural_language_fallback: Some(!self.calls_only),
                required_security_profile: self.security.map(|it| it.as_str().to_owned()),
                ..Constraints::default()
            }),
            candidate_protocols: self.draft_decision.iter().map(ProtocolDraftDecision::candidate).collect(),
            ..NegotiateBody::default()
        }
    }
}

impl AnpClient {
    /// Returns a cached agreement that is still valid, or negotiates.
    pub async fn agree(
        &self,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
    ) -> Result<NegotiationAgreement, ClientError> {
        agent.checks.ensure_trusted()?;
        let Some(cached) = self.agreements.get(self, agent, needs) else {
            return self.negotiate(agent, needs).await;
        };
        log_agreement(&cached);
        Ok(cached)
    }

    /// Negotiates an interface with the agent, or chooses one from the description if the agent does not negotiate. The
    /// result and its digest are logged before use, and cached unless the request is about a draft.
    pub async fn negotiate(
        &self,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
    ) -> Result<NegotiationAgreement, ClientError> {
        agent.checks.ensure_trusted()?;
        self.agreements.forget(agent, needs, self);
        let agreement = match self.find_partner(agent, needs).await? {
            NegotiationPartnerLookupResult::Nobody(why) => local_choice::choose(self, agent, needs, why)?,
            NegotiationPartnerLookupResult::Service(runtime, notes) => {
                self.negotiate_with_agent(agent, needs, runtime, notes).await?
            }
        };
        log_agreement(&agreement);
        // Drafts change with each negotiation, so they are not cached.
        if !needs.drafts() {
            self.agreements.put(self, agent, needs, &agreement);
        }
        Ok(agreement)
    }

    pub fn forget_agreements(&self, agent: &VerifiedAgentDescription) {
        self.agreements.forget_all(agent, self.http.clock.now());
    }

    /// Fetches the current capabilities of an agent's service and removes agreements made under other capabilities.
    pub async fn refresh(&self, agent: &VerifiedAgentDescription) -> Result<RemoteMessageService, ClientError> {
        let (endpoint, _) = self.endpoint(agent)?;
        let runtime = self.runtime(agent, &endpoint).await?;
        self.agreements.compare(agent, &runtime, self.http.clock.now());
        Ok(runtime)
    }

    /// Finds the service to negotiate with; none if description or capabilities exclude negotiation (ANP-06 §6.3).
    async fn find_partner(
        &self,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
    ) -> Result<NegotiationPartnerLookupResult, ClientError> {
        let nobody = |why: &str| Ok(NegotiationPartnerLookupResult::Nobody(why.to_owned()));
        if agent.description.negotiation().is_none() {
            return nobody("it declares no MetaProtocolInterface");
        }
        if agent.did().is_none() {
            return nobody("it has no valid DID that could be addressed");
        }
        let (endpoint, notes) = self.endpoint(agent)?;
        let runtime = self.runtime(agent, &endpoint).await;
        let code = |error: &ClientError| error.rpc_error.as_ref().and_then(RpcError::known_code);
        if runtime.as_ref().is_err_and(|error| code(error) == Some(AnpErrorCode::MethodNotFound)) {
            return nobody("its service did not return its capabilities");
        }
        let runtime = runtime?;
        self.agreements.compare(agent, &runtime, self.http.clock.now());
        runtime.ensure_supported(&needs.securities())?;
        if !runtime.capabilities.supported_profiles.iter().any(|it| it == profile::NEGOTIATION) {
            return nobody("its service does not negotiate now");
        }
        Ok(NegotiationPartnerLookupResult::Service(Box::new(runtime), notes))
    }

    async fn negotiate_with_agent(
        &self,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
        runtime: Box<RemoteMessageService>,
        mut notes: Vec<String>,
    ) -> Result<NegotiationAgreement, ClientError> {
        let id = random_name(&*self.entropy, "neg-");
        let request = self.negotiate_request(agent, needs, &id)?.to_json();
        let endpoint = runtime.endpoint.clone();
        let result = self.http.post(&endpoint, &agent.named_host, &request, AuthTiming::WhenAsked, None).await?;
        let result: NegotiationResult = serde_json::from_value(result).map_err(|why| {
            let message = format!("the answer of {} is not the result of a negotiation: {why}", display_url(&endpoint));
            ClientError::new(ClientErrorReason::BadAgreement, message)
        })?;
        notes.extend(check::check(&result, &id, needs, agent.did(), self.http.clock.now())?);
        notes.extend(self.known_interface(agent, &result).await?);
        Ok(NegotiationAgreement { result, decided: ChosenBy::Agent(runtime), notes, reused: false })
    }

    /// Builds the request with minimal disclosure, and with an origin proof if the client has a DID (ANP-06 §12.1).
    fn negotiate_request(
        &self,
        agent: &VerifiedAgentDescription,
        needs: &NegotiationRequest,
        id: &str,
    ) -> Result<AnpRequest, ClientError> {
        let signer = self.http.signer.as_ref();
        let meta = RequestMeta {
            sender_did: signer.map(|signer| signer.did().to_string()),
            target: agent.did().map(|did| RequestTarget { kind: RequestTargetKind::Agent, did: did.to_string() }),
            operation_id: Some(random_name(&*self.entropy, "op-")),
            content_type: Some("application/json".to_owned()),
            created_at: Some(self.http.clock.now()),
            ..RequestMeta::new(profile::NEGOTIATION)
        };
        let body = needs.body(id.to_owned());
        let request = AnpRequest::new(random_name(&*self.entropy, "req-"), method::NEGOTIATE, meta, &body);
        let Some(signer) = signer else { return Ok(request) };
        request.proven(|parts| signer.prove(parts)).map_err(|why| {
            ClientError::new(ClientErrorReason::CannotSign, format!("the negotiation cannot be signed: {why}"))
        })
    }

    /// Checks that the chosen interface is in the agent's description, in a newly fetched one, or has a URL. Returns
    /// warnings for the user.
    async fn known_interface(
        &self,
        agent: &VerifiedAgentDescription,
        result: &NegotiationResult,
    ) -> Result<Vec<String>, ClientError> {
        let Some(selected) = &result.selected else { return Ok(Vec::new()) };
        let mut notes = Vec::new();
        if let Some(id) = selected.interface.as_deref()
            && agent.description.interface(id).is_none()
        {
            let now = self.describe_at(&agent.url, agent.named_host.clone()).await?;
            now.checks.ensure_trusted()?;
            if now.description.interface(id).is_none() {
                if selected.url.is_none() {
                    let message = format!("the interface {:?} was chosen, which no description contains", plain(id));
                    return Err(ClientError::new(ClientErrorReason::BadAgreement, message));
                }
                notes.push(format!("the description does not have the interface {:?}", plain(id)));
            }
        }
        if let Some(text) = selected.url.as_deref() {
            let url = Url::parse(text).map_err(|why| {
                let message = format!("the chosen interface is at {:?}: {why}", plain(text));
                ClientError::new(ClientErrorReason::BadAgreement, message)
            })?;
            if !agent.is_on_own_host(&url) {
                notes.push(format!("the chosen interface is on another host: {}", display_url(&url)));
            }
        }
        Ok(notes)
    }
}

enum NegotiationPartnerLookupResult {
    Service(Box<RemoteMessageService>, Vec<String>),
    Nobody(String),
}

/// Logs the agreement, to explain later calls (ANP-06 §14.4).
fn log_agreement(agreement: &NegotiationAgreement) {
    let result = &agreement.result;
    let selected = result.selected.as_ref().and_then(|it| it.interface.as_deref());
    tracing::info!(
        negotiation = %plain(&result.negotiation_id),
        digest = result.negotiation_digest.as_deref().map(plain),
        interface = selected.map(plain),
        reused = agreement.reused,
        here = matches!(agreement.decided, ChosenBy::Client { .. }),
        "agreed"
    );
}
