//! The HTTP side: which protocol answers where, and the layers every request passes.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use nuncio_aap::server::Aap;
use nuncio_core::Code;
use nuncio_engine::{Engine, EngineError};
use tracing::Instrument as _;

use crate::console::documents::{self, DocumentsOf};
use crate::console::{self, Console};
use crate::metrics::Metrics;
use crate::serve::Exposure;
use crate::settings::Settings;

mod door;
mod identity;
mod openapi;
mod operators;
mod rate;
mod request_id;

use door::{Door, Visit};
use openapi::Part;
use operators::Operators;
use rate::RateLimits;
use request_id::Entry;

/// How a protocol words an error.
type Refuse = fn(&EngineError) -> Response;

/// A protocol as the assembly sees it.
struct Mounted {
    /// The path its routes live below.
    prefix: &'static str,
    routes: Router,
    /// How it words an error that arose before its own routes.
    refuse: Refuse,
    /// What it publishes about an agent, for the pages.
    documents: DocumentsOf,
}

/// Adding a protocol is one crate and one entry here.
fn protocols(engine: &Engine, settings: &Settings) -> Vec<Mounted> {
    let limits = &settings.limits;
    let body_time = std::time::Duration::from_secs(limits.body_seconds);
    let aap = Aap::new(engine.clone(), limits.body_bytes, body_time);
    vec![Mounted {
        prefix: "/aap",
        routes: nuncio_aap::server::routes(aap),
        refuse: nuncio_aap::refuse,
        documents: documents::aap,
    }]
}

/// What each protocol adds to the OpenAPI document.
fn parts() -> Vec<Part> {
    use nuncio_aap::openapi::{COMPONENTS, PATHS};
    vec![Part { prefix: "/aap", paths: PATHS, components: COMPONENTS }]
}

/// What the layers share.
struct Shared {
    engine: Engine,
    exposure: Exposure,
    door: Door,
    rates: RateLimits,
    refusals: Vec<(&'static str, Refuse)>,
    metrics: Arc<Metrics>,
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
pub(crate) fn app(engine: &Engine, settings: &Settings, exposure: Exposure, metrics: Arc<Metrics>) -> Router {
    let protocols = protocols(engine, settings);
    let shared = Shared {
        engine: engine.clone(),
        exposure,
        door: Door::new(&settings.cors.origins),
        rates: RateLimits::new(settings.limits.requests_per_minute),
        refusals: protocols.iter().map(|protocol| (protocol.prefix, protocol.refuse)).collect(),
        metrics: Arc::clone(&metrics),
    };
    let operators = Operators {
        engine: engine.clone(),
        metrics,
        metrics_open: settings.metrics.open,
        openapi: openapi::document(&parts()),
    };
    let own = operators::table().into_iter().fold(Router::new(), |app, (path, methods)| app.route(path, methods));
    let documents = protocols.iter().map(|protocol| protocol.documents).collect();
    let mut app = own
        .with_state(operators)
        .merge(console::routes(Console { engine: engine.clone(), exposure, documents }))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed);
    for protocol in protocols {
        app = app.nest(protocol.prefix, protocol.routes);
    }
    app.layer(middleware::from_fn_with_state(Arc::new(shared), stack))
}

/// What every request passes before its route, and every answer on its way out. One layer for all of
/// it, since each layer costs an allocation and a copy of what it shares.
async fn stack(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    // Every request, also a refused one, can be found in the logs.
    let entry = Entry::open(&shared, &mut request);
    // Pages of strangers stay outside; preflights are answered before anyone asks for a key.
    let visit = Visit::of(&shared, &request);
    let refusal = visit.refusal(&shared, &request).or_else(|| {
        // Every request has exactly one identity.
        identity::settle(&shared, &mut request);
        // Nobody takes more than their share.
        rate::refusal(&shared, &request)
    });
    let mut response = match refusal {
        Some(refusal) => refusal,
        None => next.run(request).instrument(entry.span().clone()).await,
    };
    visit.mark(&mut response);
    entry.close(&shared, response)
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
