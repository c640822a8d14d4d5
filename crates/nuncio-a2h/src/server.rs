//! The protocol's routes. Each only translates: the request into a use-case, its outcome into an answer.

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
use nuncio_http::{Asked, BodyLimits, CredentialPlace};
use serde::Serialize;
use serde_json::Value;

use crate::error::Refused;
use crate::wire::{Answer, Page};

mod agents;
mod auth;
mod conversations;
mod keys;
mod manifests;
mod messages;
mod poll;
mod relations;
mod scopes;
mod socket;
mod users;
mod webhooks;

pub use socket::Watch;
pub use webhooks::call_body;

use socket::Sockets;

/// How much a request that brings a manifest may hold beside it.
const BESIDE_A_MANIFEST: usize = 16 * 1024;
/// How much any other request may hold: a consent may name every scope of a manifest.
const MAX_BODY: usize = 256 * 1024;
/// How much a message may have, as it is written: its envelope in base64, and a little.
const MAX_MESSAGE_BODY: usize = 1024 * 1024;
/// How many of a list come at once, unless the request says otherwise, and at most.
const PAGE: usize = 20;
const MAX_PAGE: usize = 50;

/// Makes and reads the access tokens of people's devices.
pub trait Tokens: fmt::Debug + Send + Sync {
    /// A token for a device that showed its key.
    fn issue(&self, device: &Device) -> AccessToken;
    /// Whose a token is; none when it is not one of ours that is good now.
    fn read(&self, token: &str) -> Option<Holder>;
    /// What devices sign for: this server's address.
    fn audience(&self) -> &str;
    /// The key that signs tokens.
    fn key(&self) -> PublicKey;
    /// The same as a JWK.
    fn jwk(&self) -> Value;
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// The token.
    pub token: String,
    /// Until when it is good.
    pub expires_at: Timestamp,
}

/// Whose a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The person.
    pub person: PersonName,
    /// On which device.
    pub device: DeviceId,
    /// Until when.
    pub expires_at: Timestamp,
}

/// Who showed a token, and until when it is good; for ever without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Who.
    pub caller: Caller,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

/// Who shows that token: an agent, or a person on a device that is theirs at this moment.
///
/// # Errors
/// The store cannot be read.
pub async fn identify(engine: &Engine, tokens: &dyn Tokens, token: &str) -> Result<Option<Shown>, EngineError> {
    if let Some(caller) = engine.authenticate_agent_token(token).await? {
        return Ok(Some(Shown { caller, expires_at: None }));
    }
    let Some(holder) = tokens.read(token) else { return Ok(None) };
    let device = engine.valid_device(&holder.device).await?.filter(|device| device.person == holder.person);
    Ok(device.map(|device| {
        let credential = Credential::Device(device.id);
        let person = Some(device.person.clone());
        let caller = Caller { credential, person, ..Caller::new(Principal::Person(device.person)) };
        Shown { caller, expires_at: Some(holder.expires_at) }
    }))
}

/// What the routes need.
#[derive(Debug, Clone)]
pub struct A2h {
    engine: Engine,
    bodies: BodyLimits,
    tokens: Arc<dyn Tokens>,
    presets: Arc<Presets>,
    sockets: Arc<Sockets>,
}

impl A2h {
    /// A2H on that engine. At most `sockets` are open at once.
    #[must_use]
    pub fn new(
        engine: Engine,
        bodies: BodyLimits,
        tokens: Arc<dyn Tokens>,
        presets: Arc<Presets>,
        watch: Arc<dyn Watch>,
        sockets: usize,
    ) -> Self {
        Self { engine, bodies, tokens, presets, sockets: Arc::new(Sockets::new(sockets, watch)) }
    }

    /// Reads a body that may hold a manifest.
    async fn manifest_body(&self, request: Request) -> Result<Bytes, EngineError> {
        self.read(request, MAX_WRITTEN_BYTES + BESIDE_A_MANIFEST, CredentialPlace::Header).await
    }

    /// Reads a body that holds a sealed message.
    async fn message_body(&self, request: Request) -> Result<Bytes, EngineError> {
        self.read(request, MAX_MESSAGE_BODY, CredentialPlace::Header).await
    }

    /// Reads any other body.
    async fn body(&self, request: Request) -> Result<Bytes, EngineError> {
        self.read(request, MAX_BODY, CredentialPlace::Header).await
    }

    async fn read(&self, request: Request, most: usize, credential: CredentialPlace) -> Result<Bytes, EngineError> {
        nuncio_http::is_json(request.headers())?;
        let (parts, body) = request.into_parts();
        self.bodies.at_most(most).read(&self.engine, &parts.extensions, body, credential).await
    }
}

/// The paths this protocol answers below.
pub const PREFIXES: &[&str] = &["/a2h"];

/// The routes. Whoever mounts them puts an [`Identity`] into each request.
pub fn routes(a2h: A2h) -> Router {
    table().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(a2h)
}

/// The paths of the routes.
pub fn paths() -> impl Iterator<Item = &'static str> {
    table().into_iter().map(|(path, _)| path)
}

/// The routes, as data: the OpenAPI document is held against it.
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

async fn method_not_allowed() -> Refused {
    Refused::new(Code::MethodNotAllowed, "this address does not take that method; see the Allow header")
}

/// The answer to a request that is refused before its route.
#[must_use]
pub fn refuse(error: &EngineError) -> Response {
    Refused::from(error.clone()).into_response()
}

impl IntoResponse for Refused {
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

/// A JSON answer. None is kept by anyone: each depends on who asks.
fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, bytes).into_response()
}

/// What was asked for.
fn data(status: StatusCode, data: impl Serialize) -> Response {
    answer(status, &Answer { data })
}

/// A page, from one item more than it holds; `cursor` says where the next begins.
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

/// Which page is asked for.
struct Wanted {
    asked: Asked,
    limit: usize,
}

impl Wanted {
    fn of(request: &Request) -> Result<Self, EngineError> {
        let asked = Asked::of(request.uri());
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

    /// A whole number.
    fn number(&self, name: &str) -> Result<Option<u64>, EngineError> {
        let bad = || EngineError::new(Code::BadRequest, format!("{name} must be a whole number"));
        self.text(name).map(|text| text.parse().map_err(|_| bad())).transpose()
    }

    /// Where the page begins.
    fn cursor<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, EngineError> {
        let bad = || EngineError::new(Code::BadCursor, "the cursor is not one this server gave; begin without one");
        self.text("cursor").map(|text| read(text).ok_or_else(bad)).transpose()
    }
}

/// What a route leaves open in its path. Bytes that are no text name nothing there could be.
struct Named<T>(T);

impl<S: Send + Sync> FromRequestParts<S> for Named<String> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(named.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named<(String, String)> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<(String, String)>::from_request_parts(parts, state).await;
        Ok(Self(named.map_or_else(|_| Default::default(), |Path(names)| names)))
    }
}

/// Whoever asks; none is nobody we know.
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

/// Whoever asks, where somebody must.
fn caller(request: &Request) -> Result<Caller, EngineError> {
    let message = "say who asks: `Authorization: Bearer TOKEN`, with the access token of a device or an agent's own";
    visitor(request)?.ok_or_else(|| EngineError::new(Code::Unauthorized, message))
}

/// The person or the agent who asks, where one of them must.
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

/// The person who asks, where a person must.
fn person(request: &Request) -> Result<(PersonName, Caller), EngineError> {
    let caller = caller(request)?;
    match &caller.principal {
        Principal::Person(name) => Ok((name.clone(), caller)),
        _ => Err(EngineError::new(Code::Unauthorized, "a person must ask: send the access token of a device")),
    }
}
