//! The HTTP side: which protocol answers where, and the layers every request passes.

use std::sync::Arc;

use ::http::StatusCode;
use axum::Router;
use axum::extract::State;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use nuncio_aap::server::Aap;
use nuncio_core::Code;
use nuncio_engine::{Engine, EngineError};

use crate::serve::Exposure;
use crate::settings::Settings;

mod door;
mod identity;
mod rate;
mod request_id;

use door::Door;
use rate::RateLimits;

/// How a protocol words an error.
type Refuse = fn(&EngineError) -> Response;

/// A protocol as the assembly sees it.
struct Mounted {
    /// The path its routes live below.
    prefix: &'static str,
    routes: Router,
    /// How it words an error that arose before its own routes.
    refuse: Refuse,
}

/// Adding a protocol is one crate and one entry here.
fn protocols(engine: &Engine, settings: &Settings) -> Vec<Mounted> {
    let limits = &settings.limits;
    let aap = Aap {
        engine: engine.clone(),
        max_body: limits.body_bytes,
        body_time: std::time::Duration::from_secs(limits.body_seconds),
    };
    vec![Mounted { prefix: "/aap", routes: nuncio_aap::server::routes(aap), refuse: nuncio_aap::refuse }]
}

/// What the layers share.
#[derive(Clone)]
struct Shared {
    engine: Engine,
    exposure: Exposure,
    door: Arc<Door>,
    rates: Arc<RateLimits>,
    refusals: Arc<[(&'static str, Refuse)]>,
}

impl Shared {
    /// An error in the words of the protocol that owns the path.
    fn refuse(&self, path: &str, error: &EngineError) -> Response {
        let owner = self
            .refusals
            .iter()
            .find(|(prefix, _)| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        owner.map_or(nuncio_aap::refuse as Refuse, |(_, refuse)| *refuse)(error)
    }
}

/// Everything this server answers, layer by layer.
pub(crate) fn app(engine: &Engine, settings: &Settings, exposure: Exposure) -> Router {
    let protocols = protocols(engine, settings);
    let shared = Shared {
        engine: engine.clone(),
        exposure,
        door: Arc::new(Door::new(&settings.cors.origins)),
        rates: Arc::new(RateLimits::new(settings.limits.requests_per_minute)),
        refusals: protocols.iter().map(|protocol| (protocol.prefix, protocol.refuse)).collect(),
    };
    let mut app = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(engine.clone())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed);
    for protocol in protocols {
        app = app.nest(protocol.prefix, protocol.routes);
    }
    // The last layer added is the first one a request meets.
    app
        // Nobody takes more than their share.
        .layer(middleware::from_fn_with_state(shared.clone(), rate::layer))
        // Every request has exactly one identity.
        .layer(middleware::from_fn_with_state(shared.clone(), identity::layer))
        // Pages of strangers stay outside; preflights are answered before anyone asks for a key.
        .layer(middleware::from_fn_with_state(shared.clone(), door::layer))
        // Every request, also a refused one, can be found in the logs.
        .layer(middleware::from_fn_with_state(shared, request_id::layer))
}

/// The process runs.
async fn healthz() -> &'static str {
    "ok\n"
}

/// The process can do its work: the store answers and it is not stopping.
async fn readyz(State(engine): State<Engine>) -> Response {
    if engine.is_closing() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    match engine.audit_head().await {
        Ok(_) => "ready\n".into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response(),
    }
}

async fn not_found() -> Response {
    nuncio_aap::refuse(&EngineError::new(
        Code::NotFound,
        "there is nothing at this address; AAP is served at /aap/meta",
    ))
}

async fn method_not_allowed() -> Response {
    let message = "this address does not take that method; see the Allow header";
    nuncio_aap::refuse(&EngineError::new(Code::MethodNotAllowed, message))
}
