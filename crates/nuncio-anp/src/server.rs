//! HTTP routes of ANP. Handlers convert requests to calls of the engine and results to responses.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use nuncio_core::ids::AgentName;
use nuncio_core::principal::Principal;
use nuncio_engine::access::AuthenticationMethod;
use nuncio_engine::{Caller, CallerCheckResult, Engine, EngineError};
use nuncio_http::{BodyLimits, CredentialLocation, report_caller};
use nuncio_identity::proof::DescriptionProofForm;
use serde::Serialize;
use serde_json::Value;

use crate::directory::{self as registry, DirectoryIndex};
use crate::project::HostDocumentSettings;
use crate::wire::{AnpRequest, HttpError, HttpErrorBody, RpcError};

mod chat;
mod deliver;
mod direct;
mod directory;
mod discover;
mod draft;
mod front;
mod message;
mod negotiate;
mod operations;
mod rpc;
mod service;

pub use front::AnpFront;
pub use message::{DirectMessageDeliveryFailure, OutgoingDirectMessage};

use discover::DocumentCache;
use operations::NegotiationResultCache;

/// DIDs, proofs and signatures, provided by the server that mounts the routes.
#[async_trait]
pub trait AnpIdentityService: fmt::Debug + Send + Sync {
    /// Authenticates a request by its header fields.
    async fn check(&self, parts: &Parts, body: &[u8]) -> AuthenticationResult;

    /// Authenticates a request by its origin proof; returns the DID that signed.
    async fn check_origin(&self, request: &AnpRequest) -> Result<String, RpcError>;

    fn agent_did(&self, agent: &AgentName) -> Option<String>;

    fn service_did(&self) -> Option<String>;

    /// Adds the agent's proof to a description.
    fn prove(&self, agent: &AgentName, description: Value, form: DescriptionProofForm) -> Value;

    /// Adds this service's proof to a description.
    fn prove_service(&self, description: Value) -> Value;

    /// Content of a file that an agent publishes; `stem` is the file name without extension.
    fn information(&self, agent: &AgentName, stem: &str) -> Option<Value>;

    /// Whether the DID is one of this host: of the server or an agent, current, retired or never assigned.
    fn is_ours(&self, did: &str) -> bool;

    /// Builds and signs the request that carries a message.
    ///
    /// # Errors
    /// The sender has no DID.
    fn signed_message(&self, message: &OutgoingDirectMessage) -> Result<Value, String>;

    /// Posts the request to the recipient's message service.
    async fn post(&self, message: &OutgoingDirectMessage, request: &Value) -> Result<(), DirectMessageDeliveryFailure>;
}

#[derive(Debug)]
pub enum AuthenticationResult {
    /// The request has no credentials; the contained response asks for them.
    Absent(Response),
    /// The caller is authenticated; the header is added to the response.
    Known(Box<Caller>, Option<(HeaderName, HeaderValue)>),
    /// The credentials are invalid; the contained response refuses the request.
    Refused(Response),
}

type AnpResult = Result<Response, Response>;

/// State that all ANP routes share.
#[derive(Debug, Clone)]
pub struct AnpServerState {
    engine: Engine,
    host: Arc<HostDocumentSettings>,
    bodies: BodyLimits,
    identities: Arc<dyn AnpIdentityService>,
    documents: Arc<DocumentCache>,
    operations: Arc<NegotiationResultCache>,
    directory: DirectoryIndex,
}

impl AnpServerState {
    #[must_use]
    pub fn new(
        engine: Engine,
        host: HostDocumentSettings,
        bodies: BodyLimits,
        identities: Arc<dyn AnpIdentityService>,
        directory: DirectoryIndex,
    ) -> Self {
        let (documents, operations) = (Arc::default(), Arc::default());
        Self { engine, host: Arc::new(host), bodies, identities, documents, operations, directory }
    }
}

/// Builds the router. The server must add a [`CallerCheckResult`] to each request.
pub fn routes(anp: AnpServerState) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(anp)
}

