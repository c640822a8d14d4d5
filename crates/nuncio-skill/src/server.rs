//! The protocol's routes. Each only translates: the request into a use-case, its outcome into an answer.

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
use nuncio_core::Code;
use nuncio_core::agent::SkillAuth;
use nuncio_core::principal::Principal;
use nuncio_engine::access::key_expired;
use nuncio_engine::{Caller, Engine, EngineError, Identity};
use nuncio_http::BodyLimits;
use url::Url;

use crate::project::{Host, OAuthEndpoints};
use crate::registry::Catalogue;
use crate::validate::Kind;

mod discover;
mod documents;
mod executions;
mod invoke;
mod refuse;
mod registry;

pub use refuse::refuse;

use documents::Documents;
use refuse::SkillError;
use registry::Registry;

/// Checks a request by a scheme of its own: the reference one, or another in its place.
#[async_trait]
pub trait RequestAuth: fmt::Debug + Send + Sync {
    /// Whom the request speaks for.
    async fn check(&self, parts: &Parts, body: &[u8]) -> Checked;
}

/// What a check of a request came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Checked {
    /// It carries nothing of the scheme.
    Absent,
    /// It is not valid; why.
    Invalid(String),
    /// It speaks for this caller.
    Known(Caller),
}

/// Finds where tokens of an issuer are had; of any, where none is named.
pub type FindIssuer = dyn Fn(Option<&Url>) -> Option<OAuthEndpoints> + Send + Sync;

/// What the routes need.
#[derive(Clone)]
pub struct Skills {
    engine: Engine,
    host: Arc<Host>,
    bodies: BodyLimits,
    custom: Arc<dyn RequestAuth>,
    issuers: Arc<FindIssuer>,
    documents: Arc<Documents>,
    registry: Arc<Registry>,
}

impl Skills {
    /// Skill Sharing on that engine.
    #[must_use]
    pub fn new(
        engine: Engine,
        host: Host,
        bodies: &BodyLimits,
        custom: Arc<dyn RequestAuth>,
        issuers: Arc<FindIssuer>,
    ) -> Self {
        let bodies = bodies.at_most(Kind::InvocationRequest.max_bytes());
        let (documents, registry) = Default::default();
        Self { engine, host: Arc::new(host), bodies, custom, issuers, documents, registry }
    }

    /// The same with what is known of other hosts.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: Arc<Catalogue>) -> Self {
        self.registry = Arc::new(Registry::new(catalogue));
        self
    }
}

impl fmt::Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skills").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The paths this protocol answers below.
pub const PREFIXES: &[&str] = &["/.well-known/skill-sharing", "/skills", "/executions", "/registry"];

/// The routes. Whoever mounts them puts an [`Identity`] into each request.
pub fn routes(skills: Skills) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(skills)
}

/// The paths of the routes.
pub fn paths() -> impl Iterator<Item = &'static str> {
    table().into_iter().map(|(path, _)| path)
}

/// The routes, as data: the OpenAPI document is held against it.
fn table() -> Vec<(&'static str, MethodRouter<Skills>)> {
    vec![
        ("/.well-known/skill-sharing", get(discover::index).fallback(method_not_allowed)),
        ("/skills/{*path}", any(skill)),
        ("/registry/skills", get(registry::skills).fallback(method_not_allowed)),
        ("/executions/{id}", get(executions::status).delete(executions::cancel).fallback(method_not_allowed)),
        ("/executions/{id}/result", get(executions::result).fallback(method_not_allowed)),
        ("/executions/{id}/cancel", post(executions::cancel).fallback(method_not_allowed)),
    ]
}

/// `/skills/{id}.json` and `/skills/{id}/invoke`; an id may have several parts.
async fn skill(State(skills): State<Skills>, Named(path): Named, request: Request) -> Result<Response, SkillError> {
    if let Some(id) = path.strip_suffix("/invoke") {
        return invoke::invoke(&skills, id, request).await;
    }
    match path.strip_suffix(".json") {
        Some(id) => discover::descriptor(&skills, id, request).await,
        None => Err(not_found(&path)),
    }
}

/// What a route leaves open in its path. Bytes that are no text name nothing there could be.
struct Named(String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(named.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name)))
    }
}

fn not_found(id: &str) -> SkillError {
    let id: String = id.chars().take(200).collect();
    SkillError::skill_not_found(&id)
}

async fn method_not_allowed() -> SkillError {
    EngineError::new(Code::MethodNotAllowed, "this address does not take that method; see the Allow header").into()
}

/// Whoever asks, by the key or token of the request, or by a key in the usual header; none is nobody.
fn caller(headers: &HeaderMap, identity: Option<&Identity>, engine: &Engine) -> Result<Option<Caller>, EngineError> {
    match by_identity(identity)? {
        Some(caller) => Ok(Some(caller)),
        None => headers.get(SkillAuth::KEY_HEADER).map(|key| by_key(engine, key.as_bytes())).transpose(),
    }
}

/// Whoever asks, by the key or token of the request.
fn by_identity(identity: Option<&Identity>) -> Result<Option<Caller>, EngineError> {
    match identity {
        Some(Identity::Known(caller)) if caller.principal != Principal::Anonymous => Ok(Some(caller.clone())),
        Some(Identity::Invalid) => Err(invalid()),
        Some(Identity::Expired(at)) => Err(key_expired(*at)),
        Some(Identity::Known(_) | Identity::Missing) | None => Ok(None),
    }
}

/// The holder of a key.
fn by_key(engine: &Engine, key: &[u8]) -> Result<Caller, EngineError> {
    match std::str::from_utf8(key).map(|key| engine.identity_by_key(key)) {
        Ok(Identity::Known(caller)) => Ok(caller),
        Ok(Identity::Expired(at)) => Err(key_expired(at)),
        Ok(Identity::Missing | Identity::Invalid) | Err(_) => Err(invalid()),
    }
}

fn invalid() -> EngineError {
    EngineError::new(Code::Unauthorized, "the key or token is not valid: unknown, expired or revoked")
}

/// Someone who said nothing about themselves.
fn nobody(identity: Option<&Identity>) -> Caller {
    match identity {
        Some(Identity::Known(caller)) => caller.clone(),
        _ => Caller::new(Principal::Anonymous),
    }
}

/// What a caller who asked to be called back is sent.
#[must_use]
pub fn callback_body(execution: &nuncio_core::execution::Execution) -> Vec<u8> {
    executions::Shown::from(execution).json()
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
