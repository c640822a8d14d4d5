//! Demo tools with predictable results.

use std::sync::Arc;
use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use serde::Deserialize;
use serde_json::{Number, json};

use crate::mcp::{arguments, refusal, schema, unknown_tool};

/// MCP server with `add`, `lookup`, `echo` and `fail`. It has no state.
#[derive(Clone, Debug)]
pub struct DemoMcpServer {
    tools: Arc<[Tool]>,
}

impl DemoMcpServer {
    #[must_use]
    pub fn new() -> Self {
        Self { tools: [add_tool(), lookup_tool(), echo_tool(), fail_tool()].into() }
    }
}

impl Default for DemoMcpServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandler for DemoMcpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(
            Implementation::new("nuncio-demo-script", env!("CARGO_PKG_VERSION")).with_title("Nuncio script demo"),
        )
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        let outcome = match request.name.as_ref() {
            "add" => arguments(request.arguments).and_then(add).map(said),
            "lookup" => arguments(request.arguments).map(lookup).map(said),
            "echo" => match arguments(request.arguments) {
                // A cancelled call needs no result.
                Ok(told) => context.ct.run_until_cancelled(echo(told)).await.ok_or_else(|| "Cancelled.".to_owned()),
                Err(refused) => Err(refused),
            },
            "fail" => arguments(request.arguments).map(fail),
            other => return Err(unknown_tool(other)),
        };
        Ok(outcome.unwrap_or_else(refusal).into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddArguments {
    a: Number,
    b: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookupArguments {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EchoArguments {
    text: String,
    #[serde(default)]
    delay_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailArguments {
    code: String,
    message: String,
}

/// Adds two numbers. An integer sum is exact; any other is written as RFC 8785 writes a double. Fails if the sum is too
/// large for a double.
fn add(AddArguments { a, b }: AddArguments) -> Result<String, String> {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        return Ok((a + b).to_string());
    }
    let sum = a.as_f64().zip(b.as_f64()).map(|(a, b)| a + b);
    sum.filter(|sum| sum.is_finite())
        .and_then(|sum| serde_json_canonicalizer::to_string(&sum).ok())
        .ok_or_else(|| format!("{a} + {b} is too large for a JSON number. Use smaller numbers."))
}

fn lookup(LookupArguments { key }: LookupArguments) -> String {
    format!("value-of-{key}")
}

async fn echo(EchoArguments { text, delay_ms }: EchoArguments) -> CallToolResult {
    if delay_ms > 0.0 {
        tokio::time::sleep(Duration::try_from_secs_f64(delay_ms / 1_000.0).unwrap_or(Duration::MAX)).await;
    }
    CallToolResult::structured(json!({ "text": text }))
}

/// Returns a tool error with the text `CODE: message`, and both parts as structured content.
fn fail(FailArguments { code, message }: FailArguments) -> CallToolResult {
    let mut failed = CallToolResult::structured_error(json!({ "code": code, "message": message }));
    failed.content = vec![ContentBlock::text(format!("{code}: {message}"))];
    failed
}

fn add_tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "a": { "type": "number", "description": "The first number." },
            "b": { "type": "number", "description": "The second number." }
        },
        "required": ["a", "b"],
        "additionalProperties": false
    });
    read_only(Tool::new("add", "Add two numbers and answer with the sum.", schema(input)), "Add")
}

fn lookup_tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "key": { "type": "string", "description": "The key to look up." }
        },
        "required": ["key"],
        "additionalProperties": false
    });
    let description = "Look a key up and answer with its value, `value-of-<key>`.";
    read_only(Tool::new("lookup", description, schema(input)), "Look up")
}

fn echo_tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "description": "The text to return." },
            "delay_ms": { "type": "number", "minimum": 0, "description": "How long to wait first, in milliseconds." }
        },
        "required": ["text"],
        "additionalProperties": false
    });
    let output = json!({
        "type": "object",
        "properties": { "text": { "type": "string", "description": "The text, unchanged." } },
        "required": ["text"],
        "additionalProperties": false
    });
    let tool = Tool::new("echo", "Wait for the given time and return the text.", schema(input));
    read_only(tool.with_raw_output_schema(schema(output)), "Echo")
}

fn fail_tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "description": "The code of the failure." },
            "message": { "type": "string", "description": "What went wrong." }
        },
        "required": ["code", "message"],
        "additionalProperties": false
    });
    read_only(Tool::new("fail", "Fail with the given code and message.", schema(input)), "Fail")
}

fn read_only(tool: Tool, title: &str) -> Tool {
    tool.with_title(title).with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}
