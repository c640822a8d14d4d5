//! HTTP routes of A2H. Each only translates a request into a call of the engine, and the outcome into a response.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Path, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_core::ids::PersonName;
use nuncio_core::manifest::{MAX_WRITTEN_BYTES, ScopePresets};
use nuncio_core::notification::RelayParty;
use nuncio_core::principal::Principal;
use nuncio_engine::{Caller, CallerCheckResult, Engine, EngineError};
use nuncio_http::pages::Language;
use nuncio_http::{BodyLimits, CredentialLocation, LocalizedResponseBody, QueryParameters};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::A2hError;
use crate::wire::{DataBody, Page};

mod agents;
mod auth;
mod conversations;
mod front;
mod keys;
mod manifests;
mod messages;
mod poll;
mod relations;
mod scopes;
mod socket;
mod users;
mod webhooks;

pub use front::A2hFront;
pub use nuncio_http::device_tokens::{
    AuthenticatedTokenCaller, DeviceTokenHolder, DeviceTokenIssuer, IssuedDeviceToken, identify,
};
pub use socket::SocketMetrics;
pub use webhooks::call_body;

use socket::SocketLimiter;

/// Limit of the rest of a request that carries a manifest, in bytes.
const BESIDE_A_MANIFEST: usize = 16 * 1024;
/// Limit of requests without manifest or message, in bytes: a consent may name every scope of a manifest.
const MAX_BODY: usize = 256 * 1024;
/// Limit of a request that carries a message, in bytes: the envelope in base64 and its fields.
const MAX_MESSAGE_BODY: usize = 1024 * 1024;
const DEFAULT_PAGE_SIZE: usize = 20;
const MAX_PAGE_SIZE: usize = 50;

type A2hResult = Result<Response, A2hError>;

#[derive(Debug, Clone)]
pub struct A2hServerState {
    engine: Engine,
    bodies: BodyLimits,
    tokens: Arc<dyn DeviceTokenIssuer>,
    presets: Arc<ScopePresets>,
    sockets: Arc<SocketLimiter>,
}

impl A2hServerState {
    /// `sockets` limits the number of connections that are open at once.
    #[must_use]
    pub fn new(
        engine: Engine,
        bodies: BodyLimits,
        tokens: Arc<dyn DeviceTokenIssuer>,
        presets: Arc<ScopePresets>,
        watch: Arc<dyn SocketMetrics>,
        sockets: usize,
    ) -> Self {
        Self { engine, bodies, tokens, presets, sockets: Arc::new(SocketLimiter::new(sockets, watch)) }
    }

    async fn manifest_body(&self, request: Request) -> Result<Bytes, EngineError> {
        self.read(request, MAX_WRITTEN_BYTES + BESIDE_A_MANIFEST, CredentialLocation::Header).await
    }

    async fn message_body(&self, request: Request) -> Result<Bytes, EngineError> {
        self.read(request, MAX_MESSAGE_BODY, CredentialLocation::Header).await
    }

    async fn body(&self, request: Request) -> Result<Bytes, EngineError> {
        self.read(request, MAX_BODY, CredentialLocation::Header).await
    }

    async fn read(&self, request: Request, most: usize, credential: CredentialLocation) -> Result<Bytes, EngineError> {
        nuncio_http::is_json(request.headers())?;
        let (parts, body) = request.into_parts();
        self.bodies.at_most(most).read(&self.engine, &parts.extensions, body, credential).await
    }
}

/// Router with all A2H routes. The server must add a [`CallerCheckResult`] extension to each request.
pub fn routes(a2h: A2hServerState) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(a2h)
}

