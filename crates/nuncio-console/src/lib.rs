//! The server's web pages.
//!
//! | module | contents |
//! |---|---|
//! | `home` | `/`: the agents, what each can do, and a conversation |
//! | `join` | `/join`: what an invite link is for, and the command that uses it |
//! | `inbox` | `/console/tasks`: tasks for people, and signing in |
//! | `error_page` | errors as pages |
//! | `fault_texts` | what errors mean, in Chinese |
//! | `schema` | what pages show of a JSON Schema |
//! | `texts` | the texts of both languages, from `locales/` |
//! | `assets` | the files in `assets/`, compiled in |
//!
//! The home page uses the server over AAP like any other app. The inbox uses the engine. Templates are in `templates/`.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use nuncio_core::opaque_debug;
use nuncio_engine::Engine;
use nuncio_engine::ports::Entropy;
use nuncio_http::BodyLimits;
use nuncio_http::front::ProtocolFront;

mod assets;
mod error_page;
mod fault_texts;
mod home;
mod inbox;
mod join;
mod schema;
mod texts;

pub use error_page::ErrorPage;

/// Parts of the server that the pages use.
#[derive(Clone)]
pub struct Console {
    pub engine: Engine,
    /// Makes the cookies and form tokens of sign-in sessions.
    pub entropy: Arc<dyn Entropy>,
    /// Whether requests need a key at the moment.
    pub asks_for_keys: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The fronts whose documents are linked, in display order.
    pub fronts: Arc<[&'static dyn ProtocolFront]>,
    /// Limits of posted forms.
    pub bodies: BodyLimits,
}

/// The routes of the pages: `/`, `/join`, and everything else below `/console/`.
pub fn routes(console: Console) -> Router {
    let inbox = inbox::routes(console.engine.clone(), Arc::clone(&console.entropy), console.bodies.clone());
    Router::new()
        .route("/", get(home::show))
        .route("/join", get(join::show))
        .route(assets::ROUTE, get(assets::serve))
        .layer(middleware::map_response(add_security_headers))
        .with_state(console)
        .merge(inbox)
}

async fn add_security_headers(mut response: Response) -> Response {
    // The home page sets a policy of its own if the agent's images come from other servers.
    if !response.headers().contains_key(http::header::CONTENT_SECURITY_POLICY) {
        nuncio_http::pages::headers::guard_open(response.headers_mut());
    }
    response
}

opaque_debug!(Console);
