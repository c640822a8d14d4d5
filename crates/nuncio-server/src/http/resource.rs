//! `GET /.well-known/oauth-protected-resource` (RFC 9728): the issuers whose access tokens are accepted, for the whole
//! server and for the MCP address of each agent.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use nuncio_core::ErrorCode;
use nuncio_core::agent::{Agent, SkillAccess};
use nuncio_core::ids::ScopeId;
use nuncio_engine::EngineError;
use nuncio_http::refuse;
use serde_json::json;

use super::operators::OperatorRoutes;

pub(super) const PATH: &str = "/.well-known/oauth-protected-resource";

/// Paths of the metadata of MCP addresses: the path of the resource follows [`PATH`].
pub(super) const ONLY_AGENT_PATH: &str = "/.well-known/oauth-protected-resource/mcp";
pub(super) const AGENT_PATH: &str = "/.well-known/oauth-protected-resource/agents/{name}/mcp";

/// The metadata of this server as a protected resource; 404 if no issuer is trusted.
pub(super) async fn describe(State(operators): State<OperatorRoutes>) -> Response {
    respond(&operators, "", &operators.engine.agents().list())
}

/// The metadata of the MCP address of the only agent.
pub(super) async fn describe_only_agent(State(operators): State<OperatorRoutes>) -> Response {
    match operators.engine.agents().list().as_slice() {
        only @ [_] => respond(&operators, "/mcp", only),
        _ => refuse(&EngineError::new(ErrorCode::NotFound, "this server has several agents, or none")),
    }
}

/// The metadata of the MCP address of an agent.
pub(super) async fn describe_agent(State(operators): State<OperatorRoutes>, Path(name): Path<String>) -> Response {
    match operators.engine.agents().agent(&name) {
        Ok(served) => respond(&operators, &format!("/agents/{name}/mcp"), &[Arc::clone(&served.agent)]),
        Err(error) => refuse(&EngineError { code: ErrorCode::NotFound, ..error }),
    }
}

fn respond(operators: &OperatorRoutes, path: &str, agents: &[Arc<Agent>]) -> Response {
    let issuers: Vec<_> = operators.issuers.names().collect();
    if issuers.is_empty() {
        let message = "this server does not accept access tokens; send an API key";
        return refuse(&EngineError::new(ErrorCode::NotFound, message));
    }
    let document = json!({
        "resource": format!("{}{path}", operators.base),
        "authorization_servers": issuers,
        "scopes_supported": scopes(agents),
        "bearer_methods_supported": ["header"],
    });
    Json(document).into_response()
}

fn scopes(agents: &[Arc<Agent>]) -> BTreeSet<ScopeId> {
    let tools = agents.iter().flat_map(|agent| agent.exposed_tools());
    let shown = tools.filter(|tool| tool.skill.as_ref().is_none_or(|skill| skill.access != SkillAccess::Private));
    shown.filter_map(|tool| tool.scope.clone()).collect()
}
