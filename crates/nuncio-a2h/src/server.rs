//! Routes of the protocol. Each only translates a request into a use case, and its outcome into a response.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Path, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use nuncio_core::Code;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::manifest::{MAX_WRITTEN_BYTES, Presets};
use nuncio_core::person::Device;
use nuncio_core::principal::Principal;
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::key_expired;
use nuncio_engine::{Caller, Credential, Engine, EngineError, Identity};
use nuncio_http::{BodyLimits, CredentialLocation, QueryParameters};
use serde::Serialize;
use serde_json::Value;

use crate::error::A2hError;
use crate::wire::{Answer, Page};

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
pub use socket::SocketMetrics;
pub use webhooks::call_body;

use socket::Sockets;

/// Limit of a request that carries a manifest, beside the manifest, in bytes.
const BESIDE_A_MANIFEST: usize = 16 * 1024;
/// Limit of other requests, in bytes: a consent may name every scope of a manifest.
const MAX_BODY: usize = 256 * 1024;
/// Limit of a request that carries a message, in bytes: the envelope in base64 and its fields.
const MAX_MESSAGE_BODY: usize = 1024 * 1024;
/// Default and largest page size.
const PAGE: usize = 20;
const MAX_PAGE: usize = 50;

/// Issues and verifies the access tokens of people's devices.
pub trait DeviceTokens: fmt::Debug + Send + Sync {
    /// Token for a device that proved its key.
    fn issue(&self, device: &Device) -> AccessToken;
    /// Holder of a token; `None` unless this server issued it and it is valid now.
    fn read(&self, token: &str) -> Option<TokenHolder>;
    /// Audience that devices sign for: this server's URL.
    fn audience(&self) -> &str;
    /// Key that signs tokens.
    fn key(&self) -> PublicKey;
    /// The same key as a JWK.
    fn jwk(&self) -> Value;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    pub token: String,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    pub person: PersonName,
    pub device: DeviceId,
    pub expires_at: Timestamp,
}

/// Authenticated caller; `expires_at` is `None` for tokens without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenIdentity {
    pub caller: Caller,
    pub expires_at: Option<Timestamp>,
}

/// Authenticates a token: that of an agent, or of a person's device that is not revoked.
pub async fn identify(
    engine: &Engine,
    tokens: &dyn DeviceTokens,
    token: &str,
) -> Result<Option<TokenIdentity>, EngineError> {
    if let Some(caller) = engine.accounts().authenticate_agent_token(token).await? {
        return Ok(Some(TokenIdentity { caller, expires_at: None }));
    }
    let Some(holder) = tokens.read(token) else { return Ok(None) };
    let device = engine.people().valid_device(&holder.device).await?.filter(|device| device.person == holder.person);
    Ok(device.map(|device| {
        let credential = Credential::Device(device.id);
        let person = Some(device.person.clone());
        let caller = Caller { credential, person, ..Caller::new(Principal::Person(device.person)) };
        TokenIdentity { caller, expires_at: Some(holder.expires_at) }
    }))
}

/// What a handler returns.
type A2hResult = Result<Response, A2hError>;

#[derive(Debug, Clone)]
pub struct A2h {
    engine: Engine,
    bodies: BodyLimits,
    tokens: Arc<dyn DeviceTokens>,
    presets: Arc<Presets>,
    sockets: Arc<Sockets>,
}

