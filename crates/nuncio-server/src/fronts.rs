//! The protocol fronts of this server. A new front needs its crate and one line in [`FRONTS`].

use std::sync::Arc;

use ::http::request::Parts;
use async_trait::async_trait;
use nuncio_a2h::server::{A2hFront, A2hServerState};
use nuncio_aap::server::{AapFront, AapServerState};
use nuncio_anp::directory::{DirectoryIndex, RemoteDirectoryRegistrar};
use nuncio_anp::server::{AnpFront, AnpServerState};
use nuncio_auth::{Authenticator, RequestHead, SignatureCheckResult};
use nuncio_engine::Engine;
use nuncio_engine::jobs::JobLimits;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::store::JobKind;
use nuncio_http::BodyLimits;
use nuncio_http::front::{ProtocolFront, StartedFront};
use nuncio_mcp::server::{McpFront, McpServerState};
use nuncio_skill::crawl::SkillCrawler;
use nuncio_skill::server::{RequestAuthenticator, RequestCheckResult, SkillFront, SkillServerState};

use crate::agent_hooks::{AgentWebhookSender, LazyFetch};
use crate::hosting::HostDescription;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::webhooks::{ExecutionCallbackSender, WebhookSigner};

type StartFrontFn = fn(&ProtocolDependencies<'_>) -> StartedFront;

/// Each front and how it is started, in the order in which pages and commands show them.
const FRONTS: &[(&dyn ProtocolFront, StartFrontFn)] = &[
    (&AapFront, start_aap),
    (&SkillFront, start_skill),
    (&AnpFront, start_anp),
    (&A2hFront, start_a2h),
    (&McpFront, start_mcp),
];

pub fn fronts() -> impl Iterator<Item = &'static dyn ProtocolFront> {
    FRONTS.iter().map(|(front, _)| *front)
}

pub(crate) fn start(parts: &ProtocolDependencies<'_>) -> Vec<StartedFront> {
    FRONTS.iter().map(|(_, start)| start(parts)).collect()
}

/// The parts of the server that its fronts and its own routes use.
pub(crate) struct ProtocolDependencies<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) auth: &'a Authenticator,
    pub(crate) hosting: &'a HostDescription,
    pub(crate) settings: &'a Settings,
    pub(crate) bodies: BodyLimits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) signer: Arc<WebhookSigner>,
    pub(crate) fetch: Arc<dyn Fetch>,
    /// Client for the webhooks of agents' accounts.
    pub(crate) fetch_for_agents: Arc<LazyFetch>,
    /// Crawler for skills of other hosts.
    pub(crate) crawler: &'a SkillCrawler,
    pub(crate) anp: &'a AnpServerState,
    /// Directory of agents of other hosts.
    pub(crate) directory: &'a DirectoryIndex,
    /// Registers the agents of this server with directories of other hosts.
    pub(crate) directory_publisher: &'a RemoteDirectoryRegistrar,
}

fn start_aap(parts: &ProtocolDependencies<'_>) -> StartedFront {
    StartedFront::new(nuncio_aap::server::routes(AapServerState::new(parts.engine.clone(), parts.bodies.clone())))
}

fn start_skill(parts: &ProtocolDependencies<'_>) -> StartedFront {
    let (engine, hosting, crawler) = (parts.engine, parts.hosting, parts.crawler);
    let signed = Arc::new(SkillRequestAuth { auth: parts.auth.clone() });
    let host = hosting.host.clone();
    let skills = SkillServerState::new(engine.clone(), host, &parts.bodies, signed, hosting.issuers())
        .with_catalogue(Arc::clone(crawler.catalogue()))
        .with_callbacks(Arc::clone(&parts.fetch));
    let callbacks = ExecutionCallbackSender {
        engine: engine.clone(),
        fetch: Arc::clone(&parts.fetch),
        signer: Arc::clone(&parts.signer),
    };
    StartedFront::new(nuncio_skill::server::routes(skills))
        .with_handler(JobKind::Visit, JobLimits::HOSTS, crawler.clone())
        .with_handler(JobKind::Callback, JobLimits::WEB_REQUESTS, callbacks)
}

fn start_anp(parts: &ProtocolDependencies<'_>) -> StartedFront {
    StartedFront::new(nuncio_anp::server::routes(parts.anp.clone()))
        .with_handler(JobKind::Reply, JobLimits { total: 16, per_receiver: 16 }, parts.anp.clone())
        .with_handler(JobKind::Check, JobLimits::HOSTS, parts.directory.clone())
        .with_handler(JobKind::Register, JobLimits::HOSTS, parts.directory_publisher.clone())
}

fn start_a2h(parts: &ProtocolDependencies<'_>) -> StartedFront {
    let (engine, people, metrics) = (parts.engine, Arc::clone(&parts.auth.people), Arc::clone(&parts.metrics));
    let (presets, connections) = (Arc::clone(&parts.hosting.presets), parts.settings.limits.connections);
    let a2h = A2hServerState::new(engine.clone(), parts.bodies.clone(), people, presets, metrics, connections);
    let webhooks = AgentWebhookSender { engine: engine.clone(), fetch: Arc::clone(&parts.fetch_for_agents) };
    StartedFront::new(nuncio_a2h::server::routes(a2h))
        .with_handler(JobKind::Delivery, JobLimits::WEB_REQUESTS, webhooks.clone())
        .with_handler(JobKind::Probe, JobLimits::WEB_REQUESTS, webhooks)
}

fn start_mcp(parts: &ProtocolDependencies<'_>) -> StartedFront {
    let accepts_tokens = !parts.auth.issuers.is_empty();
    let base = parts.hosting.host.base.as_str();
    StartedFront::new(nuncio_mcp::server::routes(McpServerState::new(
        parts.engine.clone(),
        parts.bodies.clone(),
        base,
        accepts_tokens,
    )))
}

#[derive(Debug)]
struct SkillRequestAuth {
    auth: Authenticator,
}

#[async_trait]
impl RequestAuthenticator for SkillRequestAuth {
    async fn check(&self, parts: &Parts, body: &[u8]) -> RequestCheckResult {
        let head = RequestHead { method: &parts.method, uri: &parts.uri, headers: &parts.headers };
        match self.auth.signatures.check(head, body).await {
            SignatureCheckResult::Absent => RequestCheckResult::Absent,
            SignatureCheckResult::Invalid(why) => RequestCheckResult::Invalid(why),
            SignatureCheckResult::Known(caller) => RequestCheckResult::Known(caller),
        }
    }
}
