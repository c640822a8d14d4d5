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
use nuncio_skill::server::{Checked, RequestAuth, Skills};

use super::openapi::Part;
use crate::auth::did::Head;
use crate::auth::{Auth, Signed};
use crate::console::documents::{self, DocumentsOf};
use crate::dids;
use crate::hosting::Hosting;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// How a protocol words an error.
pub(super) type Refuse = fn(&EngineError) -> Response;

/// A protocol as the assembly sees it.
pub(super) struct Mounted {
    /// The paths its routes live below.
    pub(super) prefixes: &'static [&'static str],
    pub(super) routes: Router,
    /// How it words an error that arose before its own routes.
    pub(super) refuse: Refuse,
    /// What it publishes about an agent, for the pages.
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
) -> (Vec<Mounted>, Anp) {
    let limits = &settings.limits;
    let aap = Aap::new(engine.clone(), bodies.clone());
    let signed = Arc::new(SignedRequests { auth: auth.clone() });
    let skills = Skills::new(engine.clone(), hosting.host().clone(), bodies, signed, hosting.issuers())
        .with_catalogue(hosting.catalogue());
    let base = &hosting.host().base;
    let known = Arc::new(super::anp::Anp::new(auth, engine, hosting));
    let host = nuncio_anp::project::Host { drafts: engine.drafts(), ..nuncio_anp::project::Host::new(base) };
    let anp = Anp::new(engine.clone(), host, bodies.clone(), known);
    let anp = match hosting.keeper() {
        Some(keeper) => anp.with_directory(keeper.clone()),
        None => anp,
    };
    let (people, watch) = (Arc::clone(&auth.people), Arc::clone(metrics));
    let a2h = A2h::new(engine.clone(), bodies.clone(), people, hosting.presets(), watch, limits.connections);
    let mounted = vec![
        Mounted {
            prefixes: &["/aap"],
            routes: nuncio_aap::server::routes("/aap", aap),
            refuse: nuncio_aap::refuse,
            documents: documents::aap,
        },
        Mounted {
            prefixes: nuncio_skill::server::PREFIXES,
            routes: nuncio_skill::server::routes(skills),
            refuse: nuncio_skill::server::refuse,
            documents: documents::skill,
        },
        Mounted {
            prefixes: nuncio_anp::server::PREFIXES,
            routes: nuncio_anp::server::routes(anp.clone()).merge(dids::routes(engine, hosting.dids())),
            refuse: nuncio_anp::server::refuse,
            documents: documents::anp,
        },
        Mounted {
            prefixes: nuncio_a2h::server::PREFIXES,
            routes: nuncio_a2h::server::routes(a2h),
            refuse: nuncio_a2h::server::refuse,
            documents: documents::a2h,
        },
    ];
    (mounted, anp)
}

/// What each protocol adds to the OpenAPI document.
pub(super) fn parts() -> Vec<Part> {
    use {
        nuncio_a2h::openapi as a2h, nuncio_aap::openapi as aap, nuncio_anp::openapi as anp,
        nuncio_skill::openapi as skill,
    };
    vec![
        Part { prefix: "/aap", paths: aap::PATHS, components: aap::COMPONENTS.to_owned() },
        Part { prefix: "", paths: skill::PATHS, components: skill::components() },
        Part { prefix: "", paths: anp::PATHS, components: anp::COMPONENTS.to_owned() },
        Part { prefix: "", paths: a2h::PATHS, components: a2h::COMPONENTS.to_owned() },
        Part { prefix: "", paths: dids::OPENAPI, components: "{}".to_owned() },
    ]
}

/// The reference scheme for signed requests.
#[derive(Debug)]
struct SignedRequests {
    auth: Auth,
}

#[async_trait]
impl RequestAuth for SignedRequests {
    async fn check(&self, parts: &Parts, body: &[u8]) -> Checked {
        let head = Head { method: &parts.method, uri: &parts.uri, headers: &parts.headers };
        match self.auth.signatures.check(head, body).await {
            Signed::Absent => Checked::Absent,
            Signed::Invalid(why) => Checked::Invalid(why),
            Signed::Known(caller) => Checked::Known(caller),
        }
    }
}
