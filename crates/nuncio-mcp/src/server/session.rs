//! Sessions of 2025-11-25. A session id is what `initialize` agreed on, encrypted for the caller and the agent: any node
//! can read it after a restart, nobody can make one, and it is worthless to another caller. A session gives no rights,
//! since every request is authenticated by itself.

use std::time::Duration;

use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::text;
use nuncio_core::time::Timestamp;
use nuncio_engine::{Caller, Engine};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AdmittedRequest;
use super::elicitation::shows_forms;
use super::headers::{PROTOCOL_VERSION, SESSION_ID, single};
use super::refuse::{McpFailure, unknown_session};
use super::respond;
use crate::project::{self, ResultForm};
use crate::wire::{McpRequest, SESSION_REVISIONS, error_code};

/// Time after which a client has to send `initialize` again.
const SESSION_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Limit of the session ids that this process remembers as ended.
const REMEMBERED_ENDS: usize = 10_000;
/// Limit of a session id, in bytes; those that are issued are far shorter.
const MAX_ID: usize = 1024;

/// What a session id contains.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionToken {
    revision: String,
    until: Timestamp,
    /// Whether the client shows forms.
    #[serde(default)]
    forms: bool,
    /// Name and version of the client, as it reports them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    client: Option<String>,
}

/// A session that the caller of a request may use.
#[derive(Debug, Clone)]
pub(super) struct ClientSession {
    /// Digest of the session id.
    pub(super) key: Digest,
    /// Whether the client shows forms (elicitation).
    pub(super) shows_forms: bool,
    until: Timestamp,
}

/// Ended sessions.
#[derive(Debug)]
pub(super) struct SessionTokens {
    ended: BoundedCache<Digest, ()>,
}

impl Default for SessionTokens {
    fn default() -> Self {
        Self { ended: BoundedCache::new(REMEMBERED_ENDS) }
    }
}

impl SessionTokens {
    pub(super) fn end(&self, engine: &Engine, session: &ClientSession) {
        tracing::debug!(now = ?engine.now(), "a client ended its MCP session");
        self.ended.put(session.key, (), session.until);
    }
}

/// Associated data of an encrypted session id: it can be opened only for the same caller and agent.
fn purpose(caller: &Caller, agent: &str) -> String {
    format!("mcp session\n{}\n{agent}", caller.principal)
}

impl AdmittedRequest {
    /// Handles `initialize`.
    pub(super) fn initialize(self, request: &McpRequest) -> Result<Response, McpFailure> {
        let Some(asked) = request.params.get("protocolVersion").and_then(Value::as_str) else {
            return Err(McpFailure::in_band(error_code::INVALID_PARAMS, "`protocolVersion` must be a string"));
        };
        let [newest, ..] = SESSION_REVISIONS;
        let revision = SESSION_REVISIONS.into_iter().find(|revision| *revision == asked).unwrap_or(newest);
        let engine = &self.mcp.engine;
        let token = SessionToken {
            revision: revision.to_owned(),
            until: engine.now().after(SESSION_TIME),
            forms: shows_forms(request.params.get("capabilities")),
            client: request.params.get("clientInfo").and_then(client_name),
        };
        tracing::debug!(client = token.client, revision, "an MCP session begins");
        let token = serde_json::to_string(&token).unwrap_or_default();
        let id = engine.seal_for(&purpose(&self.caller, self.served.agent.name.as_str()), &token);
        let result = project::initialize_result(&self.served.agent, revision);
        let result = project::completed(ResultForm::Session, &self.served.agent, result);
        let mut response = respond::json(&request.id, Ok(result));
        if let Ok(id) = HeaderValue::try_from(id) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        Ok(response)
    }

    /// The session that the request names.
    pub(super) fn find_session(&self) -> Result<ClientSession, McpFailure> {
        check_version(&self.headers)?;
        let id = match single(&self.headers, SESSION_ID.as_str()) {
            Ok(id) => id,
            Err(fault) => {
                let message = format!("{}; the response to `initialize` has it", fault.says("Mcp-Session-Id"));
                return Err(McpFailure::bad_request(error_code::INVALID_REQUEST, message));
            }
        };
        if id.len() > MAX_ID {
            return Err(unknown_session());
        }
        let engine = &self.mcp.engine;
        let opened = engine.open_sealed(&purpose(&self.caller, self.served.agent.name.as_str()), id);
        let token = opened.and_then(|text| serde_json::from_str::<SessionToken>(&text).ok());
        let token = token.filter(|token| engine.now() < token.until).ok_or_else(unknown_session)?;
        let key = Digest::of_bytes(id.as_bytes());
        match self.mcp.sessions.ended.get(&key, engine.now()) {
            Some(()) => Err(unknown_session()),
            None => Ok(ClientSession { key, shows_forms: token.forms, until: token.until }),
        }
    }
}

/// Checks the version that later requests of a session repeat; older clients leave it out.
fn check_version(headers: &HeaderMap) -> Result<(), McpFailure> {
    if !headers.contains_key(PROTOCOL_VERSION) {
        return Ok(());
    }
    let version = single(headers, PROTOCOL_VERSION.as_str());
    if version.is_ok_and(|version| SESSION_REVISIONS.contains(&version)) {
        return Ok(());
    }
    let message = format!("MCP-Protocol-Version must be one of {}", SESSION_REVISIONS.join(", "));
    Err(McpFailure::bad_request(error_code::INVALID_REQUEST, message))
}

fn client_name(info: &Value) -> Option<String> {
    let name = info.get("name")?.as_str()?;
    let version = info.get("version").and_then(Value::as_str).unwrap_or_default();
    Some(text::name(&format!("{name} {version}")))
}
