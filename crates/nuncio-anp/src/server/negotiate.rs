//! `anp.negotiate`: what is true of this moment for this caller goes to the judge.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::negotiation::{Offers, Verdict};
use nuncio_engine::Caller;
use nuncio_engine::publish::Served;
use serde_json::{Value, json};

use super::Anp;
use crate::negotiate::{read, request as judged, result};
use crate::project::{ConversationState, Moment, ToolState};
use crate::wire::{ErrorCode, Request as AnpRequest, RpcError, TargetKind};

/// How long a choice holds.
const VALID: Duration = Duration::from_secs(600);

impl Anp {
    /// Chooses the interface for an intent. The choice opens no door: the call that follows is authorised
    /// on its own.
    pub(super) fn negotiate(&self, caller: Option<&Caller>, request: &AnpRequest) -> Result<Value, RpcError> {
        let body = read(&request.body)?;
        let served = self.addressee(request)?;
        let agent = &served.agent;
        let tool = |tool: &nuncio_core::agent::Tool| {
            let standing = self.engine.standing(caller, &served, tool);
            ToolState {
                available: standing.available,
                granted: standing.granted,
                latency_ms: standing.latency.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            }
        };
        let conversation = ConversationState {
            available: !self.engine.is_closing(),
            granted: caller.is_some(),
            latency_ms: None,
            timeout_ms: None,
            drafts: false,
        };
        let offers = Offers::new(self.host.offers(agent, &Moment { tool: &tool, conversation }));
        let now = self.engine.now();
        let verdict = offers.choose(&judged(&body, &request.meta), now).map_err(|refusal| RpcError::from(&refusal))?;
        let id = body.negotiation_id.clone().unwrap_or_else(|| request.id.clone());
        match verdict {
            Verdict::Accepted(accepted) => {
                let chosen = result(&accepted, id, now.after(VALID));
                tracing::info!(agent = %agent.name, negotiation = %chosen.negotiation_id, digest = chosen.negotiation_digest, "negotiated");
                Ok(json!(chosen))
            }
            Verdict::Draft(_) => Err(RpcError::new(ErrorCode::UnsupportedNegotiationMode)),
        }
    }

    /// Which agent a request is for: by its DID; the only one there is, where the service is asked.
    pub(super) fn addressee(&self, request: &AnpRequest) -> Result<Arc<Served>, RpcError> {
        let target = request.meta.target.as_ref().ok_or_else(|| {
            RpcError::new(ErrorCode::InvalidTargetBinding).saying("meta.target must name the agent to negotiate with")
        })?;
        let missing = || RpcError::new(ErrorCode::TargetNotFound);
        match target.kind {
            TargetKind::Group => {
                Err(RpcError::new(ErrorCode::InvalidTargetBinding).saying("groups do not negotiate here"))
            }
            TargetKind::Service if self.identities.service_did().as_deref() == Some(target.did.as_str()) => {
                let agents = self.engine.agents();
                match agents.as_slice() {
                    [only] => self.engine.agent(only.name.as_str()).map_err(|_| missing()),
                    _ => Err(RpcError::new(ErrorCode::InvalidTargetBinding).saying("name one agent by its DID")),
                }
            }
            TargetKind::Service => Err(missing()),
            TargetKind::Agent => {
                let agents = self.engine.agents();
                let named = |agent: &&Arc<nuncio_core::agent::Agent>| {
                    self.identities.agent_did(&agent.name).as_deref() == Some(target.did.as_str())
                };
                let agent = agents.iter().find(named).ok_or_else(missing)?;
                self.engine.agent(agent.name.as_str()).map_err(|_| missing())
            }
        }
    }
}
