//! `WWW-Authenticate` of refused requests, with which clients find the issuers of access tokens (RFC 6750, RFC 9728).

use std::collections::BTreeSet;

use http::{HeaderValue, StatusCode};
use nuncio_core::agent::Agent;
use nuncio_core::ids::ScopeId;

use super::McpServerState;
use super::refuse::McpFailure;

/// Path below which the metadata of protected resources is, followed by the path of the resource.
const METADATA: &str = "/.well-known/oauth-protected-resource";

impl McpServerState {
    /// Adds to a refusal what a client needs to get a token that is accepted: the address of the metadata, and all
    /// scopes of the agent.
    pub(super) fn add_challenge(&self, failure: McpFailure, path: &str, agent: Option<&Agent>) -> McpFailure {
        let scopes = agent.map(scopes).unwrap_or_default();
        self.challenge_for(failure, path, &scopes)
    }

    pub(super) fn challenge_for(&self, failure: McpFailure, path: &str, scopes: &BTreeSet<ScopeId>) -> McpFailure {
        let error = match failure.status {
            StatusCode::UNAUTHORIZED => "",
            StatusCode::FORBIDDEN => "error=\"insufficient_scope\", ",
            _ => return failure,
        };
        if !self.accepts_tokens {
            return failure;
        }
        let metadata = format!("{}{METADATA}{path}", self.base);
        let mut challenge = format!("Bearer {error}resource_metadata=\"{metadata}\"");
        if !scopes.is_empty() {
            let scopes: Vec<_> = scopes.iter().map(ScopeId::as_str).collect();
            challenge.push_str(&format!(", scope=\"{}\"", scopes.join(" ")));
        }
        McpFailure { challenge: HeaderValue::try_from(challenge).ok().map(Box::new), ..failure }
    }
}

fn scopes(agent: &Agent) -> BTreeSet<ScopeId> {
    agent.exposed_tools().filter_map(|tool| tool.scope.clone()).collect()
}
