//! The routes of the server, and the middleware that every request passes.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::uri::Authority;
use ::http::{HeaderValue, StatusCode, Uri, Version, header};
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, ready};
use nuncio_auth::Authenticator;
use nuncio_console::Console;
use nuncio_core::ErrorCode;
use nuncio_engine::{Engine, EngineError};
use nuncio_http::device_tokens::DeviceTokenIssuer as _;
use nuncio_http::pages::Language;
use nuncio_http::{method_not_allowed, translate};
use tower::{Service, layer::layer_fn};
use tracing::Instrument as _;

use crate::dids;
use crate::fronts::{ProtocolDependencies, fronts};
use crate::metrics::Metrics;
use crate::system::SystemEntropy;

mod browser_error;
pub(crate) mod client_address;
mod connection;
mod cross_origin;
mod openapi;
mod operators;
mod paths;
mod rate;
mod request_id;
mod resource;

use browser_error::BrowserPageRequest;
use client_address::TrustedProxies;
use cross_origin::{AllowedOrigins, CrossOriginCheck};
use operators::OperatorRoutes;
use paths::PathOwners;
use rate::RateLimits;
use request_id::RequestLogEntry;
pub use request_id::{AnsweredRequest, RequestObserver};

/// Authentication, limits and path rules, shared by all requests.
struct MiddlewareState {
    engine: Engine,
    auth: Authenticator,
    cross_origin: AllowedOrigins,
    proxies: Arc<TrustedProxies>,
    rates: Arc<RateLimits>,
    owners: PathOwners,
    metrics: Arc<Metrics>,
    observer: Option<RequestObserver>,
}

impl MiddlewareState {
    /// The error response, in the format of the front that owns the path if there is one.
    fn refuse(&self, path: &str, error: &EngineError) -> Response {
        self.owners.owner(path).refuse(error)
    }

    /// The response for an unknown path, with the address at which to begin.
    fn not_found(&self, path: &str) -> Response {
        let owner = self.owners.owner(path);
        let message = match owner.front {
            Some(front) => {
                let (name, start) = (front.name(), front.entry_point().document);
                format!("there is nothing at this address; {name} is served at {start}")
            }
            None => "there is nothing at this address; /openapi.json lists the addresses of this server".to_owned(),
        };
        owner.refuse(&EngineError::new(ErrorCode::NotFound, message))
    }
}

/// The router of the whole server with its middleware.
pub(crate) fn app(
    parts: &ProtocolDependencies<'_>,
    routes: impl Iterator<Item = Router>,
    proxies: Arc<TrustedProxies>,
    observer: Option<RequestObserver>,
) -> Router {
    let ProtocolDependencies { engine, auth, settings, .. } = *parts;
    let shared = MiddlewareState {
        engine: engine.clone(),
        auth: auth.clone(),
        cross_origin: AllowedOrigins::new(&settings.cors.origins),
        proxies,
        rates: Arc::new(RateLimits::new(settings.limits.requests_per_minute, Arc::clone(engine.clock()))),
        owners: PathOwners::new(),
        metrics: Arc::clone(&parts.metrics),
        observer,
    };
    let operators = OperatorRoutes {
        engine: engine.clone(),
        issuers: Arc::clone(&auth.issuers),
        metrics: Arc::clone(&parts.metrics),
        metrics_open: settings.metrics.open,
        openapi: openapi::document(),
        base: parts.hosting.host.base.as_str().into(),
        jwks: Bytes::from(parts.signer.jwks([auth.people.jwk()]).to_string()),
    };
    let own = operators::table().into_iter().fold(Router::new(), |app, (path, methods)| app.route(path, methods));
    let (exposure, keys) = (auth.exposure, engine.clone());
    let console = Console {
        engine: engine.clone(),
        entropy: Arc::new(SystemEntropy),
        asks_for_keys: Arc::new(move || exposure.asks_for_keys(keys.access().has_keys())),
        fronts: fronts().collect(),
        bodies: parts.bodies.clone(),
    };
    let shared = Arc::new(shared);
    let refusing = Arc::clone(&shared);
    let not_found = move |uri: Uri| ready(refusing.not_found(uri.path()));
    let refusing = Arc::clone(&shared);
    let not_allowed = move |uri: Uri| ready(refusing.refuse(uri.path(), &method_not_allowed()));
    let app = own.with_state(operators).merge(nuncio_console::routes(console)).fallback(not_found);
    // The fallback for methods applies only to routes added before it, so it comes last.
    routes
        .fold(app.merge(dids::routes(engine, &parts.hosting.dids)), Router::merge)
        .method_not_allowed_fallback(not_allowed)
        .layer(layer_fn(move |route| Middleware { shared: Arc::clone(&shared), route }))
}

/// Runs before the route of every request and on every response. All steps are in one layer, since each layer costs an
/// allocation and a clone of its state.
#[derive(Clone)]
struct Middleware {
    shared: Arc<MiddlewareState>,
    route: Route,
}

