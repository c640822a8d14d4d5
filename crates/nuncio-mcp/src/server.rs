//! HTTP routes of MCP: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports>
//!
//! Handlers convert requests to calls of the engine and results to responses.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, post};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_engine::publish::PublishedAgent;
use nuncio_engine::{Caller, CallerCheckResult, Engine, EngineError};
use nuncio_http::{BodyLimits, CredentialLocation, is_json};
use serde_json::Value;

use crate::project::{self, ResultForm};
use crate::wire::{ClientMessage, JsonObject, McpError, McpRequest, STATELESS_REVISION, error_code, meta};

mod ask;
mod challenge;
mod elicitation;
mod front;
mod headers;
mod param_headers;
mod refuse;
mod respond;
mod running;
mod session;
mod stateless;
mod tools;

pub use front::McpFront;

use elicitation::ClientRequests;
use front::{AGENT_PATH, ONLY_AGENT_PATH};
use headers::{PROTOCOL_VERSION, SESSION_ID};
use refuse::McpFailure;
use running::RunningRequests;
use session::{ClientSession, SessionTokens};

/// State that all MCP routes share.
#[derive(Debug, Clone)]
pub struct McpServerState {
    engine: Engine,
    bodies: BodyLimits,
    /// Prefix of the server's URLs, without a trailing slash.
    base: Arc<str>,
    /// Whether access tokens of issuers are accepted.
    accepts_tokens: bool,
    sessions: Arc<SessionTokens>,
    running: RunningRequests,
    /// Questions to clients of sessions.
    questions: ClientRequests,
}

impl McpServerState {
    #[must_use]
    pub fn new(engine: Engine, bodies: BodyLimits, base: &str, accepts_tokens: bool) -> Self {
        let (sessions, running, questions) = Default::default();
        Self { engine, bodies, base: base.into(), accepts_tokens, sessions, running, questions }
    }
}

/// Builds the router. The server must add a [`CallerCheckResult`] to each request.
pub fn routes(mcp: McpServerState) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(mcp)
}

/// Routes as data, so that a test can compare them with the OpenAPI document.
fn table() -> Vec<(&'static str, MethodRouter<McpServerState>)> {
    vec![
        (ONLY_AGENT_PATH, post(post_to_only_agent).delete(end_session_of_only_agent)),
        (AGENT_PATH, post(post_to_agent).delete(end_session_of_agent)),
    ]
}

/// The agent that a path names: by its name, or as the only one.
type AgentOfPath = Option<String>;

async fn post_to_only_agent(State(mcp): State<McpServerState>, request: Request) -> Response {
    mcp.answer(None, request).await
}

async fn post_to_agent(State(mcp): State<McpServerState>, Path(agent): Path<String>, request: Request) -> Response {
    mcp.answer(Some(agent), request).await
}

async fn end_session_of_only_agent(State(mcp): State<McpServerState>, request: Request) -> Response {
    mcp.end_session(None, request)
}

async fn end_session_of_agent(
    State(mcp): State<McpServerState>,
    Path(agent): Path<String>,
    request: Request,
) -> Response {
    mcp.end_session(Some(agent), request)
}

/// An error response with the id of the request that it answers, if there is one.
struct RequestFailure {
    id: Option<Value>,
    failure: McpFailure,
}

impl<F: Into<McpFailure>> From<F> for RequestFailure {
    fn from(failure: F) -> Self {
        Self { id: None, failure: failure.into() }
    }
}

/// A request of a known caller to an agent.
struct AdmittedRequest {
    mcp: McpServerState,
    caller: Caller,
    served: Arc<PublishedAgent>,
    headers: HeaderMap,
    /// The session; `None` in the revision without sessions.
    session: Option<ClientSession>,
}

impl AdmittedRequest {
    fn form(&self) -> ResultForm {
        if self.session.is_some() { ResultForm::Session } else { ResultForm::Stateless }
    }
}

impl McpServerState {
    async fn answer(&self, agent: AgentOfPath, request: Request) -> Response {
        let answered = Box::pin(self.try_answer(agent, request)).await;
        answered.unwrap_or_else(|failed| failed.failure.response(failed.id.as_ref()))
    }

    async fn try_answer(&self, agent: AgentOfPath, request: Request) -> Result<Response, RequestFailure> {
        let (parts, body) = request.into_parts();
        let (caller, served) = self.admit(agent, &parts)?;
        is_json(&parts.headers)?;
        let body = self.bodies.read(&self.engine, &parts.extensions, body, CredentialLocation::Header).await?;
        let message = ClientMessage::read(&body).map_err(|unreadable| RequestFailure {
            id: unreadable.id,
            failure: McpFailure::new(StatusCode::BAD_REQUEST, *unreadable.error),
        })?;
        let of = AdmittedRequest { mcp: self.clone(), caller, served, headers: parts.headers, session: None };
        match message {
            ClientMessage::Request(request) => {
                let id = request.id.clone();
                of.answer(request).await.map_err(|failure| RequestFailure { id: Some(id), failure })
            }
            ClientMessage::Notification { method, params } => Ok(of.notify(&method, &params)?),
            ClientMessage::Response { id, response } if of.headers.contains_key(SESSION_ID) => {
                self.questions.respond(&of.find_session()?, &id, response);
                Ok(StatusCode::ACCEPTED.into_response())
            }
            ClientMessage::Response { .. } => {
                let message = "this revision has no requests of the server, so there is nothing to respond to";
                Err(McpFailure::bad_request(error_code::INVALID_REQUEST, message).into())
            }
        }
    }