/// Paths and handlers of all routes; a test compares the paths with the OpenAPI document.
fn table() -> Vec<(&'static str, MethodRouter<A2hServerState>)> {
    let routes = vec![
        ("/a2h/agents", get(agents::list).post(agents::create)),
        ("/a2h/agents/{id}", get(agents::show).patch(agents::update)),
        ("/a2h/agents/{id}/deliveries", get(webhooks::deliveries)),
        ("/a2h/agents/{id}/keys/register", post(keys::register_agent)),
        ("/a2h/agents/{id}/manifest:diff", post(manifests::diff)),
        ("/a2h/agents/{id}/manifests", get(manifests::history)),
        ("/a2h/agents/{id}/manifests/{version}", get(manifests::version)),
        ("/a2h/agents/{id}/messages/poll", get(poll::poll)),
        ("/a2h/agents/{id}/token", delete(agents::revoke_token)),
        ("/a2h/agents/{id}/token:rotate", post(agents::rotate_token)),
        ("/a2h/agents/{id}/webhook-secret:rotate", post(webhooks::rotate_secret)),
        ("/a2h/conversations", get(conversations::list).post(conversations::open)),
        ("/a2h/conversations/{id}", get(conversations::show).patch(conversations::change).delete(conversations::leave)),
        ("/a2h/conversations/{id}/messages", get(messages::list).post(messages::send)),
        ("/a2h/messages/{id}/claim", post(messages::claim)),
        ("/a2h/keys/agents/{id}", get(keys::of_agent)),
        ("/a2h/keys/backup", get(keys::backup).post(keys::back_up).put(keys::back_up).delete(keys::forget_backup)),
        ("/a2h/keys/devices/{id}/one-time-key", post(keys::take_one)),
        ("/a2h/keys/groups/{id}", get(keys::of_conversation)),
        ("/a2h/keys/users/{name}/devices", get(keys::of_person)),
        ("/a2h/h2a/relations", get(relations::list).post(relations::establish)),
        ("/a2h/h2a/relations/{id}", get(relations::show).patch(relations::change).delete(relations::revoke)),
        ("/a2h/h2a/relations/{id}/ledger", get(relations::ledger)),
        ("/a2h/auth/enroll", post(auth::enroll)),
        ("/a2h/auth/token", post(auth::token)),
        ("/a2h/auth/keys", get(auth::keys)),
        ("/a2h/users/me", get(users::me)),
        ("/a2h/users/me/devices", get(users::devices).post(users::invite_device)),
        ("/a2h/users/me/devices/{id}", delete(users::revoke_device)),
        ("/a2h/users/me/devices/{id}/endorsement", post(keys::endorse)),
        ("/a2h/users/me/devices/{id}/keys", post(keys::register_device)),
        ("/a2h/scopes", get(scopes::list)),
        ("/a2h/ws/human", get(socket::human)),
        ("/a2h/ws/agent", get(socket::agent)),
    ];
    routes.into_iter().map(|(path, methods)| (path, methods.fallback(method_not_allowed))).collect()
}

async fn method_not_allowed() -> A2hError {
    nuncio_http::method_not_allowed().into()
}

impl IntoResponse for A2hError {
    fn into_response(self) -> Response {
        let mut response = answer(self.status, &self.body);
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"nuncio\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response.headers_mut().extend(self.retry_after.map(|seconds| (header::RETRY_AFTER, seconds.into())));
        if let Some(body) = self.in_chinese() {
            let body = serde_json::to_vec(&body).unwrap_or_default().into();
            LocalizedResponseBody { language: Language::Chinese, body }.add_to(&mut response);
        }
        response
    }
}

/// JSON response that must not be cached, because it depends on the caller.
fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, bytes).into_response()
}

/// Lets the caller's own cache keep a response that has an `ETag`, and ask for it again with `If-None-Match`.
fn revalidated(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("authorization"));
    response
}

/// Successful JSON response with `data` in the member `data`.
fn data(status: StatusCode, data: impl Serialize) -> Response {
    answer(status, &DataBody { data })
}

/// Response 201 to the creation of an object, with its path in `Location`.
fn created(path: &str, object: impl Serialize) -> Response {
    let mut response = data(StatusCode::CREATED, object);
    let location = HeaderValue::try_from(path).ok();
    response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
    response
}

