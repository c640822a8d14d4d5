//! The service endpoint `/anp`: requests of the core binding.

use axum::extract::{Request, State};
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use serde_json::{Map, Value, json};

use super::{AnpResult, AnpServerState};
use crate::negotiation::SecurityProfile;
use crate::wire::{
    AnpErrorCode, AnpRequest, AnpResponse, MAX_REQUEST_BYTES, RpcError, ServiceCapabilities, method, profile, texts,
};

/// Handles `POST /anp`.
pub(super) async fn answer(State(anp): State<AnpServerState>, request: Request) -> AnpResult {
    let mut asked = anp.authenticate(request).await?;
    // This endpoint does not require authentication at the HTTP level.
    asked.challenge = None;
    let caller = asked.caller.take();
    let response = match AnpRequest::read(&asked.body) {
        Ok(request) => AnpResponse::new(request.id.clone(), anp.dispatch(caller, request).await),
        Err(refused) => {
            let (id, error) = *refused;
            AnpResponse::error(id, error)
        }
    };
    Ok(asked.answer(Some(&response.to_json())))
}

impl AnpServerState {
    pub(super) async fn dispatch(&self, caller: Option<Caller>, request: AnpRequest) -> Result<Value, RpcError> {
        if self.engine.is_closing() {
            return Err(RpcError::new(AnpErrorCode::TemporarilyUnavailable));
        }
        let expected = match request.method.as_str() {
            method::GET_CAPABILITIES => profile::CORE_BINDING,
            method::NEGOTIATE => profile::NEGOTIATION,
            method::DIRECT_SEND => profile::DIRECT,
            _ => return Err(RpcError::new(AnpErrorCode::MethodNotFound)),
        };
        if request.meta.profile != expected {
            let details = json!({"supported": [expected]});
            return Err(RpcError::new(AnpErrorCode::UnsupportedProfile).with_details(details));
        }
        // A request under another security profile is refused here, except for negotiation, which reports this itself.
        if expected != profile::NEGOTIATION && request.meta.security_profile != SecurityProfile::TransportProtected {
            let details = json!({"supported": [SecurityProfile::TransportProtected.as_str()]});
            return Err(RpcError::new(AnpErrorCode::UnsupportedSecurityProfile).with_details(details));
        }
        let caller = self.sender(caller, &request).await?;
        match request.method.as_str() {
            method::GET_CAPABILITIES => Ok(json!(self.capabilities(caller.as_ref()))),
            method::DIRECT_SEND => self.direct(caller, &request).await,
            _ => self.negotiate(caller.as_ref(), &request).await,
        }
    }

    /// Sender of a request: from its origin proof, otherwise from the HTTP credentials. If both are present, they must
    /// agree.
    async fn sender(&self, caller: Option<Caller>, request: &AnpRequest) -> Result<Option<Caller>, RpcError> {
        let by_proof = match &request.auth {
            Some(_) => Some(self.identities.check_origin(request).await?),
            None => None,
        };
        let by_request = match caller.as_ref().map(|caller| &caller.principal) {
            Some(Principal::Did(did)) => Some(did),
            _ => None,
        };
        if let (Some(claimed), Some(shown)) = (&request.meta.sender_did, by_proof.as_ref().or(by_request))
            && claimed != shown
        {
            let message = "meta.sender_did is not the DID that signed";
            return Err(RpcError::new(AnpErrorCode::Unauthorized).with_message(message));
        }
        let Some(did) = by_proof else { return Ok(caller) };
        let request = caller.and_then(|caller| caller.request);
        Ok(Some(Caller { request, ..self.engine.access().caller_by_did(&did) }))
    }

    /// Current capabilities of the message service for a caller. Messages are offered only to callers with a DID,
    /// because other callers cannot sign messages.
    fn capabilities(&self, caller: Option<&Caller>) -> ServiceCapabilities {
        let mut profiles = vec![profile::CORE_BINDING, profile::NEGOTIATION, profile::RPC];
        let signs = caller.is_some_and(|caller| matches!(caller.principal, Principal::Did(_)));
        if signs && self.engine.agents().list().iter().any(|agent| agent.presence.conversation) {
            profiles.push(profile::DIRECT);
        }
        ServiceCapabilities {
            service_did: self.identities.service_did().unwrap_or_default(),
            supported_profiles: texts(&profiles),
            supported_security_profiles: texts(&[SecurityProfile::TransportProtected.as_str()]),
            supported_content_types: texts(&["application/json", "text/plain"]),
            limits: [("max_request_bytes".to_owned(), MAX_REQUEST_BYTES.to_string())].into(),
            extra: Map::new(),
        }
    }
}