    /// Finds out who calls which agent.
    fn admit(&self, agent: AgentOfPath, parts: &Parts) -> Result<(Caller, Arc<PublishedAgent>), McpFailure> {
        let served = self.agent(agent);
        let challenge = |failure: McpFailure| {
            self.add_challenge(failure, parts.uri.path(), served.as_ref().ok().map(|it| &*it.agent))
        };
        let caller = caller(parts).map_err(|error| challenge(error.into()))?;
        let served = served.clone()?;
        self.engine.access().admit_app(&caller, &served.agent).map_err(|error| challenge(error.into()))?;
        Ok((caller, served))
    }

    fn agent(&self, name: AgentOfPath) -> Result<Arc<PublishedAgent>, EngineError> {
        let agents = self.engine.agents();
        let not_found = |message: String| EngineError::new(ErrorCode::NotFound, message);
        let Some(name) = name else {
            let all = agents.list();
            return match all.as_slice() {
                [only] => agents.agent(only.name.as_str()).map_err(|error| not_found(error.message)),
                [] => Err(not_found("this server has no agent".to_owned())),
                _ => Err(not_found("this server has several agents; each is at /agents/NAME/mcp".to_owned())),
            };
        };
        agents.agent(&name).map_err(|error| not_found(error.message))
    }

    /// Handles `DELETE`, with which a client ends its session.
    fn end_session(&self, agent: AgentOfPath, request: Request) -> Response {
        let (parts, _) = request.into_parts();
        let ended = self.admit(agent, &parts).and_then(|(caller, served)| {
            let of = AdmittedRequest { mcp: self.clone(), caller, served, headers: parts.headers, session: None };
            let session = of.find_session()?;
            self.sessions.end(&self.engine, &session);
            Ok(StatusCode::NO_CONTENT.into_response())
        });
        ended.unwrap_or_else(|failure| failure.response(None))
    }
}

impl AdmittedRequest {
    async fn answer(mut self, request: McpRequest) -> Result<Response, McpFailure> {
        if self.is_stateless(&request.method, &request.params) {
            stateless::check_request(&self.headers, &request)?;
            return self.answer_stateless(request).await;
        }
        if request.method == "initialize" {
            return self.initialize(&request);
        }
        self.session = Some(self.find_session()?);
        let agent = &self.served.agent;
        match request.method.as_str() {
            "ping" => Ok(self.result(&request.id, serde_json::json!({}))),
            "tools/list" => tools::list(&self, &request.params).map(|tools| self.result(&request.id, tools)),
            "tools/call" => {
                let pending = tools::call(&self, request.params).await?;
                self.respond_in_session(request.id, pending).await
            }
            method => {
                let message = format!("{} has no method {method:?}", agent.name);
                Err(McpFailure::new(StatusCode::OK, McpError::new(error_code::METHOD_NOT_FOUND, message)))
            }
        }
    }

    async fn answer_stateless(self, request: McpRequest) -> Result<Response, McpFailure> {
        match request.method.as_str() {
            "server/discover" => Ok(self.result(&request.id, project::discover_result(&self.served.agent))),
            "tools/list" => tools::list(&self, &request.params).map(|tools| self.result(&request.id, tools)),
            "tools/call" => {
                let pending = tools::call(&self, request.params).await?;
                Ok(self.respond(request.id, pending).await)
            }
            method => {
                let message =
                    format!("{} has no method {method:?} in revision {STATELESS_REVISION}", self.served.agent.name);
                let error = McpError::new(error_code::METHOD_NOT_FOUND, message);
                Err(McpFailure::new(StatusCode::NOT_FOUND, error))
            }
        }
    }

    /// Whether a message belongs to the revision without sessions. `_meta` decides; without it an `initialize` or a
    /// session id means a session, and otherwise the version in the header counts.
    fn is_stateless(&self, method: &str, params: &JsonObject) -> bool {
        let meta = params.get("_meta").and_then(Value::as_object);
        if meta.is_some_and(|meta| meta.contains_key(meta::PROTOCOL_VERSION)) {
            return true;
        }
        let version = self.headers.get(PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
        method != "initialize"
            && !self.headers.contains_key(SESSION_ID)
            && version.is_some_and(|version| version >= STATELESS_REVISION)
    }

    fn notify(self, method: &str, params: &JsonObject) -> Result<Response, McpFailure> {
        if self.is_stateless(method, params) {
            stateless::check_headers(&self.headers, method, params)?;
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        let session = self.find_session()?;
        if method == "notifications/cancelled"
            && let Some(request) = params.get("requestId")
        {
            self.mcp.running.cancel(&session, request);
        }
        Ok(StatusCode::ACCEPTED.into_response())
    }

    /// Response with a result that is ready.
    fn result(&self, id: &Value, result: Value) -> Response {
        respond::json(id, Ok(project::completed(self.form(), &self.served.agent, result)))
    }
}

fn caller(parts: &Parts) -> Result<Caller, EngineError> {
    let identity = parts.extensions.get().unwrap_or(&CallerCheckResult::Missing);
    if let CallerCheckResult::Known(caller) = identity {
        return Ok(caller.clone());
    }
    identity.identified()?;
    let message =
        format!("a key is needed: send `{}: Bearer KEY`; `nuncio key create` makes one", header::AUTHORIZATION);
    Err(EngineError::new(ErrorCode::Unauthorized, message))
}
