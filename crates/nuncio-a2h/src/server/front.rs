use axum::response::{IntoResponse as _, Response};
use nuncio_core::agent::Agent;
use nuncio_core::manifest::ScopePresets;
use nuncio_core::policy::Protocol;
use nuncio_engine::EngineError;
use nuncio_http::front::{
    OpenApiPart, PathRules, ProtocolEntryPoint, ProtocolFront, SampleRequest, ServerTokenKind, title,
};

use crate::error::A2hError;
use crate::project;

/// Authentication rules of the A2H paths. Requests without credentials are not served as the caller `local`.
const PATHS: &[PathRules] = &[PathRules {
    is_public,
    public_varies: true,
    tokens: &[ServerTokenKind::Device, ServerTokenKind::Agent],
    serves_local: false,
    ..PathRules::new("/a2h")
}];

fn is_public(path: &str) -> bool {
    let rest = path.strip_prefix("/a2h/agents").unwrap_or("-");
    let is_of_agents = match rest.split('/').nth(2) {
        None => rest.is_empty() || rest.starts_with('/'),
        Some(part) => part == "manifests",
    };
    is_of_agents || matches!(path, "/a2h/scopes" | "/a2h/auth/keys")
}

/// Description of A2H for the server that mounts it: paths, documents and error format.
#[derive(Debug)]
pub struct A2hFront;

impl ProtocolFront for A2hFront {
    fn protocol(&self) -> Protocol {
        Protocol::A2h
    }

    fn name(&self) -> &'static str {
        "A2H"
    }

    fn title(&self) -> &'static str {
        "A2H Capability Manifest v1"
    }

    fn entry_point(&self) -> ProtocolEntryPoint {
        ProtocolEntryPoint {
            label: "A2H",
            document: "/a2h/agents",
            of_several_agents: None,
            json: ("a2h", "/a2h"),
            shows: |_| true,
        }
    }

    fn paths(&self) -> &'static [PathRules] {
        PATHS
    }

    fn refuse(&self, error: &EngineError) -> Response {
        A2hError::from(error.clone()).into_response()
    }

    fn openapi(&self) -> OpenApiPart {
        OpenApiPart {
            prefix: "",
            paths: include_str!("../openapi/paths.json"),
            components: include_str!("../openapi/components.json").to_owned(),
            routes: super::table().into_iter().map(|(path, _)| path.to_owned()).collect(),
        }
    }

    fn documents(&self, agent: &Agent) -> Vec<SampleRequest> {
        let manifest = || {
            let title = title("What it may do on your devices", "它可在你的设备上做什么");
            SampleRequest::document(title, format!("/a2h/agents/{}", agent.name))
        };
        agent.device_tools().next().map(|_| manifest()).into_iter().collect()
    }

    fn check(&self, agent: &Agent, presets: &ScopePresets) -> Result<(), String> {
        let checked = project::checked(agent, presets);
        checked
            .map(drop)
            .map_err(|faults| format!("its tools for people's devices do not form a valid manifest: {faults}"))
    }

    fn inexpressible(&self, agent: &Agent) -> Vec<String> {
        project::inexpressible(agent)
    }
}
