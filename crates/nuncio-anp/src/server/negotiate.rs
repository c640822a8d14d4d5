//! `anp.negotiate`: chooses an interface for one caller from what is available now.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_engine::publish::PublishedAgent;
use serde_json::{Value, json};

use super::Anp;
use crate::negotiate::{draft, read, request as negotiation_request, result};
use crate::negotiation::{InterfaceOffers, InterfaceSelection, NegotiationMode};
use crate::project::{ConversationInterfaceState, OfferContext, ToolState};
use crate::wire::{
    Alternative, ErrorCode, NegotiateBody, NegotiationResult, Request as AnpRequest, RpcError, TargetKind,
};

/// How long a negotiation result is valid.
pub(super) const RESULT_VALIDITY: Duration = Duration::from_secs(600);

enum NegotiationOutcome {
    Accepted(Box<NegotiationResult>),
    /// No structured interface matches; a protocol may be drafted.
    Draft(Vec<Alternative>),
}

impl Anp {
    /// Chooses an interface for an intent. The result grants no permission: the following call is authorised on its
    /// own.
    pub(super) async fn negotiate(&self, caller: Option<&Caller>, request: &AnpRequest) -> Result<Value, RpcError> {
        let body = read(&request.body)?;
        let served = self.addressee(request)?;
        if negotiation_request(&body, &request.meta).mode() == Some(NegotiationMode::Drafting)
            && let Some(decision) = draft::caller_decision(&body)?
        {
            return self.answer_draft(caller, &served, request, &body, &decision).await;
        }
        match self.choose_interface(caller, &served, request, &body)? {
            NegotiationOutcome::Accepted(chosen) => Ok(json!(chosen)),
            NegotiationOutcome::Draft(alternatives) => self.draft(caller, &served, request, &body, alternatives).await,
        }
    }

    fn choose_interface(
        &self,
        caller: Option<&Caller>,
        served: &PublishedAgent,
        request: &AnpRequest,
        body: &NegotiateBody,
    ) -> Result<NegotiationOutcome, RpcError> {
        let agent = &served.agent;
        let tool = |tool: &nuncio_core::agent::Tool| {
            let status = self.engine.calls().tool_status(caller, served, tool);
            let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            ToolState {
                available: status.available,
                granted: status.granted,
                latency_ms: status.latency.map(millis),
                timeout_ms: millis(self.engine.skills().call_timeout(agent, tool)),
            }
        };
        let conversation = ConversationInterfaceState {
            available: !self.engine.is_closing(),
            granted: caller.is_some(),
            latency_ms: None,
            timeout_ms: None,
            drafts: self.engine.drafts().can_draft(served),
            signs: caller.is_none_or(|caller| matches!(caller.principal, Principal::Did(_))),
        };
        let offers = InterfaceOffers::new(self.host.offers(agent, &OfferContext { tool: &tool, conversation }));
        let now = self.engine.now();
        let verdict = offers
            .choose(&negotiation_request(body, &request.meta), now)
            .map_err(|refusal| RpcError::from(&refusal))?;
        let id = body.negotiation_id.clone().unwrap_or_else(|| request.id.clone());
        match verdict {
            InterfaceSelection::Accepted(accepted) => {
                let chosen = result(&accepted, id, now.after(RESULT_VALIDITY));
                tracing::info!(agent = %agent.name, negotiation = %chosen.negotiation_id, digest = chosen.negotiation_digest, "negotiated");
                Ok(NegotiationOutcome::Accepted(Box::new(chosen)))
            }
            InterfaceSelection::Draft(draft) => Ok(NegotiationOutcome::Draft(draft::alternatives(&draft))),
        }
    }

    /// The agent that a request addresses by its DID. If the message service is addressed, it must have exactly one
    /// agent.
    pub(super) fn addressee(&self, request: &AnpRequest) -> Result<Arc<PublishedAgent>, RpcError> {
        let target = request.meta.target.as_ref().ok_or_else(|| {
            RpcError::new(ErrorCode::InvalidTargetBinding)
                .with_message("meta.target must name the agent to negotiate with")
        })?;
        let missing = || RpcError::new(ErrorCode::TargetNotFound);
        match target.kind {
            TargetKind::Group => {
                Err(RpcError::new(ErrorCode::InvalidTargetBinding).with_message("groups do not negotiate here"))
            }
            TargetKind::Service if self.identities.service_did().as_deref() == Some(target.did.as_str()) => {
                let agents = self.engine.agents().list();
                match agents.as_slice() {
                    [only] => self.engine.agents().agent(only.name.as_str()).map_err(|_| missing()),
                    _ => Err(RpcError::new(ErrorCode::InvalidTargetBinding).with_message("name one agent by its DID")),
                }
            }
            TargetKind::Service => Err(missing()),
            TargetKind::Agent => {
                let agents = self.engine.agents().list();
                let is_addressed = |agent: &&Arc<nuncio_core::agent::Agent>| {
                    self.identities.agent_did(&agent.name).as_deref() == Some(target.did.as_str())
                };
                let agent = agents.iter().find(is_addressed).ok_or_else(missing)?;
                self.engine.agents().agent(agent.name.as_str()).map_err(|_| missing())
            }
        }
    }
}