impl A2h {
    /// At most `sockets` connections are open at once.
    #[must_use]
    pub fn new(
        engine: Engine,
        bodies: BodyLimits,
        tokens: Arc<dyn DeviceTokens>,
        presets: Arc<Presets>,
        watch: Arc<dyn SocketMetrics>,
        sockets: usize,
    ) -> Self {
        Self { engine, bodies, tokens, presets, sockets: Arc::new(Sockets::new(sockets, watch)) }
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

/// Routes; the caller of this function puts an [`Identity`] into each request.
pub fn routes(a2h: A2h) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(a2h)
}

/// Routes as data; a test compares them with the OpenAPI document.
fn table() -> Vec<(&'static str, MethodRouter<A2h>)> {
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
    A2hError::new(Code::MethodNotAllowed, "this address does not take that method; see the Allow header")
}

impl IntoResponse for A2hError {
    fn into_response(self) -> Response {
        let mut response = answer(self.status, &self.body);
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"nuncio\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response.headers_mut().extend(self.retry_after.map(|seconds| (header::RETRY_AFTER, seconds.into())));
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

/// Successful response.
fn data(status: StatusCode, data: impl Serialize) -> Response {
    answer(status, &Answer { data })
}

/// Page from a list with one item more than the page holds; `cursor` gives the position of the next page.
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

/// Page parameters of a query.
struct ListQuery {
    asked: QueryParameters,
    limit: usize,
}

impl ListQuery {
    fn of(request: &Request) -> Result<Self, EngineError> {
        let asked = QueryParameters::of(request.uri());
        let limit = match asked.pairs().find(|(name, _)| *name == "limit") {
            None => PAGE,
            Some((_, text)) => text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit)).ok_or_else(|| {
                EngineError::new(Code::BadRequest, format!("limit must be a whole number from 1 to {MAX_PAGE}"))
            })?,
        };
        Ok(Self { asked, limit })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.asked.pairs().find(|(found, _)| *found == name).map(|(_, text)| text)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, EngineError> {
        let bad = || EngineError::new(Code::BadRequest, format!("{name} must be a whole number"));
        self.text(name).map(|text| text.parse().map_err(|_| bad())).transpose()
    }

    /// Position from which the page starts.
    fn cursor<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, EngineError> {
        let bad = || EngineError::new(Code::BadCursor, "the cursor is not one this server gave; begin without one");
        self.text("cursor").map(|text| read(text).ok_or_else(bad)).transpose()
    }
}

/// Path parameter. Bytes that are no UTF-8 become a name that matches nothing.
struct PathParam<T>(T);

impl<S: Send + Sync> FromRequestParts<S> for PathParam<String> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(named.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParam<(String, String)> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<(String, String)>::from_request_parts(parts, state).await;
        Ok(Self(named.map_or_else(|_| Default::default(), |Path(names)| names)))
    }
}

/// Caller of a request; `None` for anonymous requests.
fn visitor(request: &Request) -> Result<Option<Caller>, EngineError> {
    match request.extensions().get::<Identity>() {
        Some(Identity::Known(caller)) if caller.principal != Principal::Anonymous => Ok(Some(caller.clone())),
        Some(Identity::Invalid) => {
            let message = "the token or key is not valid: unknown, expired or revoked; a device gets a new token at /a2h/auth/token";
            Err(EngineError::new(Code::Unauthorized, message))
        }
        Some(Identity::Expired(at)) => Err(key_expired(*at)),
        Some(Identity::Known(_) | Identity::Missing) | None => Ok(None),
    }
}

/// Caller of a request that needs authentication.
fn caller(request: &Request) -> Result<Caller, EngineError> {
    let message = "say who asks: `Authorization: Bearer TOKEN`, with the access token of a device or an agent's own";
    visitor(request)?.ok_or_else(|| EngineError::new(Code::Unauthorized, message))
}

/// Calling person or agent; other callers are refused.
fn party(request: &Request) -> Result<(Recipient, Caller), EngineError> {
    let caller = caller(request)?;
    match Recipient::try_from(caller.principal.clone()) {
        Ok(party) => Ok((party, caller)),
        Err(_) => {
            let message = "a person or an agent must ask: send the access token of a device, or an agent's own";
            Err(EngineError::new(Code::Unauthorized, message))
        }
    }
}

/// Calling person; other callers are refused.
fn person(request: &Request) -> Result<(PersonName, Caller), EngineError> {
    let caller = caller(request)?;
    match &caller.principal {
        Principal::Person(name) => Ok((name.clone(), caller)),
        _ => Err(EngineError::new(Code::Unauthorized, "a person must ask: send the access token of a device")),
    }
}
