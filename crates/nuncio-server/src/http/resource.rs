//! `GET /.well-known/oauth-protected-resource` (RFC 9728): the issuers whose access tokens are accepted.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use nuncio_core::ErrorCode;
use nuncio_core::agent::SkillAccess;
use nuncio_core::ids::ScopeId;
use nuncio_engine::{Engine, EngineError};
use nuncio_http::refuse;
use serde_json::json;

use super::operators::OperatorRoutes;

pub(super) const PATH: &str = "/.well-known/oauth-protected-resource";

/// The metadata of this server as a protected resource; 404 if no issuer is trusted.
pub(super) async fn describe(State(operators): State<OperatorRoutes>) -> Response {
    let issuers: Vec<_> = operators.issuers.names().collect();
    if issuers.is_empty() {
        let message = "this server does not accept access tokens; send an API key";
        return refuse(&EngineError::new(ErrorCode::NotFound, message));
    }
    let document = json!({
        "resource": &*operators.base,
        "authorization_servers": issuers,
        "scopes_supported": scopes(&operators.engine),
        "bearer_methods_supported": ["header"],
    });
    Json(document).into_response()
}

fn scopes(engine: &Engine) -> BTreeSet<ScopeId> {
    let agents = engine.agents().list();
    let tools = agents.iter().flat_map(|agent| agent.exposed_tools());
    let shown = tools.filter(|tool| tool.skill.as_ref().is_none_or(|skill| skill.access != SkillAccess::Private));
    shown.filter_map(|tool| tool.scope.clone()).collect()
}
