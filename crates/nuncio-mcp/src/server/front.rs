use axum::response::Response;
use nuncio_core::agent::Agent;
use nuncio_core::policy::Protocol;
use nuncio_engine::EngineError;
use nuncio_http::front::{
    OpenApiPart, PathRules, PathSignatureRule, ProtocolEntryPoint, ProtocolFront, SampleRequest, ServerTokenKind, title,
};
use serde_json::json;

use super::refuse::McpFailure;
use crate::project;

/// Path of the only agent of a server.
pub(super) const ONLY_AGENT_PATH: &str = "/mcp";
pub(super) const AGENT_PATH: &str = "/agents/{name}/mcp";

const PATHS: &[PathRules] = &[rules(ONLY_AGENT_PATH), PathRules { suffix: "/mcp", ..rules("/agents") }];

const fn rules(prefix: &'static str) -> PathRules {
    PathRules {
        tokens: &[ServerTokenKind::Agent],
        did_signatures: PathSignatureRule::Checked,
        key_signatures: PathSignatureRule::Checked,
        ..PathRules::new(prefix)
    }
}

/// MCP as one of the protocols that the HTTP server mounts.
#[derive(Debug)]
pub struct McpFront;

impl ProtocolFront for McpFront {
    fn protocol(&self) -> Protocol {
        Protocol::Mcp
    }

    fn name(&self) -> &'static str {
        "MCP"
    }

    fn title(&self) -> &'static str {
        "MCP 2026-07-28"
    }

    fn entry_point(&self) -> ProtocolEntryPoint {
        let path = ONLY_AGENT_PATH;
        ProtocolEntryPoint {
            label: "MCP",
            document: path,
            of_several_agents: Some("/agents/NAME/mcp"),
            json: ("mcp", path),
            shows: |_| true,
        }
    }

    fn paths(&self) -> &'static [PathRules] {
        PATHS
    }

    fn refuse(&self, error: &EngineError) -> Response {
        McpFailure::from(error.clone()).response(None)
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
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": crate::wire::STATELESS_REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }}});
        let path = format!("/agents/{}/mcp", agent.name);
        let mut sample = SampleRequest::post(title("List the tools (MCP)", "列出工具（MCP）"), path, &list);
        let headers = [("mcp-protocol-version", crate::wire::STATELESS_REVISION), ("mcp-method", "tools/list")];
        for (name, value) in headers {
            sample.arguments = format!("-H '{name}: {value}' {}", sample.arguments);
        }
        vec![sample]
    }

    fn inexpressible(&self, agent: &Agent) -> Vec<String> {
        project::inexpressible(agent)
    }
}
