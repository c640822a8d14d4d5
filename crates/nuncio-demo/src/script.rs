//! The script demo: two tools whose answers are known in advance.

use std::sync::Arc;

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

/// Serves `add` and `lookup`. It keeps no state.
#[derive(Clone, Debug)]
pub struct ScriptServer {
    tools: Arc<[Tool]>,
}

impl ScriptServer {
    /// The server, ready for a transport.
    #[must_use]
    pub fn new() -> Self {
        Self { tools: [add_tool(), lookup_tool()].into() }
    }
}

impl Default for ScriptServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandler for ScriptServer {
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
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let outcome = match request.name.as_ref() {
            "add" => arguments(request.arguments).and_then(add),
            "lookup" => arguments(request.arguments).map(lookup),
            other => return Err(unknown_tool(other)),
        };
        Ok(match outcome {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(refused) => refused,
        }
        .into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    a: Number,
    b: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lookup {
    key: String,
}

/// The sum as the shortest JSON number: whole numbers exactly, however large;
/// others as RFC 8785 writes a double.
fn add(Add { a, b }: Add) -> Result<String, CallToolResult> {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        return Ok((a + b).to_string());
    }
    let sum = a.as_f64().zip(b.as_f64()).map(|(a, b)| a + b);
    sum.filter(|sum| sum.is_finite())
        .and_then(|sum| serde_json_canonicalizer::to_string(&sum).ok())
        .ok_or_else(|| refusal(format_args!("{a} + {b} is too large for a JSON number. Use smaller numbers.")))
}

fn lookup(Lookup { key }: Lookup) -> String {
    format!("value-of-{key}")
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
    pure(Tool::new("add", "Add two numbers and answer with the sum.", schema(input)), "Add")
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
    pure(Tool::new("lookup", description, schema(input)), "Look up")
}

fn pure(tool: Tool, title: &str) -> Tool {
    tool.with_title(title).with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}
