//! Identities for the ANP routes: the DIDs of this server, its proofs, and the callers of requests.

use std::sync::Arc;
use std::time::Duration;

use ::http::request::Parts;
use ::http::{HeaderName, HeaderValue};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_anp::client::AgentSignerLookup;
use nuncio_anp::server::{
    AnpIdentityService, AuthenticationResult, DirectMessageDeliveryFailure, OutgoingDirectMessage,
};
use nuncio_anp::wire::{AnpErrorCode, AnpRequest, AnpResponse, RpcError};
use nuncio_auth::did::{DidOwnership, HostDids as _};
use nuncio_auth::{DidAuthenticationResult, DidAuthenticator, RequestHead};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentName;
use nuncio_core::opaque_debug;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest};
use nuncio_engine::{CallerCheckResult, Engine};
use nuncio_identity::http_signature::SignaturePolicy;
use nuncio_identity::origin_proof::OriginProof;
use nuncio_identity::proof::{DescriptionProofForm, ProofEncoding, ProofOptions, sign, sign_literal};
use nuncio_identity::{Did, DidAuthError};
use serde_json::{Value, json};
use url::Url;

use crate::dids::{Dids, OwnDid};
use crate::hosting::{AgentInformationFiles, HostDescription};

const AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("authentication-info");

/// Implements the port `AnpIdentityService` of the ANP front.
pub(crate) struct AnpIdentities {
    did_auth: Arc<DidAuthenticator>,
    dids: Dids,
    engine: Engine,
    /// The `domain` in the proofs of agent descriptions: the server's base URL without its scheme.
    domain: String,
    files: Arc<AgentInformationFiles>,
}

impl AnpIdentities {
    pub(crate) fn new(did_auth: &Arc<DidAuthenticator>, engine: &Engine, hosting: &HostDescription) -> Self {
        let base = &hosting.host.base;
        let domain = base.split_once("://").map_or(base.as_str(), |(_, rest)| rest).to_owned();
        Self {
            did_auth: Arc::clone(did_auth),
            dids: hosting.dids.clone(),
            engine: engine.clone(),
            domain,
            files: Arc::clone(&hosting.files),
        }
    }

    /// Adds a proof for this host to a description. The challenge is the digest of the description and the time is that
    /// of the key, so that the same description always has the same proof.
    fn signed(&self, own: Option<Arc<OwnDid>>, description: Value, form: DescriptionProofForm) -> Value {
        let Some(own) = own else { return description };
        let challenge = URL_SAFE_NO_PAD.encode(&Digest::of_json(&description).as_bytes()[..16]);
        let Value::Object(mut document) = description else { return description };
        let options = ProofOptions {
            verification_method: own.key_id(),
            created: own.since(),
            domain: Some(&self.domain),
            challenge: Some(&challenge),
        };
        match form {
            DescriptionProofForm::DataIntegrity => {
                sign(&mut document, own.key(), &options, ProofEncoding::Multibase);
            }
            DescriptionProofForm::Literal => sign_literal(&mut document, own.key(), &options),
        }
        Value::Object(document)
    }

    async fn origin(&self, request: &AnpRequest) -> Result<String, DidAuthError> {
        let claim = OriginProof::from_auth(&json!(request.auth))?.claim()?;
        let (now, policy) = (self.engine.now(), SignaturePolicy::default());
        request.with_origin_request(|signed| claim.check(signed, now, &policy))?;
        let document = self.did_auth.resolver().resolve(claim.did()).await?;
        let verified = request.with_origin_request(|signed| claim.verify(signed, &document))?;
        self.did_auth.use_nonce("origin", &verified).await?;
        Ok(verified.did.to_string())
    }
}

#[async_trait]
impl AnpIdentityService for AnpIdentities {
    async fn check(&self, parts: &Parts, body: &[u8]) -> AuthenticationResult {
        let did_auth = &self.did_auth;
        let head = RequestHead { method: &parts.method, uri: &parts.uri, headers: &parts.headers };
        match did_auth.check(head, body).await {
            DidAuthenticationResult::Absent => AuthenticationResult::Absent(did_auth.challenge(&DidAuthError::Missing)),
            DidAuthenticationResult::Refused(fault) => AuthenticationResult::Refused(did_auth.challenge(&fault)),
            // The path rules refused the token: agent descriptions do not link to this address.
            DidAuthenticationResult::Known(..) if parts.extensions.get() == Some(&CallerCheckResult::Invalid) => {
                let fault =
                    DidAuthError::AccessToken("this credential is not accepted at this address; sign the request");
                AuthenticationResult::Refused(did_auth.challenge(&fault))
            }
            DidAuthenticationResult::Known(caller, grant) => {
                let info = grant.and_then(|grant| HeaderValue::try_from(grant.authentication_info()).ok());
                AuthenticationResult::Known(
                    Box::new(self.engine.access().linked(caller)),
                    info.map(|value| (AUTHENTICATION_INFO, value)),
                )
            }
        }
    }

