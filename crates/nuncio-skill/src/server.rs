//! HTTP routes of Skill Sharing. Handlers convert requests to calls of the engine and results to responses.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::agent::SkillAuth;
use nuncio_core::principal::Principal;
use nuncio_engine::access::invalid_credential;
use nuncio_engine::ports::Fetch;
use nuncio_engine::{Caller, CallerCheckResult, Engine, EngineError};
use nuncio_http::BodyLimits;
use url::Url;

use crate::project::{OAuthEndpoints, SkillHostInfo};
use crate::registry::SkillCatalogue;
use crate::validate::SkillDocumentType;

mod discover;
mod documents;
mod executions;
mod front;
mod invoke;
mod refuse;
mod registry;

pub use executions::body as callback_body;
pub use front::SkillFront;

use documents::DocumentCache;
use refuse::SkillError;
use registry::SkillRegistry;

type SkillResult = Result<Response, SkillError>;

/// Authenticates requests to skills with `custom` authentication, for example by the reference signature.
#[async_trait]
pub trait RequestAuthenticator: fmt::Debug + Send + Sync {
    /// Identifies the caller of a request.
    async fn check(&self, parts: &Parts, body: &[u8]) -> RequestCheckResult;
}

/// Result of [`RequestAuthenticator::check`].
#[derive(Debug, Clone, PartialEq)]
pub enum RequestCheckResult {
    /// The request has no credential of this scheme.
    Absent,
    /// The credential is invalid; the text says why.
    Invalid(String),
    /// The credential is valid and belongs to this caller.
    Known(Caller),
}

/// Looks up the OAuth endpoints of an issuer, or of any issuer if none is named.
pub type OAuthEndpointLookup = dyn Fn(Option<&Url>) -> Option<OAuthEndpoints> + Send + Sync;

/// State that all routes of Skill Sharing share.
#[derive(Clone)]
pub struct SkillServerState {
    engine: Engine,
    host: Arc<SkillHostInfo>,
    bodies: BodyLimits,
    custom: Arc<dyn RequestAuthenticator>,
    issuers: Arc<OAuthEndpointLookup>,
    documents: Arc<DocumentCache>,
    registry: Arc<SkillRegistry>,
    /// Client that calls callback addresses; `None` accepts every address.
    callbacks: Option<Arc<dyn Fetch>>,
}

impl SkillServerState {
    #[must_use]
    pub fn new(
        engine: Engine,
        host: SkillHostInfo,
        bodies: &BodyLimits,
        custom: Arc<dyn RequestAuthenticator>,
        issuers: Arc<OAuthEndpointLookup>,
    ) -> Self {
        let bodies = bodies.at_most(SkillDocumentType::InvocationRequest.max_bytes());
        let (documents, registry) = Default::default();
        Self { engine, host: Arc::new(host), bodies, custom, issuers, documents, registry, callbacks: None }
    }

    /// Adds the client that will call callback addresses. An address that it never calls is refused at once.
    #[must_use]
    pub fn with_callbacks(mut self, fetch: Arc<dyn Fetch>) -> Self {
        self.callbacks = Some(fetch);
        self
    }

    /// Adds the catalogue of skills of other hosts.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: Arc<SkillCatalogue>) -> Self {
        self.registry = Arc::new(SkillRegistry::new(catalogue));
        self
    }
}

impl fmt::Debug for SkillServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillServerState").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Builds the router. The server must add a [`CallerCheckResult`] to each request.
pub fn routes(skills: SkillServerState) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(skills)
}

/// Routes as data, so that a test can compare them with the OpenAPI document.
fn table() -> Vec<(&'static str, MethodRouter<SkillServerState>)> {
    vec![
        ("/.well-known/skill-sharing", get(discover::index).fallback(method_not_allowed)),
        ("/skills/{*path}", any(skill)),
        ("/registry/skills", get(registry::skills).fallback(method_not_allowed)),
        ("/executions/{id}", get(executions::status).delete(executions::cancel).fallback(method_not_allowed)),
        ("/executions/{id}/result", get(executions::result).fallback(method_not_allowed)),
        ("/executions/{id}/cancel", post(executions::cancel).fallback(method_not_allowed)),
    ]
}

/// Handles `/skills/{id}.json` and `/skills/{id}/invoke`; an id may have several path segments.
async fn skill(
    State(skills): State<SkillServerState>,
    WildcardPath(path): WildcardPath,
    request: Request,
) -> SkillResult {
    if let Some(id) = path.strip_suffix("/invoke") {
        return invoke::invoke(&skills, id, request).await;
    }
    match path.strip_suffix(".json") {
        Some(id) => discover::descriptor(&skills, id, request).await,
        None => Err(SkillError::skill_not_found(&path)),
    }
}

/// Wildcard part of a request path. Invalid UTF-8 becomes a name that does not exist.
struct WildcardPath(String);

impl<S: Send + Sync> FromRequestParts<S> for WildcardPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name)))
    }
}

async fn method_not_allowed() -> SkillError {
    nuncio_http::method_not_allowed().into()
}

/// Caller identified by `identity`, else by an API key in the default header; `None` without credentials.
fn caller(
    headers: &HeaderMap,
    identity: Option<&CallerCheckResult>,
    engine: &Engine,
) -> Result<Option<Caller>, EngineError> {
    match by_identity(identity)? {
        Some(caller) => Ok(Some(caller)),
        None => headers.get(SkillAuth::KEY_HEADER).map(|key| by_key(engine, key.as_bytes())).transpose(),
    }
}

/// Caller whom the HTTP server identified by a key or token; `None` if anonymous.
fn by_identity(identity: Option<&CallerCheckResult>) -> Result<Option<Caller>, EngineError> {
    Ok(identity.unwrap_or(&CallerCheckResult::Missing).identified()?.cloned())
}

/// Caller to whom an API key belongs.
fn by_key(engine: &Engine, key: &[u8]) -> Result<Caller, EngineError> {
    let key = std::str::from_utf8(key).map_err(|_| invalid_credential())?;
    engine.access().identity_by_key(key).identified()?.cloned().ok_or_else(invalid_credential)
}

/// Caller without credentials.
fn anonymous(identity: Option<&CallerCheckResult>) -> Caller {
    match identity {
        Some(CallerCheckResult::Known(caller)) => caller.clone(),
        _ => Caller::new(Principal::Anonymous),
    }
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