/// Routes as data, so that a test can compare them with the OpenAPI document.
fn table() -> Vec<(&'static str, MethodRouter<AnpServerState>)> {
    vec![
        (crate::wire::WELL_KNOWN, get(discover::agents)),
        ("/agents/{name}/ad.json", get(discover::description)),
        ("/agents/{name}/interfaces/{file}", get(discover::interface)),
        ("/agents/{name}/information/{file}", get(discover::information)),
        ("/agents/{name}/rpc", post(rpc::call)),
        ("/anp", post(service::answer)),
        (registry::PATH, get(directory::agents).post(directory::register)),
        ("/registry/agents/{id}", delete(directory::remove)),
        (registry::DESCRIPTION, get(directory::description)),
    ]
}

struct AuthenticatedRequest {
    body: Bytes,
    /// Authenticated caller; `None` if the request has no credentials.
    caller: Option<Caller>,
    /// Header to add to the response.
    header: Option<(HeaderName, HeaderValue)>,
    /// Response to send if the route requires authentication; `None` if the caller is authenticated.
    challenge: Option<Response>,
}

impl AuthenticatedRequest {
    /// Builds the response to the request: status 204 if `body` is `None`.
    fn answer(self, body: Option<&Value>) -> Response {
        let mut response = match body {
            Some(body) => json_response(StatusCode::OK, body),
            None => StatusCode::NO_CONTENT.into_response(),
        };
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl AnpServerState {
    /// Reads a request and authenticates it, by a key or token of this server or by a signature.
    async fn authenticate(&self, request: Request) -> Result<AuthenticatedRequest, Response> {
        let (parts, body) = request.into_parts();
        let read = self.bodies.read(&self.engine, &parts.extensions, body, CredentialLocation::Body).await;
        let body = read.map_err(|error| refuse(&error))?;
        let by_server_key = match parts.extensions.get::<CallerCheckResult>() {
            Some(CallerCheckResult::Known(caller)) if caller.principal != Principal::Anonymous => Some(caller.clone()),
            _ => None,
        };
        // A key or token of this server is sufficient; a caller without credentials may still have signed.
        let is_sufficient =
            |caller: &Caller| caller.authentication != AuthenticationMethod::None || !has_anp_credentials(&parts);
        if by_server_key.as_ref().is_some_and(is_sufficient) {
            return Ok(AuthenticatedRequest { body, caller: by_server_key, header: None, challenge: None });
        }
        let (caller, header, challenge) = match self.identities.check(&parts, &body).await {
            AuthenticationResult::Refused(response) => return Err(response),
            AuthenticationResult::Known(caller, header) => {
                report_caller(&parts.extensions, &caller.principal).map_err(|error| refuse(&error))?;
                let request = by_server_key.and_then(|by_server_key| by_server_key.request);
                (Some(Caller { request: caller.request.clone().or(request), ..*caller }), header, None)
            }
            AuthenticationResult::Absent(challenge) => match parts.extensions.get::<CallerCheckResult>() {
                // On a server that is open to anonymous callers, authentication is optional.
                Some(CallerCheckResult::Known(caller)) => (Some(caller.clone()), None, None),
                Some(CallerCheckResult::Invalid | CallerCheckResult::Expired(_)) => return Err(challenge),
                Some(CallerCheckResult::Missing) | None => (None, None, Some(challenge)),
            },
        };
        Ok(AuthenticatedRequest { body, caller, header, challenge })
    }
}

/// Whether a request has ANP credentials: a signature or a JWT. A token of another server is not treated as an unknown
/// key; its bearer must sign.
fn has_anp_credentials(parts: &Parts) -> bool {
    let text = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or_default();
    parts.headers.contains_key("signature-input")
        || parts.headers.contains_key("signature")
        || scheme.eq_ignore_ascii_case("didwba")
        || (scheme.eq_ignore_ascii_case("bearer") && rest.trim_start().starts_with("eyJ"))
}

/// Builds the response to a request that is refused before its route or at the HTTP level.
fn refuse(error: &EngineError) -> Response {
    error_response(nuncio_http::status(error.code), error)
}

fn error_response(status: StatusCode, error: &EngineError) -> Response {
    json_response(status, &HttpErrorBody { error: HttpError { code: error.code, message: &error.message } })
}

fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