    async fn check_origin(&self, request: &AnpRequest) -> Result<String, RpcError> {
        self.origin(request).await.map_err(|fault| {
            let code = match fault {
                DidAuthError::Superseded { .. } => AnpErrorCode::DidSuperseded,
                DidAuthError::ForbiddenDid(_) => AnpErrorCode::Forbidden,
                DidAuthError::Busy => AnpErrorCode::TemporarilyUnavailable,
                _ => AnpErrorCode::Unauthorized,
            };
            RpcError::new(code).with_message(fault.to_string()).with_details(json!({"reason": fault.error_code()}))
        })
    }

    fn agent_did(&self, agent: &AgentName) -> Option<String> {
        self.dids.agent(agent).map(|own| own.did().to_string())
    }

    fn service_did(&self) -> Option<String> {
        self.dids.service().map(|own| own.did().to_string())
    }

    fn is_ours(&self, did: &str) -> bool {
        Did::parse(did).is_ok_and(|did| !matches!(self.dids.ownership(&did), DidOwnership::Foreign))
    }

    fn signed_message(&self, message: &OutgoingDirectMessage) -> Result<Value, String> {
        let signer = AgentSignerLookup::signer(&self.dids, &message.agent).ok_or("the agent has no DID")?;
        let request = message.request(signer.did().as_str(), self.engine.now());
        Ok(request.proven(|parts| signer.prove(parts))?.to_json())
    }

    async fn post(&self, message: &OutgoingDirectMessage, request: &Value) -> Result<(), DirectMessageDeliveryFailure> {
        let to = Did::parse(&message.to).map_err(|error| DirectMessageDeliveryFailure::permanent(error.to_string()))?;
        let resolver = self.did_auth.resolver();
        let document =
            resolver.resolve(&to).await.map_err(|error| DirectMessageDeliveryFailure::retryable(error.to_string()))?;
        let service = document.document().service("ANPMessageService");
        let service = service
            .ok_or_else(|| DirectMessageDeliveryFailure::retryable("its DID document has no message service"))?;
        let url = Url::parse(&service.endpoint)
            .map_err(|error| DirectMessageDeliveryFailure::retryable(error.to_string()))?;
        let mut outgoing = FetchRequest {
            method: "POST",
            url,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: Some(request.to_string().into()),
            trust: AddressTrust::Stranger,
            timeout: Duration::from_secs(15),
            max_bytes: 64 * 1024,
        };
        self.dids
            .sign(&message.agent, &mut outgoing)
            .map_err(|error| DirectMessageDeliveryFailure::permanent(error.message))?;
        let response = resolver.fetch().fetch(outgoing).await.map_err(|error| match error {
            // The address is forbidden, so another attempt would fail too.
            FetchError::Refused { .. } => DirectMessageDeliveryFailure::permanent(error.to_string()),
            other => DirectMessageDeliveryFailure::retryable(other.to_string()),
        })?;
        match AnpResponse::read(&response.body, 64 * 1024, &request["id"])
            .map_err(DirectMessageDeliveryFailure::retryable)?
        {
            AnpResponse::Result { .. } => Ok(()),
            AnpResponse::Error { error, .. } => {
                // A receiver that restarted refuses older proofs; the next attempt has a new proof.
                let again = |code: AnpErrorCode| code.is_retryable() || code == AnpErrorCode::Unauthorized;
                Err(DirectMessageDeliveryFailure {
                    later: error.known_code().is_none_or(again),
                    why: error.to_string(),
                })
            }
        }
    }

    fn information(&self, agent: &AgentName, stem: &str) -> Option<Value> {
        self.files.find(agent, stem)
    }

    fn prove(&self, agent: &AgentName, description: Value, form: DescriptionProofForm) -> Value {
        self.signed(self.dids.agent(agent), description, form)
    }

    fn prove_service(&self, description: Value) -> Value {
        self.signed(self.dids.service(), description, DescriptionProofForm::DataIntegrity)
    }
}

opaque_debug!(AnpIdentities);
