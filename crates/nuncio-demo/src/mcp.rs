//! Code shared by the demo MCP servers: the stdio loop, schemas, arguments, errors.
//!
//! Tools: <https://modelcontextprotocol.io/specification/2025-11-25/server/tools>

use std::{fmt, sync::Arc};

use rmcp::{
    ErrorData, ServerHandler,
    model::{CallToolResult, ContentBlock, JsonObject},
    serve_server,
    service::{QuitReason, ServerInitializeError},
    transport::io::stdio_pipes,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Serves MCP on standard input and output until the client closes standard input.
pub(crate) async fn serve_stdio<S: ServerHandler>(server: S) -> anyhow::Result<()> {
    let running = match serve_server(server, stdio_pipes()).await {
        Ok(running) => running,
        // A client that disconnects before it initialises is not an error.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match running.waiting().await? {
        QuitReason::JoinError(error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Adds `$schema` to a JSON Schema and converts it to the type that `rmcp` expects.
pub(crate) fn schema(mut schema: Value) -> Arc<JsonObject> {
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    Arc::new(rmcp::model::object(schema))
}

/// Parses a tool's arguments. Invalid arguments are an error of the tool, not of the protocol, so that a model sees
/// what to correct.
pub(crate) fn arguments<A: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<A, String> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let at = error.path().to_string();
        let why = error.into_inner();
        // At the top level the message itself names the missing or unknown field.
        if at == "." {
            format!("Bad arguments: {why}. Correct them and call again.")
        } else {
            format!("Bad argument `{at}`: {why}. Correct it and call again.")
        }
    })
}

/// Tool result that reports an error with this message to the caller.
pub(crate) fn refusal(message: impl fmt::Display) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.to_string())])
}

/// Protocol error (`invalid params`) for a call of an unknown tool.
pub(crate) fn unknown_tool(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Unknown tool: {name}"), None)
}