/// One page of a list. `found` has one item more than `limit` if more pages follow.
fn page<T, V: Serialize>(
    mut found: Vec<T>,
    limit: usize,
    view: impl Fn(&T) -> V,
    cursor: impl Fn(&T) -> String,
) -> Response {
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(cursor);
    answer(StatusCode::OK, &Page { data: found.iter().map(view).collect(), next_cursor })
}

struct PagedListQuery {
    asked: QueryParameters,
    limit: usize,
}

impl PagedListQuery {
    fn of(request: &Request) -> Result<Self, EngineError> {
        let asked = QueryParameters::of(request.uri());
        let message = || format!("limit must be a whole number from 1 to {MAX_PAGE_SIZE}");
        let bad = || EngineError::new(ErrorCode::BadRequest, message());
        let limit = match asked.pairs().find(|(name, _)| *name == "limit") {
            None => DEFAULT_PAGE_SIZE,
            Some((_, text)) => text.parse().ok().filter(|limit| (1..=MAX_PAGE_SIZE).contains(limit)).ok_or_else(bad)?,
        };
        Ok(Self { asked, limit })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.asked.pairs().find(|(found, _)| *found == name).map(|(_, text)| text)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, EngineError> {
        let bad = || EngineError::new(ErrorCode::BadRequest, format!("{name} must be a whole number"));
        self.text(name).map(|text| text.parse().map_err(|_| bad())).transpose()
    }

    /// Parsed `cursor` parameter: the position after which the page starts.
    fn cursor<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, EngineError> {
        let bad = || EngineError::new(ErrorCode::BadCursor, "the cursor is not valid; start again without a cursor");
        self.text("cursor").map(|text| read(text).ok_or_else(bad)).transpose()
    }
}

/// Path parameters. A parameter that is not UTF-8 becomes an empty text, which matches nothing.
struct PathParam<T = String>(T);

impl<S: Send + Sync, T: DeserializeOwned + Default + Send> FromRequestParts<S> for PathParam<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<T>::from_request_parts(parts, state).await;
        Ok(Self(named.map_or_else(|_| T::default(), |Path(names)| names)))
    }
}

/// Caller of a request; `None` if it has no credentials, an error if they are invalid.
fn visitor(request: &Request) -> Result<Option<Caller>, EngineError> {
    let identity = request.extensions().get().unwrap_or(&CallerCheckResult::Missing);
    let identified = identity.identified().map_err(|error| match error.code {
        ErrorCode::Unauthorized => {
            EngineError::new(error.code, format!("{error}; a device gets a new token at /a2h/auth/token"))
        }
        _ => error,
    });
    Ok(identified?.cloned())
}

/// Caller of a request; anonymous requests are refused.
fn caller(request: &Request) -> Result<Caller, EngineError> {
    let message = "authentication is required: send `Authorization: Bearer TOKEN` with the access token of a device or the token of an agent";
    visitor(request)?.ok_or_else(|| EngineError::new(ErrorCode::Unauthorized, message))
}

/// Person or agent that sends a request; other callers are refused.
fn participant(request: &Request) -> Result<(RelayParty, Caller), EngineError> {
    let caller = caller(request)?;
    match RelayParty::try_from(caller.principal.clone()) {
        Ok(participant) => Ok((participant, caller)),
        Err(_) => {
            let message = "only a person or an agent may send this request: use the access token of a device or the token of an agent";
            Err(EngineError::new(ErrorCode::Unauthorized, message))
        }
    }
}

/// Person who sends a request; other callers are refused.
fn person(request: &Request) -> Result<(PersonName, Caller), EngineError> {
    let caller = caller(request)?;
    match &caller.principal {
        Principal::Person(name) => Ok((name.clone(), caller)),
        _ => Err(EngineError::new(
            ErrorCode::Unauthorized,
            "only a person may send this request: use the access token of a device",
        )),
    }
}
