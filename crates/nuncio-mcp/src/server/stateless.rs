//! Checks of a request in the revision without sessions: its headers repeat its body, so that proxies can route it.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-headers>

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::headers::{METHOD, NAME, PROTOCOL_VERSION, decoded, single};
use super::refuse::McpFailure;
use crate::wire::{JsonObject, McpError, McpRequest, STATELESS_REVISION, error_code, meta};

pub(super) fn check_request(headers: &HeaderMap, request: &McpRequest) -> Result<(), McpFailure> {
    let announced =
        single(headers, PROTOCOL_VERSION.as_str()).map_err(|fault| mismatch(fault.says("MCP-Protocol-Version")))?;
    let meta = request.params.get("_meta").and_then(Value::as_object);
    let missing = |name: &str| {
        let message = format!("`params._meta` needs `{name}`");
        McpFailure::bad_request(error_code::INVALID_PARAMS, message)
    };
    let version = meta.and_then(|meta| meta.get(meta::PROTOCOL_VERSION)).and_then(Value::as_str);
    let version = version.ok_or_else(|| missing(meta::PROTOCOL_VERSION))?;
    let capabilities = meta.and_then(|meta| meta.get(meta::CLIENT_CAPABILITIES));
    if !capabilities.is_some_and(Value::is_object) {
        return Err(missing(meta::CLIENT_CAPABILITIES));
    }
    if version != announced {
        return Err(mismatch("the header MCP-Protocol-Version differs from the version in `params._meta`"));
    }
    if version != STATELESS_REVISION {
        let error = McpError::new(
            error_code::UNSUPPORTED_PROTOCOL_VERSION,
            format!("revision {version:?} is not supported; send {STATELESS_REVISION}, or begin with `initialize`"),
        );
        let data = json!({"supported": [STATELESS_REVISION], "requested": version});
        return Err(McpFailure::new(StatusCode::BAD_REQUEST, error.with_data(data)));
    }
    check_headers(headers, &request.method, &request.params)
}

/// Checks the headers that repeat the method and what it is applied to.
pub(super) fn check_headers(headers: &HeaderMap, method: &str, params: &JsonObject) -> Result<(), McpFailure> {
    let found = single(headers, METHOD.as_str()).map_err(|fault| mismatch(fault.says("Mcp-Method")))?;
    if found != method {
        return Err(mismatch("the header Mcp-Method differs from the method in the body"));
    }
    let Some(member) = named_member(method) else { return Ok(()) };
    let Some(expected) = params.get(member).and_then(Value::as_str) else { return Ok(()) };
    let found = single(headers, NAME.as_str()).and_then(decoded).map_err(|fault| mismatch(fault.says("Mcp-Name")))?;
    if found != expected {
        return Err(mismatch(format!("the header Mcp-Name differs from `params.{member}`")));
    }
    Ok(())
}

/// The member of `params` that `Mcp-Name` repeats.
fn named_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

pub(super) fn mismatch(message: impl Into<String>) -> McpFailure {
    McpFailure::bad_request(error_code::HEADER_MISMATCH, message)
}
