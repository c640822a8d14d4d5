//! Protocol drafts for callers whom no interface fits (ANP-06 §9).

use std::sync::Arc;

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::converse::IdempotencyKey;
use nuncio_engine::drafting::{DraftAnswer, DraftRequest, DraftedCall, ProtocolDraft};
use nuncio_engine::publish::PublishedAgent;
use nuncio_engine::{Caller, EngineError};
use serde_json::{Map, Value, json};

use super::Anp;
use super::negotiate::RESULT_VALIDITY;
use super::rpc::{TOOL_FAILED, of_engine};
use crate::negotiate::draft::{self, CallerDecision, DraftLocations};
use crate::negotiation::{MAX_AGE, SecurityProfile};
use crate::project::{ToolDocument, interface_id};
use crate::wire::{Alternative, ErrorCode, NegotiateBody, Request as AnpRequest, RpcError, read_digest};

impl Anp {
    /// Lets the agent draft a protocol.
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
        let present = move |id: &_, blueprint: &_| draft::document(id, blueprint, publisher.clone());
        let wanted = json!(body.intent);
        let key = request.meta.operation_id.clone().unwrap_or_else(|| negotiation_id(request, body));
        let once = IdempotencyKey { key, body: Digest::of_json(&json!([wanted, body.negotiation_id])) };
        let drafted = self
            .engine
            .drafts()
            .draft_protocol(DraftRequest { caller, served, wanted, by: Protocol::Anp, once, present: &present })
            .await;
        let draft = drafted.map_err(|error| refused(&error))?;
        self.standing(served, &draft, negotiation_id(request, body), alternatives)
    }

    /// Handles the caller's decision on a draft.
    pub(super) async fn answer_draft(
        &self,
        caller: Option<&Caller>,
        served: &Arc<PublishedAgent>,
        request: &AnpRequest,
        body: &NegotiateBody,
        decision: &CallerDecision,
    ) -> Result<Value, RpcError> {
        self.is_in_time(request)?;
        if !self.engine.drafts().can_draft(served) {
            return Err(RpcError::new(ErrorCode::UnsupportedNegotiationMode));
        }
        if request.meta.security_profile != SecurityProfile::TransportProtected {
            return Err(RpcError::new(ErrorCode::UnsupportedCandidateSecurity));
        }
        let answer = if decision.accepts { DraftAnswer::Accept } else { DraftAnswer::Reject };
        let answered = self
            .engine
            .drafts()
            .answer_draft(identified(caller)?, served, &decision.id, &decision.digest, answer)
            .await;
        let draft = match answered {
            Ok(draft) => draft,
            // The final state of the draft says more than the error.
            Err(error) if error.code == Code::DraftNotAccepted => {
                let draft = self
                    .engine
                    .drafts()
                    .draft(identified(caller)?, served, &decision.id)
                    .await
                    .map_err(|it| refused(&it))?;
                if draft.digest == decision.digest {
                    return self.standing(served, &draft, negotiation_id(request, body), Vec::new());
                }
                return Err(refused(&error));
            }
            Err(error) => return Err(refused(&error)),
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
        let locations = DraftLocations {
            interface: interface_id(agent, "conversation"),
            negotiated: self.host.anp_url(),
            used: self.host.interface_url(agent, ToolDocument::Tools),
        };
        let until = self.engine.now().after(RESULT_VALIDITY);
        let result = draft::result(draft, locations, alternatives, negotiation_id, until)?;
        tracing::info!(%agent, negotiation = %result.negotiation_id, draft = %draft.id, state = draft.state.word(), "negotiated a draft");
        Ok(json!(result))
    }

    fn is_in_time(&self, request: &AnpRequest) -> Result<(), RpcError> {
        let late = request.meta.created_at.is_some_and(|created| created.until(self.engine.now()) > MAX_AGE);
        if late { Err(RpcError::new(ErrorCode::NegotiationExpired)) } else { Ok(()) }
    }

    /// A call under a drafted protocol, through the chat method.
    pub(super) async fn call_drafted(
        &self,
        served: &Arc<PublishedAgent>,
        caller: &Caller,
        call: Value,
    ) -> Result<Value, RpcError> {
        let call = read_call(call)?;
        let made = self.engine.drafts().call_drafted(caller, served, call).await;
        let value = made.map_err(|error| match error.code {
            Code::DraftNotFound | Code::DraftNotAccepted => RpcError::new(ErrorCode::Forbidden)
                .with_message(error.message)
                .with_details(json!({"reason": error.code})),
            Code::InvalidOutput | Code::BrainFailed => {
                let data = json!({"retryable": true, "details": {"reason": error.code}});
                RpcError { code: TOOL_FAILED, message: error.message, data: Some(data) }
            }
            _ => of_engine(&error),
        })?;
        Ok(json!({"response": value}))
    }
}

/// Parses the `call` argument.
fn read_call(call: Value) -> Result<DraftedCall, RpcError> {
    let wrong =
        |message: &str| RpcError::new(ErrorCode::InvalidParams).with_message(format!("Invalid params: {message}"));
    let Value::Object(mut call) = call else { return Err(wrong("`call` must be an object")) };
    let mut text = |name: &str| match call.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(wrong(&format!("`call.{name}` must be a text"))),
    };
    let (protocol, digest, method) = (text("protocol_id")?, text("digest")?, text("method")?);
    let digest = read_digest(&digest).ok_or_else(|| wrong("`call.digest` must be sha-256: and base64url"))?;
    let params = match call.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(wrong("`call.params` must be an object")),
    };
    match call.keys().next() {
        Some(unknown) => Err(wrong(&format!("`call` has no `{unknown}`"))),
        None => Ok(DraftedCall { protocol, digest, method, params, by: Protocol::Anp }),
    }
}

fn negotiation_id(request: &AnpRequest, body: &NegotiateBody) -> String {
    body.negotiation_id.clone().unwrap_or_else(|| request.id.clone())
}

/// Returns the caller if authenticated; drafts need one.
fn identified(caller: Option<&Caller>) -> Result<&Caller, RpcError> {
    caller.filter(|caller| caller.principal != Principal::Anonymous).ok_or_else(|| {
        RpcError::new(ErrorCode::AuthorizationRequired).with_message("A protocol is drafted with who is known")
    })
}

/// Maps engine errors to the specification's codes.
fn refused(error: &EngineError) -> RpcError {
    let code = match error.code {
        Code::DraftFailed => ErrorCode::NoMatchingInterface,
        Code::DraftNotFound => ErrorCode::UnsupportedCandidateProfile,
        Code::DraftNotAccepted => ErrorCode::NegotiationRejected,
        Code::QueueFull => ErrorCode::RateLimited,
        Code::IdempotencyMismatch => ErrorCode::IdempotencyConflict,
        _ => return of_engine(error),
    };
    RpcError::new(code).with_message(error.message.clone()).with_details(json!({"reason": error.code}))
}
