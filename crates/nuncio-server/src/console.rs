//! Pages for people. `/` is the first of them: the agents here, what each can do, and a conversation.
//!
//! The first page talks to the server over AAP like any other app and is given no way of its own. What
//! is here is what a page needs beside that: the words, the agents as people read them, the files. The
//! pages of the console are for those who run the agents, and ask the engine.
//!
//! | room | what |
//! |---|---|
//! | `page` | what the first page shows, as its template wants it |
//! | `inbox` | `/console/tasks`: the work that agents hand to people, and signing in |
//! | `texts` | the words, one catalog a language in `locales/` |
//! | `assets` | the static files in `assets/`, compiled in |
//!
//! Templates are in `templates/`.

use std::sync::Arc;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use nuncio_core::agent::Run;
use nuncio_core::principal::Principal;
use nuncio_engine::{Engine, Identity};
use nuncio_http::BodyLimits;
use nuncio_http::front::Front;
use serde::Deserialize;

use crate::serve::Exposure;

mod assets;
mod inbox;
mod page;
mod texts;

use nuncio_http::pages::Language;
use page::{HomeRequest, HomeTemplate};

#[derive(Clone)]
pub(crate) struct Console {
    /// The engine, for the agents it serves.
    pub(crate) engine: Engine,
    /// Decides whether the page asks for a key.
    pub(crate) exposure: Exposure,
    /// The fronts whose documents are linked, in display order.
    pub(crate) fronts: Arc<[&'static dyn Front]>,
    /// How large what forms send may be.
    pub(crate) bodies: BodyLimits,
}

/// The routes: `/`, and everything else below `/console/`.
pub(crate) fn routes(console: Console) -> Router {
    Router::new()
        .route("/", get(home))
        .route(assets::ROUTE, get(assets::serve))
        .layer(middleware::map_response(guarded))
        .with_state(console.clone())
        .merge(inbox::routes(console.engine, console.bodies))
}

#[derive(Default, Deserialize)]
struct HomeQuery {
    lang: Option<String>,
    agent: Option<String>,
}

/// `GET /`
async fn home(
    State(console): State<Console>,
    identity: Option<Extension<Identity>>,
    headers: HeaderMap,
    query: Result<Query<HomeQuery>, QueryRejection>,
) -> Response {
    // Whatever else an address may hold, there is always a page.
    let query = query.map_or_else(|_| HomeQuery::default(), |Query(query)| query);
    let asked = HomeRequest {
        language: query.lang.as_deref().and_then(Language::parse).unwrap_or_else(|| Language::accepted(&headers)),
        language_was_chosen: query.lang.is_some(),
        agent: query.agent.as_deref(),
        host: headers.get(header::HOST).and_then(|host| host.to_str().ok()),
        needs_key: matches!(identity, Some(Extension(Identity::Missing)))
            || console.exposure.asks_for_keys(console.engine.access().has_keys()),
        waiting: waiting(&console, identity).await,
    };
    match HomeTemplate::new(&console, &asked).html() {
        Ok(html) => document(&headers, html),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Whether there is an inbox to go to, and how many tasks wait in it, if the reader may know.
async fn waiting(console: &Console, identity: Option<Extension<Identity>>) -> Option<usize> {
    let is_local = matches!(identity, Some(Extension(Identity::Known(caller))) if caller.principal == Principal::Local);
    let waiting = if is_local { inbox::waiting(&console.engine).await } else { 0 };
    let by_people = |run: &Run| matches!(run, Run::Human(_));
    let agents = console.engine.agents().list();
    let is_used = waiting > 0 || agents.iter().any(|agent| agent.tools.iter().any(|tool| by_people(&tool.run)));
    is_used.then_some(waiting)
}

/// A page as an answer: always asked for again, sent again only when it changed.
fn document(asked: &HeaderMap, html: String) -> Response {
    let tag = nuncio_http::etag(html.as_bytes());
    let mut response = if nuncio_http::has_etag(asked, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        axum::response::Html(html).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Language, Host"));
    response
}

async fn guarded(mut response: Response) -> Response {
    nuncio_http::pages::headers::guard_open(response.headers_mut());
    response
}
