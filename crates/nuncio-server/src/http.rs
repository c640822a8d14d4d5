//! The HTTP side: which protocol answers where, and the layers every request passes.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{HeaderValue, StatusCode, Uri, header};
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, ready};
use nuncio_a2h::server::DeviceTokens as _;
use nuncio_core::Code;
use nuncio_engine::{Engine, EngineError};
use nuncio_http::BodyLimits;
use nuncio_http::front::PathRules;
use tower::{Service, layer::layer_fn};
use tracing::Instrument as _;

use crate::auth::Auth;
use crate::console::{self, Console};
use crate::dids;
use crate::fronts::{ServerParts, fronts};
use crate::metrics::Metrics;
use crate::serve::Exposure;

pub(crate) mod client_address;
mod connection;
mod cross_origin;
mod identity;
mod openapi;
mod operators;
mod paths;
mod rate;
mod request_id;
mod resource;

use client_address::TrustedProxies;
use cross_origin::{AllowedOrigins, OriginCheck};
use operators::OperatorRoutes;
use paths::PathOwners;
use rate::RateLimits;
use request_id::RequestLog;

struct Shared {
    engine: Engine,
    auth: Auth,
    exposure: Exposure,
    cross_origin: AllowedOrigins,
    proxies: Arc<TrustedProxies>,
    rates: Arc<RateLimits>,
    bodies: BodyLimits,
    owners: PathOwners,
    metrics: Arc<Metrics>,
}

impl Shared {
    /// The error response in the format of the front that owns the path.
    fn refuse(&self, path: &str, error: &EngineError) -> Response {
        self.owners.front(path).refuse(error)
    }

    fn rules(&self, path: &str) -> &'static PathRules {
        self.owners.rules(path)
    }
}

/// The router with every layer.
pub(crate) fn app(
    parts: &ServerParts<'_>,
    routes: impl Iterator<Item = Router>,
    exposure: Exposure,
    proxies: Arc<TrustedProxies>,
) -> Router {
    let ServerParts { engine, auth, settings, .. } = *parts;
    let shared = Shared {
        engine: engine.clone(),
        auth: auth.clone(),
        exposure,
        cross_origin: AllowedOrigins::new(&settings.cors.origins),
        proxies,
        bodies: parts.bodies.clone(),
        rates: Arc::new(RateLimits::new(settings.limits.requests_per_minute, Arc::clone(engine.clock()))),
        owners: PathOwners::new(),
        metrics: Arc::clone(&parts.metrics),
    };
    let operators = OperatorRoutes {
        engine: engine.clone(),
        issuers: Arc::clone(&auth.issuers),
        metrics: Arc::clone(&parts.metrics),
        metrics_open: settings.metrics.open,
        openapi: openapi::document(),
        base: parts.hosting.host().base.as_str().into(),
        jwks: Bytes::from(parts.signer.jwks([auth.people.jwk()]).to_string()),
    };
    let own = operators::table().into_iter().fold(Router::new(), |app, (path, methods)| app.route(path, methods));
    let console =
        Console { engine: engine.clone(), exposure, fronts: fronts().collect(), bodies: parts.bodies.clone() };
    let shared = Arc::new(shared);
    let (owners, owners_of_methods) = (Arc::clone(&shared), Arc::clone(&shared));
    let app = own
        .with_state(operators)
        .merge(console::routes(console))
        .fallback(move |uri: Uri| async move { not_found(&owners, &uri) });
    // Behind the routes it is for: it says nothing of those that come later.
    routes
        .fold(app.merge(dids::routes(engine, parts.hosting.dids())), Router::merge)
        .method_not_allowed_fallback(move |uri: Uri| async move { method_not_allowed(&owners_of_methods, &uri) })
        .layer(layer_fn(move |route| Stack { shared: Arc::clone(&shared), route }))
}

