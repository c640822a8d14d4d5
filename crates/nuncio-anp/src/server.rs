//! ANP's routes. Each only translates: the request into a use-case, its outcome into an answer.

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
use nuncio_engine::access::Credential;
use nuncio_engine::{Caller, Engine, EngineError, Identity};
use nuncio_http::{BodyLimits, CredentialPlace, report_caller};
use serde_json::{Value, json};

use crate::directory::{self as registry, Keeper};
use crate::project::Host;
use crate::wire::Request as AnpRequest;
use crate::wire::RpcError;

mod chat;
mod deliver;
mod direct;
mod directory;
mod discover;
mod draft;
mod message;
mod negotiate;
mod rpc;
mod service;

pub use message::{DirectMessage, NotSent};

use discover::Documents;

/// Who is who: DIDs, proofs and signatures. The server that mounts these routes knows.
#[async_trait]
pub trait Identities: fmt::Debug + Send + Sync {
    /// Whom a request speaks for, by what its headers sign of it.
    async fn check(&self, parts: &Parts, body: &[u8]) -> Passage;

    /// Whom a request speaks for, by the proof inside it; the DID whose proof it is.
    async fn check_origin(&self, request: &AnpRequest) -> Result<String, RpcError>;

    /// An agent's DID, if it has one.
    fn agent_did(&self, agent: &AgentName) -> Option<String>;

    /// This service's DID, if it has one.
    fn service_did(&self) -> Option<String>;

    /// The same description with the agent's proof.
    fn prove(&self, agent: &AgentName, description: Value) -> Value;

    /// The same description with this service's proof.
    fn prove_service(&self, description: Value) -> Value;

    /// A file that an agent publishes, by its name without an ending.
    fn information(&self, agent: &AgentName, stem: &str) -> Option<Value>;

    /// Whether a DID is of an agent served here.
    fn is_ours(&self, did: &str) -> bool;

    /// The request that carries a message, proved by its sender.
    ///
    /// # Errors
    /// The sender has no DID.
    fn signed_message(&self, message: &DirectMessage) -> Result<Value, String>;

    /// Posts that request to the message service of whoever it is for.
    ///
    /// # Errors
    /// It did not arrive.
    async fn post(&self, message: &DirectMessage, request: &Value) -> Result<(), NotSent>;
}

/// What a check of a request came to.
#[derive(Debug)]
pub enum Passage {
    /// It carries no such credentials: the answer that asks for them.
    Absent(Response),
    /// It speaks for this caller; a header for the answer.
    Known(Box<Caller>, Option<(HeaderName, HeaderValue)>),
    /// It does not pass: the answer.
    Refused(Response),
}

/// What the routes need.
#[derive(Clone)]
pub struct Anp {
    engine: Engine,
    host: Arc<Host>,
    bodies: BodyLimits,
    identities: Arc<dyn Identities>,
    documents: Arc<Documents>,
    keeper: Option<Keeper>,
}

impl Anp {
    /// ANP on that engine.
    #[must_use]
    pub fn new(engine: Engine, host: Host, bodies: BodyLimits, identities: Arc<dyn Identities>) -> Self {
        Self { engine, host: Arc::new(host), bodies, identities, documents: Arc::default(), keeper: None }
    }

    /// The same with a directory.
    #[must_use]
    pub fn with_directory(mut self, keeper: Keeper) -> Self {
        self.keeper = Some(keeper);
        self
    }
}

impl fmt::Debug for Anp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anp").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The paths this protocol answers below, those of the DID documents it rests on among them.
pub const PREFIXES: &[&str] =
    &[crate::wire::WELL_KNOWN, "/.well-known/did.json", "/agents", "/anp", registry::PATH, registry::DESCRIPTION];

/// The routes. Whoever mounts them puts an [`Identity`] into each request.
pub fn routes(anp: Anp) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(anp)
}

/// The paths of the routes.
pub fn paths() -> impl Iterator<Item = &'static str> {
    table().into_iter().map(|(path, _)| path)
}

/// The routes, as data: the OpenAPI document is held against it.
fn table() -> Vec<(&'static str, MethodRouter<Anp>)> {
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

/// A request that was read whole, and who sent it.
struct Asked {
    body: Bytes,
    /// None is nobody.
    caller: Option<Caller>,
    /// What the answer carries.
    header: Option<(HeaderName, HeaderValue)>,
    /// What to answer if it turns out that someone must be known.
    challenge: Option<Response>,
}

impl Asked {
    /// The answer, with what it carries; nothing where nothing is wanted.
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

impl Anp {
    /// Reads a request, and finds out who sent it: by a key or token of this server, or by a signature.
    async fn ask(&self, request: Request) -> Result<Asked, Response> {
        let (parts, body) = request.into_parts();
        let read = self.bodies.read(&self.engine, &parts.extensions, body, CredentialPlace::Body).await;
        let body = read.map_err(|error| refuse(&error))?;
        let known = match parts.extensions.get::<Identity>() {
            Some(Identity::Known(caller)) if caller.principal != Principal::Anonymous => Some(caller.clone()),
            _ => None,
        };
        // A key or token that counts here is enough; who is known by nothing they showed may show more.
        if known.as_ref().is_some_and(|caller| caller.credential != Credential::None || !shows_more(&parts)) {
            return Ok(Asked { body, caller: known, header: None, challenge: None });
        }
        match self.identities.check(&parts, &body).await {
            Passage::Refused(response) => Err(response),
            Passage::Known(caller, header) => {
                report_caller(&parts.extensions, &caller.principal).map_err(|error| refuse(&error))?;
                let request = known.and_then(|known| known.request);
                let caller = Caller { request: caller.request.clone().or(request), ..*caller };
                Ok(Asked { body, caller: Some(caller), header, challenge: None })
            }
            Passage::Absent(challenge) => match parts.extensions.get::<Identity>() {
                // Where a server is open on purpose, nobody need say who they are.
                Some(Identity::Known(caller)) => {
                    Ok(Asked { body, caller: Some(caller.clone()), header: None, challenge: None })
                }
                Some(Identity::Invalid | Identity::Expired(_)) => Err(challenge),
                Some(Identity::Missing) | None => {
                    Ok(Asked { body, caller: None, header: None, challenge: Some(challenge) })
                }
            },
        }
    }
}

/// Whether a request shows who sends it in ANP's own way: by a signature, or by a token. One of another server
/// is not taken for a key that means nothing: its bearer has to sign.
fn shows_more(parts: &Parts) -> bool {
    let text = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or_default();
    parts.headers.contains_key("signature-input")
        || parts.headers.contains_key("signature")
        || scheme.eq_ignore_ascii_case("didwba")
        || (scheme.eq_ignore_ascii_case("bearer") && rest.trim_start().starts_with("eyJ"))
}

/// The answer to a request that is refused before its route, or for reasons of HTTP.
#[must_use]
pub fn refuse(error: &EngineError) -> Response {
    let status = nuncio_http::status(error.code);
    json_response(status, &json!({"error": {"code": error.code, "message": error.message}}))
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.to_string()).into_response()
}
