//! The protocols served here. Adding one is one crate and one entry.

use std::sync::Arc;

use ::http::request::Parts;
use async_trait::async_trait;
use axum::Router;
use axum::response::Response;
use nuncio_a2h::server::A2h;
use nuncio_aap::server::Aap;
use nuncio_anp::server::Anp;
use nuncio_engine::{Engine, EngineError};
use nuncio_http::BodyLimits;
use nuncio_skill::server::{RequestAuth, RequestCheck, Skills};

use super::openapi::OpenApiPart;
use crate::auth::did::RequestHead;
use crate::auth::{Auth, SignatureCheck};
use crate::console::documents::{self, DocumentsOf};
use crate::dids;
use crate::hosting::Hosting;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Turns an error into a response of the protocol.
pub(super) type Refuse = fn(&EngineError) -> Response;

pub(super) struct MountedProtocol {
    pub(super) prefixes: &'static [&'static str],
    pub(super) routes: Router,
    /// Error responses for requests that fail before they reach the routes of the protocol.
    pub(super) refuse: Refuse,
    /// Links to the documents it publishes about an agent, for the pages.
    pub(super) documents: DocumentsOf,
}

/// The protocols, and the one of them whose messages also go out.
pub(super) fn mounted(
    engine: &Engine,
    auth: &Auth,
    hosting: &Hosting,
    settings: &Settings,
    bodies: &BodyLimits,
    metrics: &Arc<Metrics>,
) -> (Vec<MountedProtocol>, Anp) {
    let limits = &settings.limits;
    let aap = Aap::new(engine.clone(), bodies.clone());
    let signed = Arc::new(SignedRequests { auth: auth.clone() });
    let skills = Skills::new(engine.clone(), hosting.host().clone(), bodies, signed, hosting.issuers())
        .with_catalogue(hosting.catalogue());
    let base = &hosting.host().base;
    let known = Arc::new(super::anp::AnpIdentities::new(auth, engine, hosting));
    let host =
        nuncio_anp::project::Host { drafts: engine.drafts().is_enabled(), ..nuncio_anp::project::Host::new(base) };
    let anp = Anp::new(engine.clone(), host, bodies.clone(), known);
    let anp = match hosting.keeper() {
        Some(keeper) => anp.with_directory(keeper.clone()),
        None => anp,
    };
    let (people, watch) = (Arc::clone(&auth.people), Arc::clone(metrics));
    let a2h = A2h::new(engine.clone(), bodies.clone(), people, hosting.presets(), watch, limits.connections);
    let mounted = vec![
        MountedProtocol {
            prefixes: &["/aap"],
            routes: nuncio_aap::server::routes("/aap", aap),
            refuse: nuncio_aap::refuse,
            documents: documents::aap,
        },
        MountedProtocol {
            prefixes: nuncio_skill::server::PREFIXES,
            routes: nuncio_skill::server::routes(skills),
            refuse: nuncio_skill::server::refuse,
            documents: documents::skill,
        },
        MountedProtocol {
            prefixes: nuncio_anp::server::PREFIXES,
            routes: nuncio_anp::server::routes(anp.clone()).merge(dids::routes(engine, hosting.dids())),
            refuse: nuncio_anp::server::refuse,
            documents: documents::anp,
        },
        MountedProtocol {
            prefixes: nuncio_a2h::server::PREFIXES,
            routes: nuncio_a2h::server::routes(a2h),
            refuse: nuncio_a2h::server::refuse,
            documents: documents::a2h,
        },
    ];
    (mounted, anp)
}

/// What each protocol adds to the OpenAPI document.
pub(super) fn parts() -> Vec<OpenApiPart> {
    use {
        nuncio_a2h::openapi as a2h, nuncio_aap::openapi as aap, nuncio_anp::openapi as anp,
        nuncio_skill::openapi as skill,
    };
    vec![
        OpenApiPart { prefix: "/aap", paths: aap::PATHS, components: aap::COMPONENTS.to_owned() },
        OpenApiPart { prefix: "", paths: skill::PATHS, components: skill::components() },
        OpenApiPart { prefix: "", paths: anp::PATHS, components: anp::COMPONENTS.to_owned() },
        OpenApiPart { prefix: "", paths: a2h::PATHS, components: a2h::COMPONENTS.to_owned() },
        OpenApiPart { prefix: "", paths: dids::OPENAPI, components: "{}".to_owned() },
    ]
}

#[derive(Debug)]
struct SignedRequests {
    auth: Auth,
}

#[async_trait]
impl RequestAuth for SignedRequests {
    async fn check(&self, parts: &Parts, body: &[u8]) -> RequestCheck {
        let head = RequestHead { method: &parts.method, uri: &parts.uri, headers: &parts.headers };
        match self.auth.signatures.check(head, body).await {
            SignatureCheck::Absent => RequestCheck::Absent,
            SignatureCheck::Invalid(why) => RequestCheck::Invalid(why),
            SignatureCheck::Known(caller) => RequestCheck::Known(caller),
        }
    }
}
