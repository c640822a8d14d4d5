//! HTTP routes of AAP. Handlers convert requests to calls of the engine and results to responses.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_core::edition_cache::EditionCache;
use nuncio_core::turn::StreamMode;
use nuncio_engine::access::AccessControl;
use nuncio_engine::converse::HistoryKind;
use nuncio_engine::not_found;
use nuncio_engine::{Caller, CallerCheckResult, Engine, EngineError};
use nuncio_http::BodyLimits;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::wire::session::{self, CreatedSession, HistoryResponse, SessionsPage};
use crate::wire::turn::TurnResponse;
use crate::{EventId, lift, project};

mod body;
mod front;
mod refuse;
mod sse;

pub use front::AapFront;

use front::BASE;
use refuse::AapError;

type AapResult = Result<Response, AapError>;

/// State that all AAP routes share.
#[derive(Debug, Clone)]
pub struct AapServerState {
    engine: Engine,
    bodies: BodyLimits,
    /// Cached body of `GET /meta`.
    meta: Arc<EditionCache<u64, (), Bytes>>,
}

impl AapServerState {
    #[must_use]
    pub fn new(engine: Engine, bodies: BodyLimits) -> Self {
        Self { engine, bodies, meta: Arc::default() }
    }
}

/// Builds the AAP router with its fallback. The server must add a [`CallerCheckResult`] to each request. Paths include
/// `/aap`, because a nested router would rewrite the URI of every request.
pub fn routes(aap: AapServerState) -> Router {
    table()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| router.route(&format!("{BASE}{path}"), methods))
        .method_not_allowed_fallback(method_not_allowed)
        .route(&format!("{BASE}/{{*nowhere}}"), any(not_found))
        .with_state(aap)
}

/// AAP routes as data, so that a test can compare them with the OpenAPI document.
fn table() -> Vec<(&'static str, MethodRouter<AapServerState>)> {
    vec![
        ("/meta", get(meta)),
        ("/sessions", get(list_sessions).post(create_session)),
        ("/sessions/{id}", get(show_session).delete(delete_session)),
        ("/sessions/{id}/history", get(history)),
        ("/sessions/{id}/turns", post(begin_turn)),
        ("/sessions/{id}/stream", get(continue_stream)),
        ("/sessions/{id}/cancel", post(cancel)),
    ]
}

/// `GET /meta`: a public document, independent of credentials.
async fn meta(State(aap): State<AapServerState>) -> Response {
    let agents = aap.engine.agents();
    let document = aap.meta.get_or_put(agents.agents_edition(), (), || {
        let meta = project::meta(agents.list().iter().map(|agent| &**agent));
        serde_json::to_vec(&meta).unwrap_or_default().into()
    });
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], document).into_response()
}

/// Handles `POST /sessions`.
async fn create_session(State(aap): State<AapServerState>, request: Request) -> AapResult {
    let caller = aap.caller(&request)?;
    let (body, idempotency) = body::read(&aap, request).await?;
    let new = lift::new_session(body)?;
    aap.engine.access().admit_app(&caller, &aap.engine.agents().agent(&new.agent)?.agent)?;
    let id = aap.engine.conversations().create_session(&caller, new, idempotency).await?;
    Ok((StatusCode::CREATED, axum::Json(CreatedSession { session_id: id.to_string() })).into_response())
}

#[derive(Deserialize)]
struct PageQuery {
    after: Option<String>,
}

/// Handles `GET /sessions?after=`.
async fn list_sessions(
    State(aap): State<AapServerState>,
    AapQuery(PageQuery { after }): AapQuery<PageQuery>,
    request: Request,
) -> AapResult {
    let caller = aap.caller(&request)?;
    let page = aap.engine.conversations().sessions(&caller, after.as_deref().filter(|after| !after.is_empty())).await?;
    let sessions = page.items.iter().map(project::session_info).collect();
    Ok(axum::Json(SessionsPage { sessions, next: page.next }).into_response())
}

/// Handles `GET /sessions/:id`.
async fn show_session(
    State(aap): State<AapServerState>,
    SessionIdPath(id): SessionIdPath,
    request: Request,
) -> AapResult {
    let caller = aap.caller(&request)?;
    aap.admit_in(&caller, &id).await?;
    let session = aap.engine.conversations().session(&caller, &id).await?;
    Ok(axum::Json(project::session_info(&session)).into_response())
}