impl Service<Request> for Middleware {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Route as Service<Request>>::poll_ready(&mut self.route, context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let language = Language::accepted(request.headers());
        // Every request, also a refused one, can be found in the logs.
        let entry = RequestLogEntry::open(&shared, &mut request);
        client_address::insert(&shared, &mut request);
        let host_refusal = host_refusal(&shared, &request);
        add_host(&mut request);
        // Pages of other origins are refused, and preflights answered, before a key is required.
        let origin = CrossOriginCheck::of(&shared, &request);
        let refusal = host_refusal.or_else(|| origin.refusal(&shared, &request));
        let visit = BrowserPageRequest::of(&request);
        let owner = shared.owners.owner(request.uri().path());
        if refusal.is_none() && !shared.auth.identify_at_once(owner.rules, &mut request) {
            let route = self.route.clone();
            return Box::pin(call_after_lookup(shared, route, request, entry, origin, language, visit));
        }
        let refusal = refusal
            .or_else(|| limit_refusal(&shared, &mut request))
            .or_else(|| shared.auth.forwarded_refusal(owner, &request));
        let response = match refusal {
            Some(refusal) => Either::Left(ready(Ok(refusal))),
            None => Either::Right(self.route.call(request).instrument(entry.span.clone())),
        };
        Box::pin(async move {
            let mut response = response.await?;
            add_retry_after(&mut response);
            translate(&mut response, language);
            origin.add_cors_headers(&mut response);
            let response = entry.close(&shared, response);
            Ok(show_errors(visit, response).await)
        })
    }
}

/// [`Middleware`] for a request whose identity needs a lookup.
async fn call_after_lookup(
    shared: Arc<MiddlewareState>,
    mut route: Route,
    mut request: Request,
    entry: RequestLogEntry,
    origin: CrossOriginCheck,
    language: Language,
    visit: Option<BrowserPageRequest>,
) -> Result<Response, Infallible> {
    let refusal = identify_within_limits(&shared, &mut request).await.err();
    let mut response = match refusal {
        Some(refusal) => refusal,
        None => route.call(request).instrument(entry.span.clone()).await?,
    };
    add_retry_after(&mut response);
    translate(&mut response, language);
    origin.add_cors_headers(&mut response);
    let response = entry.close(&shared, response);
    Ok(show_errors(visit, response).await)
}

async fn show_errors(visit: Option<BrowserPageRequest>, response: Response) -> Response {
    match visit {
        Some(visit) => visit.show_error(response).await,
        None => response,
    }
}

/// Identifies the caller of a request and applies the limits.
async fn identify_within_limits(shared: &MiddlewareState, request: &mut Request) -> Result<(), Response> {
    // Checking a signature may cause a request to another server, so the limits of the address apply first.
    let owner = shared.owners.owner(request.uri().path());
    if shared.auth.is_found_by_signature(owner.rules, request) {
        rate::refusal(shared, request).map_or(Ok(()), Err)?;
        shared.auth.identify(owner, request).await?;
        let refusal = connection::refusal(shared, request).or_else(|| rate::refusal_of_identified(shared, request));
        return refusal.map_or(Ok(()), Err);
    }
    let identified = shared.auth.identify(owner, request).await;
    limit_refusal(shared, request).map_or(identified, Err)
}

/// The refusal of a request if its caller, its address or its connection is over a limit.
fn limit_refusal(shared: &MiddlewareState, request: &mut Request) -> Option<Response> {
    rate::recognise_key(shared, request);
    connection::refusal(shared, request).or_else(|| rate::refusal(shared, request))
}

/// The refusal of an HTTP/1.1 request without `Host`, or of any request with two or an invalid one (RFC 9112 §3.2).
/// Proxies on the way might take another host than this server.
fn host_refusal(shared: &MiddlewareState, request: &Request) -> Option<Response> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let message = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => {
            "the request has no Host header; send the name of this server in it"
        }
        (Some(host), None) if !is_host(host) => {
            "the Host header is invalid; send the name of this server in it, with the port if it is not the usual one"
        }
        (None, _) | (Some(_), None) => return None,
        (Some(_), Some(_)) => "the request has more than one Host header; send one",
    };
    Some(shared.refuse(request.uri().path(), &EngineError::new(ErrorCode::BadHeader, message)))
}

/// Whether a `Host` header is one name or address, with or without a port.
fn is_host(value: &HeaderValue) -> bool {
    // A comma joins two headers; a host name has none, although the syntax of URIs allows it.
    let Ok(text) = value.to_str() else { return false };
    let Ok(authority) = text.parse::<Authority>() else { return false };
    // The parser accepts ports that are no numbers.
    let is_port =
        |port: &str| port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let after_name = text.strip_prefix(authority.host()).unwrap_or(text);
    !text.contains(['@', ',']) && (after_name.is_empty() || after_name.strip_prefix(':').is_some_and(is_port))
}

/// Adds a `Host` header to HTTP/2 requests, which have the host in their URI.
fn add_host(request: &mut Request) {
    let host = request.uri().authority().and_then(|authority| HeaderValue::try_from(authority.as_str()).ok());
    if let Some(host) = host {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
}

/// Adds `Retry-After` to responses with status 429 or 503 that lack it.
fn add_retry_after(response: &mut Response) {
    if matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static("5"));
    }
}
