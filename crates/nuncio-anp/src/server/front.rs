use axum::response::Response;
use nuncio_core::agent::Agent;
use nuncio_core::policy::Protocol;
use nuncio_engine::EngineError;
use nuncio_http::front::{
    OpenApiPart, PathRules, PathSignatureRule, ProtocolEntryPoint, ProtocolFront, SampleRequest, ServerTokenKind,
    sample, title,
};
use serde_json::json;

use crate::directory as registry;
use crate::project;
use crate::wire::WELL_KNOWN;

/// Path rules without a check of DID signatures, which the routes check. The directory accepts no tokens.
const PATHS: &[PathRules] = &[
    PathRules::public(WELL_KNOWN),
    PathRules::public("/.well-known/did.json"),
    PathRules { tokens: &[ServerTokenKind::Did], ..signed_by_did("/agents") },
    PathRules { tokens: &[ServerTokenKind::Did], ..signed_by_did("/anp") },
    signed_by_did(registry::PATH),
    signed_by_did(registry::DESCRIPTION),
];

const fn signed_by_did(prefix: &'static str) -> PathRules {
    PathRules { key_signatures: PathSignatureRule::Refused, ..PathRules::public(prefix) }
}

/// ANP as one of the protocols that the HTTP server mounts.
#[derive(Debug)]
pub struct AnpFront;

impl ProtocolFront for AnpFront {
    fn protocol(&self) -> Protocol {
        Protocol::Anp
    }

    fn name(&self) -> &'static str {
        "ANP"
    }

    fn title(&self) -> &'static str {
        "ANP 1.2"
    }

    fn entry_point(&self) -> ProtocolEntryPoint {
        ProtocolEntryPoint {
            label: "agents",
            document: WELL_KNOWN,
            of_several_agents: None,
            json: ("anp", WELL_KNOWN),
            shows: |_| true,
        }
    }

    fn paths(&self) -> &'static [PathRules] {
        PATHS
    }

    fn refuse(&self, error: &EngineError) -> Response {
        super::refuse(error)
    }

    fn openapi(&self) -> OpenApiPart {
        OpenApiPart {
            prefix: "",
            paths: include_str!("../openapi/paths.json"),
            components: "{}".to_owned(),
            routes: super::table().into_iter().map(|(path, _)| path.to_owned()).collect(),
        }
    }

    fn documents(&self, agent: &Agent) -> Vec<SampleRequest> {
        let name = &agent.name;
        let document =
            |english, chinese, file| SampleRequest::document(title(english, chinese), format!("/agents/{name}/{file}"));
        let mut documents = vec![
            document("Agent description", "智能体描述", "ad.json"),
            document("DID document", "DID 文档", "did.json"),
            document("Methods (OpenRPC)", "方法（OpenRPC）", "interfaces/tools.json"),
        ];
        documents.extend(agent.exposed_tools().find(|tool| !tool.human_authorization).map(|tool| {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": tool.name, "params": sample(tool.input.source())});
            let title = title(format!("Call a method · {}", tool.name), format!("调用方法 · {}", tool.name));
            SampleRequest::post(title, format!("/agents/{name}/rpc"), &call)
        }));
        documents
    }

    fn inexpressible(&self, agent: &Agent) -> Vec<String> {
        project::inexpressible(agent)
    }
}