/// Handles `DELETE /sessions/:id`.
async fn delete_session(
    State(aap): State<AapServerState>,
    SessionIdPath(id): SessionIdPath,
    request: Request,
) -> AapResult {
    aap.engine.conversations().delete_session(&aap.caller(&request)?, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
struct HistoryQuery {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// Handles `GET /sessions/:id/history?type=compacted|full`.
async fn history(
    State(aap): State<AapServerState>,
    SessionIdPath(id): SessionIdPath,
    AapQuery(HistoryQuery { kind }): AapQuery<HistoryQuery>,
    request: Request,
) -> AapResult {
    let caller = aap.caller(&request)?;
    aap.admit_in(&caller, &id).await?;
    let wrong = || EngineError::new(ErrorCode::BadRequest, "type must be \"compacted\" or \"full\"");
    let kind = kind.as_deref().and_then(session::HistoryKind::parse).ok_or_else(wrong)?;
    let stored = match kind {
        session::HistoryKind::Compacted => HistoryKind::Compacted,
        session::HistoryKind::Full => HistoryKind::Full,
    };
    let messages = aap.engine.conversations().history(&caller, &id, stored).await?;
    let history = [(kind.as_str().to_owned(), messages)].into();
    Ok(axum::Json(HistoryResponse { history }).into_response())
}

/// Handles `POST /sessions/:id/turns`.
async fn begin_turn(
    State(aap): State<AapServerState>,
    SessionIdPath(id): SessionIdPath,
    request: Request,
) -> AapResult {
    let caller = aap.caller(&request)?;
    aap.admit_in(&caller, &id).await?;
    let read =
        body::read(&aap, request).await.and_then(|(body, idempotency)| Ok((lift::turn_request(body)?, idempotency)));
    let (request, idempotency) = match read {
        Ok(read) => read,
        Err(error) => {
            // A missing session is reported before faults of the body.
            aap.engine.conversations().session(&caller, &id).await?;
            return Err(error.into());
        }
    };
    let mode = request.mode;
    if mode != StreamMode::None {
        let turn = aap.engine.conversations().begin_turn(&caller, &id, request, idempotency).await?;
        return Ok(sse::response(turn, mode, 0, &aap.engine));
    }
    let turn = aap.engine.conversations().run_turn(&caller, &id, request, idempotency).await?;
    let (stop, messages) = turn.read(|log| (log.stop(), log.messages()));
    Ok(axum::Json(TurnResponse { stop, messages }).into_response())
}

#[derive(Deserialize)]
struct TurnStreamQuery {
    stream: Option<String>,
    /// Whether to refuse the request if the turn has ended.
    #[serde(default)]
    running: bool,
}

/// `GET /sessions/:id/stream`, a Nuncio extension: streams the last turn, or the events after `Last-Event-ID`.
async fn continue_stream(
    State(aap): State<AapServerState>,
    SessionIdPath(id): SessionIdPath,
    AapQuery(query): AapQuery<TurnStreamQuery>,
    request: Request,
) -> AapResult {
    let caller = aap.caller(&request)?;
    aap.admit_in(&caller, &id).await?;
    let last = last_event_id(request.headers())?;
    let turn = aap.engine.conversations().turn(&caller, &id, last.map(|id| id.turn)).await?;
    if query.running && turn.read(nuncio_core::event::TurnEventLog::stop).is_some() {
        return Err(not_found::running_turn().into());
    }
    let mode = match query.stream.as_deref() {
        None if turn.mode == StreamMode::None => StreamMode::Delta,
        None => turn.mode,
        Some("delta") => StreamMode::Delta,
        Some("message") => StreamMode::Message,
        Some(_) => {
            return Err(EngineError::new(ErrorCode::BadRequest, "stream must be \"delta\" or \"message\"").into());
        }
    };
    let from = last.map_or(0, |id| id.event.saturating_add(1));
    Ok(sse::response(turn, mode, from, &aap.engine))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, EngineError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let wrong = || {
        EngineError::new(
            ErrorCode::BadEventId,
            "Last-Event-ID is not the id of an event of this session; ids look like 3.17",
        )
    };
    let id = value.to_str().ok().and_then(EventId::parse).ok_or_else(wrong)?;
    Ok(Some(id))
}

/// `POST /sessions/:id/cancel`, a Nuncio extension: cancels the turn and answers with its outcome once it has ended.
async fn cancel(State(aap): State<AapServerState>, SessionIdPath(id): SessionIdPath, request: Request) -> AapResult {
    let turn = aap.engine.conversations().cancel_turn(&aap.caller(&request)?, &id).await?;
    let stop = turn.read(nuncio_core::event::TurnEventLog::stop);
    Ok(axum::Json(stop).into_response())
}

/// Session id in the request path. Invalid UTF-8 is refused like an unknown session.
struct SessionIdPath(String);

impl<S: Send + Sync> FromRequestParts<S> for SessionIdPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(id)| id)))
    }
}

/// Query parameters; parse errors are sent in AAP's error format.
struct AapQuery<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for AapQuery<T> {
    type Rejection = AapError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AapError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => Err(EngineError::new(ErrorCode::BadRequest, error.body_text()).into()),
        }
    }
}

async fn not_found() -> AapError {
    EngineError::new(
        ErrorCode::NotFound,
        "there is nothing at this address; AAP is served below /aap, beginning with /aap/meta",
    )
    .into()
}

async fn method_not_allowed() -> AapError {
    nuncio_http::method_not_allowed().into()
}

impl AapServerState {
    /// Caller of the request; an error if the caller may use no agent over AAP.
    fn caller(&self, request: &Request) -> Result<Caller, EngineError> {
        let caller = caller(request)?;
        self.engine.access().admit_app_for_any_agent(&caller)?;
        Ok(caller)
    }

    /// Checks that the caller may use the session's agent over AAP. Loads no session if the caller needs no scope.
    async fn admit_in(&self, caller: &Caller, session: &str) -> Result<(), EngineError> {
        if !AccessControl::needs_scope(caller) {
            return Ok(());
        }
        let session = self.engine.conversations().session(caller, session).await?;
        self.engine.access().admit_app(caller, &self.engine.agents().agent(session.agent.as_str())?.agent)
    }
}

fn caller(request: &Request) -> Result<Caller, EngineError> {
    let identity = request.extensions().get().unwrap_or(&CallerCheckResult::Missing);
    if let CallerCheckResult::Known(caller) = identity {
        return Ok(caller.clone());
    }
    identity.identified()?;
    let message =
        format!("a key is needed: send `{}: Bearer KEY`; `nuncio key create` makes one", header::AUTHORIZATION);
    Err(EngineError::new(ErrorCode::Unauthorized, message))
}
