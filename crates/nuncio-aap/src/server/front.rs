use axum::response::Response;
use nuncio_core::agent::Agent;
use nuncio_core::policy::Protocol;
use nuncio_engine::EngineError;
use nuncio_engine::converse::PermissionResponder;
use nuncio_http::front::{
    OpenApiPart, PathRules, PathSignatureRule, ProtocolEntryPoint, ProtocolFront, SampleRequest, ServerTokenKind, title,
};
use serde_json::json;

use crate::project;

pub(super) const BASE: &str = "/aap";

const PATHS: &[PathRules] = &[PathRules {
    is_public: |path| path == "/aap/meta",
    tokens: &[ServerTokenKind::Agent],
    did_signatures: PathSignatureRule::Checked,
    key_signatures: PathSignatureRule::Checked,
    ..PathRules::new(BASE)
}];

/// AAP as one of the protocols that the HTTP server mounts.
#[derive(Debug)]
pub struct AapFront;

impl ProtocolFront for AapFront {
    fn protocol(&self) -> Protocol {
        Protocol::Aap
    }

    fn name(&self) -> &'static str {
        "AAP"
    }

    fn title(&self) -> &'static str {
        "AAP v3"
    }

    fn entry_point(&self) -> ProtocolEntryPoint {
        ProtocolEntryPoint {
            label: "AAP",
            document: "/aap/meta",
            of_several_agents: None,
            json: ("aap", BASE),
            shows: |_| true,
        }
    }

    fn paths(&self) -> &'static [PathRules] {
        PATHS
    }

    fn refuse(&self, error: &EngineError) -> Response {
        super::refuse::refuse(error)
    }

    fn openapi(&self) -> OpenApiPart {
        OpenApiPart {
            prefix: BASE,
            paths: include_str!("../openapi/paths.json"),
            components: include_str!("../openapi/components.json").to_owned(),
            routes: super::table().into_iter().map(|(path, _)| format!("{BASE}{path}")).collect(),
        }
    }

    fn documents(&self, agent: &Agent) -> Vec<SampleRequest> {
        let tools: Vec<_> = agent.exposed_tools().map(|tool| json!({"name": tool.name})).collect();
        let session = json!({"agent": {"name": agent.name, "tools": tools}});
        vec![
            SampleRequest::document(title("Description of all agents here", "本服务器全部智能体的描述"), "/aap/meta"),
            SampleRequest::post(title("Begin a conversation", "开始一个对话"), "/aap/sessions", &session),
        ]
    }

    fn inexpressible(&self, agent: &Agent) -> Vec<String> {
        project::inexpressible(agent)
    }

    fn permission_prompts(&self) -> PermissionResponder {
        PermissionResponder::App
    }
}
