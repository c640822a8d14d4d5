//! Negotiation of protocol drafts, if no structured interface fits a caller (ANP-06 §9).

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::converse::IdempotencyKey;
use nuncio_engine::drafting::{DraftedProtocolCall, ProtocolDraft, ProtocolDraftAnswer, ProtocolDraftRequest};
use nuncio_engine::publish::PublishedAgent;
use nuncio_engine::{Caller, EngineError};
use serde_json::{Map, Value, json};

use super::AnpServerState;
use super::negotiate::RESULT_VALIDITY;
use super::rpc::{invalid_params, tool_failed, with_reason};
use crate::negotiate::draft::{self, CallerDraftDecision, ProtocolDraftLocations};
use crate::negotiation::{MAX_AGE, SecurityProfile};
use crate::project::{ToolDocumentKind, interface_id};
use crate::wire::{Alternative, AnpErrorCode, AnpRequest, NegotiateBody, RpcError, read_digest};

impl AnpServerState {
    pub(super) async fn draft(
        &self,
        caller: Option<&Caller>,
        served: &Arc<PublishedAgent>,
        request: &AnpRequest,
        body: &NegotiateBody,
        alternatives: Vec<Alternative>,
    ) -> Result<Value, RpcError> {
        let caller = identified(caller)?;
        let publisher = self.identities.agent_did(&served.agent.name);
        let present = move |id: &_, definition: &_| draft::document(id, definition, publisher.clone());
        let wanted = json!(body.intent);
        let key = request.meta.operation_id.clone().unwrap_or_else(|| negotiation_id(request, body));
        let once = IdempotencyKey { key, body: Digest::of_json(&json!([wanted, body.negotiation_id])) };
        let wanted = ProtocolDraftRequest { caller, served, wanted, by: Protocol::Anp, once, present: &present };
        let draft = self.engine.drafts().draft_protocol(wanted).await.map_err(refused)?;
        self.standing(served, &draft, negotiation_id(request, body), alternatives)
    }

    pub(super) async fn answer_draft(
        &self,
        caller: Option<&Caller>,
        served: &Arc<PublishedAgent>,
        request: &AnpRequest,
        body: &NegotiateBody,
        decision: &CallerDraftDecision,
    ) -> Result<Value, RpcError> {
        if request.meta.created_at.is_some_and(|created| created.until(self.engine.now()) > MAX_AGE) {
            return Err(RpcError::new(AnpErrorCode::NegotiationExpired));
        }
        let drafts = self.engine.drafts();
        if !drafts.can_draft(served) {
            return Err(RpcError::new(AnpErrorCode::UnsupportedNegotiationMode));
        }
        if request.meta.security_profile != SecurityProfile::TransportProtected {
            return Err(RpcError::new(AnpErrorCode::UnsupportedCandidateSecurity));
        }
        let caller = identified(caller)?;
        let answer = if decision.accepts { ProtocolDraftAnswer::Accept } else { ProtocolDraftAnswer::Reject };
        let draft = match drafts.answer_draft(caller, served, &decision.id, &decision.digest, answer).await {
            // The result for the final state of the draft is more informative than the error.
            Err(error) if error.code == ErrorCode::DraftNotAccepted => {
                let draft = drafts.draft(caller, served, &decision.id).await.map_err(refused)?;
                if draft.digest != decision.digest {
                    return Err(refused(error));
                }
                draft
            }
            answered => answered.map_err(refused)?,
        };
        self.standing(served, &draft, negotiation_id(request, body), Vec::new())
    }

    fn standing(
        &self,
        served: &PublishedAgent,
        draft: &ProtocolDraft,
        negotiation_id: String,
        alternatives: Vec<Alternative>,
    ) -> Result<Value, RpcError> {
        let agent = &served.agent.name;
        let locations = ProtocolDraftLocations {
            interface: interface_id(agent, "conversation"),
            negotiated: self.host.anp_url(),
            used: self.host.interface_url(agent, ToolDocumentKind::Tools),
        };
        let until = self.engine.now().after(RESULT_VALIDITY);
        let result = draft::result(draft, locations, alternatives, negotiation_id, until)?;
        tracing::info!(%agent, negotiation = %result.negotiation_id, draft = %draft.id, state = draft.state.word(), "negotiated a draft");
        Ok(json!(result))
    }

    /// Runs a call under a drafted protocol, sent through the chat method.
    pub(super) async fn call_drafted(
        &self,
        served: &Arc<PublishedAgent>,
        caller: &Caller,
        call: Value,
    ) -> Result<Value, RpcError> {
        let call = read_call(call)?;
        let made = self.engine.drafts().call_drafted(caller, served, call).await;
        let value = made.map_err(|error| match error.code {
            ErrorCode::DraftNotFound | ErrorCode::DraftNotAccepted => {
                with_reason(AnpErrorCode::Forbidden, error.message, error.code)
            }
            ErrorCode::InvalidOutput | ErrorCode::BrainFailed => tool_failed(error.message, error.code, true),
            _ => error.into(),
        })?;
        Ok(json!({"response": value}))
    }
}

fn read_call(call: Value) -> Result<DraftedProtocolCall, RpcError> {
    let Value::Object(mut call) = call else { return Err(invalid_params("`call` must be an object")) };
    let mut text = |name: &str| match call.shift_remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(invalid_params(&format!("`call.{name}` must be a text"))),
    };
    let (protocol, digest, method) = (text("protocol_id")?, text("digest")?, text("method")?);
    let digest = read_digest(&digest).ok_or_else(|| invalid_params("`call.digest` must be sha-256: and base64url"))?;
    let params = match call.shift_remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(invalid_params("`call.params` must be an object")),
    };
    match call.keys().next() {
        Some(unknown) => Err(invalid_params(&format!("`call` has no `{unknown}`"))),
        None => Ok(DraftedProtocolCall { protocol, digest, method, params, by: Protocol::Anp }),
    }
}

pub(super) fn negotiation_id(request: &AnpRequest, body: &NegotiateBody) -> String {
    body.negotiation_id.clone().unwrap_or_else(|| request.id.clone())
}

/// Returns the authenticated caller; an error without one, because drafts require authentication.
fn identified(caller: Option<&Caller>) -> Result<&Caller, RpcError> {
    caller.filter(|caller| caller.principal != Principal::Anonymous).ok_or_else(|| {
        RpcError::new(AnpErrorCode::AuthorizationRequired).with_message("Drafting a protocol requires authentication")
    })
}

/// Maps engine errors about drafts to error codes of ANP.
fn refused(error: EngineError) -> RpcError {
    let code = match error.code {
        ErrorCode::DraftFailed => AnpErrorCode::NoMatchingInterface,
        ErrorCode::DraftNotFound => AnpErrorCode::UnsupportedCandidateProfile,
        ErrorCode::DraftNotAccepted => AnpErrorCode::NegotiationRejected,
        ErrorCode::QueueFull => AnpErrorCode::RateLimited,
        ErrorCode::IdempotencyMismatch => AnpErrorCode::IdempotencyConflict,
        _ => return error.into(),
    };
    with_reason(code, error.message, error.code)
}
