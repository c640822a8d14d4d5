//! Interface between the server side of a protocol and its users: the server that mounts it, and `nuncio lint`.

use std::fmt;

use axum::Router;
use axum::response::Response;
use nuncio_core::agent::Agent;
use nuncio_core::manifest::ScopePresets;
use nuncio_core::policy::Protocol;
use nuncio_engine::EngineError;
use nuncio_engine::converse::PermissionResponder;
use nuncio_engine::jobs::{JobHandler, JobHandlers, JobLimits};
use nuncio_engine::ports::store::JobKind;

mod documents;
mod paths;
mod sample;

pub use documents::{SampleRequest, shell_quoted, title};
pub use paths::{PathRules, PathSignatureRule, ServerTokenKind};
pub use sample::sample;

/// The server side of a protocol without its running part ([`StartedFront`]), so that `nuncio lint` can use it too.
pub trait ProtocolFront: fmt::Debug + Send + Sync {
    fn protocol(&self) -> Protocol;

    /// Name of the protocol for people, such as `AAP`.
    fn name(&self) -> &'static str;

    /// Name of the protocol with its version, such as `AAP v3`.
    fn title(&self) -> &'static str;

    /// Entry point of the protocol that the start-up message shows to operators.
    fn entry_point(&self) -> ProtocolEntryPoint;

    /// Paths that belong to the protocol, with the credentials that are accepted there.
    fn paths(&self) -> &'static [PathRules];

    /// Error response, in the protocol's format, to a request that is refused before it reaches a route.
    fn refuse(&self, error: &EngineError) -> Response;

    fn openapi(&self) -> OpenApiPart;

    /// Documents and sample requests that the console page of an agent shows.
    fn documents(&self, agent: &Agent) -> Vec<SampleRequest>;

    /// Checks that the protocol can describe an agent; the error says, for its author, what prevents it.
    fn check(&self, _agent: &Agent, _presets: &ScopePresets) -> Result<(), String> {
        Ok(())
    }

    /// Parts of an agent's declaration that the protocol cannot express, as sentences for its author.
    fn inexpressible(&self, agent: &Agent) -> Vec<String>;

    /// Whether the protocol has permission prompts that its callers may answer for their own person.
    fn permission_prompts(&self) -> PermissionResponder {
        PermissionResponder::Absent
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ProtocolEntryPoint {
    pub label: &'static str,
    /// First document that an operator opens.
    pub document: &'static str,
    /// Address that is shown instead if the server has several agents.
    pub of_several_agents: Option<&'static str>,
    /// Key in the JSON output of `nuncio --json serve`, and the path that is its value.
    pub json: (&'static str, &'static str),
    /// Whether the entry point shows an agent. An entry point that shows no agent is not printed.
    pub shows: fn(&Agent) -> bool,
}

/// Part of the OpenAPI document that describes one front.
#[derive(Debug)]
pub struct OpenApiPart {
    /// Path prefix of all entries of `paths`.
    pub prefix: &'static str,
    /// OpenAPI `paths` object.
    pub paths: &'static str,
    /// OpenAPI `components` object.
    pub components: String,
    /// Paths of the routes, from the server's root. A test compares them with `paths`.
    pub routes: Vec<String>,
}

/// A started front: the routes to mount, and the handlers of its jobs.
#[derive(Default)]
pub struct StartedFront {
    pub routes: Router,
    pub handlers: JobHandlers,
}

impl StartedFront {
    #[must_use]
    pub fn new(routes: Router) -> Self {
        Self { routes, ..Self::default() }
    }

    #[must_use]
    pub fn with_handler(mut self, kind: JobKind, limits: JobLimits, handler: impl JobHandler) -> Self {
        self.handlers.add(kind, limits, handler);
        self
    }
}

impl fmt::Debug for StartedFront {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedFront").finish_non_exhaustive()
    }
}