/// Runs before the route of every request and on every response. One layer for all of
/// it, since each layer costs an allocation and a copy of what it shares.
#[derive(Clone)]
struct Stack {
    shared: Arc<Shared>,
    route: Route,
}

impl Service<Request> for Stack {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Route as Service<Request>>::poll_ready(&mut self.route, context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        // Every request, also a refused one, can be found in the logs.
        let entry = RequestLog::open(&shared, &mut request);
        client_address::insert(&shared, &mut request);
        add_host(&mut request);
        // Pages of strangers stay outside; preflights are answered before anyone asks for a key.
        let visit = OriginCheck::of(&shared, &request);
        let outside = visit.refusal(&shared, &request);
        // Every request has exactly one identity.
        if outside.is_none() && !identity::identify_at_once(&shared, &mut request) {
            let route = self.route.clone();
            return Box::pin(ask_and_pass(shared, route, request, entry, visit));
        }
        // Nobody takes more than their share.
        let refusal = outside
            .or_else(|| over_a_limit(&shared, &mut request))
            .or_else(|| identity::forwarded_refusal(&shared, &request));
        let answer = match refusal {
            Some(refusal) => Either::Left(ready(Ok(refusal))),
            None => Either::Right(self.route.call(request).instrument(entry.span().clone())),
        };
        Box::pin(async move {
            let mut response = answer.await?;
            add_retry_after(&mut response);
            visit.add_cors_headers(&mut response);
            Ok(entry.close(&shared, response))
        })
    }
}

/// The same for a request whose identity needs a lookup.
async fn ask_and_pass(
    shared: Arc<Shared>,
    mut route: Route,
    mut request: Request,
    entry: RequestLog,
    visit: OriginCheck,
) -> Result<Response, Infallible> {
    let refusal = identify_within_limits(&shared, &mut request).await.err();
    let mut response = match refusal {
        Some(refusal) => refusal,
        None => route.call(request).instrument(entry.span().clone()).await?,
    };
    add_retry_after(&mut response);
    visit.add_cors_headers(&mut response);
    Ok(entry.close(&shared, response))
}

/// Finds out who sends a request, and counts it.
async fn identify_within_limits(shared: &Shared, request: &mut Request) -> Result<(), Response> {
    // To check a signature may take a request to another server, so it is counted for its address first.
    if identity::is_found_by_signature(shared, request) {
        rate::refusal(shared, request).map_or(Ok(()), Err)?;
        identity::identify(shared, request).await?;
        let refusal = connection::refusal(shared, request).or_else(|| rate::refusal_of_identified(shared, request));
        return refusal.map_or(Ok(()), Err);
    }
    let identified = identity::identify(shared, request).await;
    over_a_limit(shared, request).map_or(identified, Err)
}

/// The answer where the caller, its address or its connection has used up what it may.
fn over_a_limit(shared: &Shared, request: &mut Request) -> Option<Response> {
    rate::recognise_key(shared, request);
    connection::refusal(shared, request).or_else(|| rate::refusal(shared, request))
}

/// Adds the host to a request that names it in its address instead, as HTTP/2 does, so that the rest of the server finds
/// it in one place.
fn add_host(request: &mut Request) {
    let host = request.uri().authority().and_then(|authority| HeaderValue::try_from(authority.as_str()).ok());
    if let Some(host) = host {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
}

/// Adds `Retry-After` to responses that need it and lack it.
fn add_retry_after(response: &mut Response) {
    if matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static("5"));
    }
}

fn not_found(shared: &Shared, uri: &Uri) -> Response {
    let message = "there is nothing at this address; AAP is served at /aap/meta";
    shared.refuse(uri.path(), &EngineError::new(Code::NotFound, message))
}

fn method_not_allowed(shared: &Shared, uri: &Uri) -> Response {
    let message = "this address does not take that method; see the Allow header";
    shared.refuse(uri.path(), &EngineError::new(Code::MethodNotAllowed, message))
}
