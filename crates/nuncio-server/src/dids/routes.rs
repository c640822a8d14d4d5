//! `/.well-known/did.json`, `/agents/{name}/did.json`, `/agents/{name}/{fingerprint}/did.json` (ANP-03 §2.4):
//! the public DID documents of this server.

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use nuncio_core::ErrorCode;
use nuncio_core::ids::AgentName;
use nuncio_engine::{Engine, EngineError};
use nuncio_http::pages::sender::host;
use nuncio_http::{CacheableDocument, refuse};
use nuncio_identity::Did;

use super::{DidHistory, DidSubject, Dids};

pub(crate) const OPENAPI: &str = include_str!("openapi.json");

#[derive(Clone)]
struct DidDocumentRoutes {
    engine: Engine,
    dids: Dids,
}

pub(crate) fn routes(engine: &Engine, dids: &Dids) -> Router {
    let published = DidDocumentRoutes { engine: engine.clone(), dids: dids.clone() };
    let table = table().into_iter();
    table.fold(Router::new(), |router, (path, methods)| router.route(path, methods)).with_state(published)
}

#[cfg(test)]
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    table().into_iter().map(|(path, _)| path)
}

fn table() -> Vec<(&'static str, MethodRouter<DidDocumentRoutes>)> {
    vec![
        ("/.well-known/did.json", get(service)),
        ("/agents/{name}/did.json", get(agent)),
        ("/agents/{name}/{fingerprint}/did.json", get(agent_by_fingerprint)),
    ]
}

async fn service(State(published): State<DidDocumentRoutes>, request: Request) -> Response {
    let found = published.key_history(&DidSubject::Service).map(|history| {
        // The former domain may still lead to this server; a request for that host asks for the former DID.
        let authority = host(request.headers(), request.uri());
        let old =
            history.retired.iter().find(|old| authority.is_some_and(|authority| is_at(old.bound.did(), authority)));
        old.unwrap_or(&history.current.published).document.clone()
    });
    published.answer(found, &request)
}

async fn agent(State(published): State<DidDocumentRoutes>, Path(name): Path<String>, request: Request) -> Response {
    let history = published.agent_history(&name).filter(|_| published.serves(&name));
    published.answer(history.map(|history| history.current.published.document.clone()), &request)
}

async fn agent_by_fingerprint(
    State(published): State<DidDocumentRoutes>,
    Path((name, fingerprint)): Path<(String, String)>,
    request: Request,
) -> Response {
    let ends = |did: &Did| did.segments().last() == Some(fingerprint.as_str());
    let found = published.agent_history(&name).and_then(|history| {
        let current = Some(&history.current.published).filter(|own| ends(own.bound.did()) && published.serves(&name));
        // A retired DID stays deactivated, also after its agent was removed.
        let found = current.or_else(|| history.retired.iter().rev().find(|old| ends(old.bound.did())));
        found.map(|found| found.document.clone())
    });
    published.answer(found, &request)
}

impl DidDocumentRoutes {
    fn key_history(&self, subject: &DidSubject) -> Option<DidHistory> {
        self.dids.why_none().is_none().then(|| self.dids.key_history(subject)).flatten()
    }

    fn agent_history(&self, name: &str) -> Option<DidHistory> {
        self.key_history(&DidSubject::Agent(AgentName::parse(name).ok()?))
    }

    fn serves(&self, name: &str) -> bool {
        self.engine.agents().agent(name).is_ok()
    }

    fn answer(&self, found: Option<CacheableDocument>, request: &Request) -> Response {
        let Some(document) = found else {
            let why = self.dids.why_none().unwrap_or("no agent of that name and key is served here");
            return refuse(&EngineError::new(ErrorCode::NotFound, format!("there is no such DID: {why}")));
        };
        document.answer(request.headers(), "host")
    }
}

/// Whether the document of a DID belongs to this host and port.
fn is_at(did: &Did, authority: &str) -> bool {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()),
        None => (authority, None),
    };
    did.host().eq_ignore_ascii_case(host) && did.port().unwrap_or(443) == port.unwrap_or(443)
}
