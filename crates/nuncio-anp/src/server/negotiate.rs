//! `anp.negotiate`: chooses one of the currently available interfaces for a caller.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_engine::publish::PublishedAgent;
use serde_json::{Value, json};

use super::AnpServerState;
use super::draft::negotiation_id;
use super::operations::NegotiationOperationKey;
use crate::negotiate::{draft, read, request as negotiation_request, result};
use crate::negotiation::{AcceptedInterfaceOrDraft, NegotiationMode, PreparedInterfaceOffers};
use crate::project::{ConversationInterfaceState, InterfaceOfferContext, ToolOfferState};
use crate::wire::{AnpErrorCode, AnpRequest, RequestTargetKind, RpcError};

pub(super) const RESULT_VALIDITY: Duration = Duration::from_secs(600);

impl AnpServerState {
    /// Chooses an interface for an intent. The result grants no permission: the following call is authorised on its
    /// own.
    pub(super) async fn negotiate(&self, caller: Option<&Caller>, request: &AnpRequest) -> Result<Value, RpcError> {
        let body = read(&request.body)?;
        let served = self.addressee(request)?;
        let operation = NegotiationOperationKey::of(caller, request);
        if let Some(operation) = &operation
            && let Some(earlier) = self.operations.result_of(operation, self.engine.now())?
        {
            return Ok(earlier);
        }
        let wanted = negotiation_request(&body, &request.meta);
        if wanted.mode() == Some(NegotiationMode::Drafting)
            && let Some(decision) = draft::caller_decision(&body)?
        {
            return self.answer_draft(caller, &served, request, &body, &decision).await;
        }
        let (offers, now) = (self.offers(caller, &served), self.engine.now());
        let alternatives = match offers.choose(&wanted, now).map_err(|refusal| RpcError::from(&refusal))? {
            AcceptedInterfaceOrDraft::Accepted(accepted) => {
                let chosen = result(&accepted, negotiation_id(request, &body), now.after(RESULT_VALIDITY));
                tracing::info!(agent = %served.agent.name, negotiation = %chosen.negotiation_id, digest = chosen.negotiation_digest, "negotiated");
                return Ok(match operation {
                    Some(operation) => self.operations.remember(&operation, json!(chosen), now),
                    None => json!(chosen),
                });
            }
            AcceptedInterfaceOrDraft::Draft(draft) => draft::alternatives(&draft),
        };
        self.draft(caller, &served, request, &body, alternatives).await
    }

    /// Interfaces that the agent currently offers to the caller.
    fn offers(&self, caller: Option<&Caller>, served: &PublishedAgent) -> PreparedInterfaceOffers {
        let agent = &served.agent;
        let tool = |tool: &nuncio_core::agent::Tool| {
            let status = self.engine.calls().tool_status(caller, served, tool);
            let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            ToolOfferState {
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
        PreparedInterfaceOffers::new(self.host.offers(agent, &InterfaceOfferContext { tool: &tool, conversation }))
    }

    /// Agent that a request addresses by its DID. A request to the message service itself needs a host with exactly one
    /// agent.
    pub(super) fn addressee(&self, request: &AnpRequest) -> Result<Arc<PublishedAgent>, RpcError> {
        let wrong = |message: &str| RpcError::new(AnpErrorCode::InvalidTargetBinding).with_message(message);
        let missing = || RpcError::new(AnpErrorCode::TargetNotFound);
        let named = request.meta.target.as_ref();
        let target = named.ok_or_else(|| wrong("meta.target must name the agent to negotiate with"))?;
        let is_target = |did: Option<String>| did.as_ref() == Some(&target.did);
        let agents = self.engine.agents().list();
        let agent = match (target.kind, agents.as_slice()) {
            (RequestTargetKind::Group, _) => return Err(wrong("negotiation with groups is not supported")),
            (RequestTargetKind::Service, _) if !is_target(self.identities.service_did()) => None,
            (RequestTargetKind::Service, [only]) => Some(only),
            (RequestTargetKind::Service, _) => return Err(wrong("name one agent by its DID")),
            (RequestTargetKind::Agent, all) => {
                all.iter().find(|agent| is_target(self.identities.agent_did(&agent.name)))
            }
        };
        self.engine.agents().agent(agent.ok_or_else(missing)?.name.as_str()).map_err(|_| missing())
    }
}
