//! Tools with the names, schemas and results that the conformance suite of MCP asks for.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, object,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::mcp::unknown_tool;

/// A red pixel as PNG.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A WAV file without samples.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// MCP server with the tools of the suite. It has no state.
#[derive(Clone, Debug)]
pub struct ConformanceMcpServer {
    tools: Arc<[Tool]>,
}

impl ConformanceMcpServer {
    #[must_use]
    pub fn new() -> Self {
        let nothing = || json!({"type": "object", "properties": {}});
        let plain = [
            ("test_simple_text", "Returns one text."),
            ("test_image_content", "Returns an image."),
            ("test_audio_content", "Returns a sound."),
            ("test_embedded_resource", "Returns a resource."),
            ("test_multiple_content_types", "Returns a text, an image and a resource."),
            ("test_error_handling", "Fails."),
        ];
        let plain = plain.map(|(name, description)| tool(name, description, nothing()));
        let others = [
            tool("json_schema_2020_12_tool", "Has every kind of keyword in its schema.", keywords()),
            tool("test_header", "Wants an argument repeated in a header.", header()),
        ];
        Self { tools: plain.into_iter().chain(others).collect() }
    }
}

impl Default for ConformanceMcpServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandler for ConformanceMcpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("nuncio-demo-conformance", env!("CARGO_PKG_VERSION")))
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
        let image = || ContentBlock::image(PIXEL, "image/png");
        let resource =
            || ContentBlock::embedded_text("test://embedded-resource", "This is an embedded resource content.");
        let content = match request.name.as_ref() {
            "test_simple_text" => vec![ContentBlock::text("This is a simple text response for testing.")],
            "test_image_content" => vec![image()],
            "test_audio_content" => vec![ContentBlock::audio(SILENCE, "audio/wav")],
            "test_embedded_resource" => vec![resource()],
            "test_multiple_content_types" => {
                vec![ContentBlock::text("Multiple content types test:"), image(), resource()]
            }
            "test_error_handling" => {
                let message = "This tool intentionally returns an error for testing";
                return Ok(CallToolResult::error(vec![ContentBlock::text(message)]).into());
            }
            "json_schema_2020_12_tool" | "test_header" => vec![ContentBlock::text("ok")],
            other => return Err(unknown_tool(other)),
        };
        Ok(CallToolResult::success(content).into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }
}

fn tool(name: &'static str, description: &'static str, input: Value) -> Tool {
    Tool::new(name, description, Arc::<JsonObject>::new(object(input)))
}

/// The schema that the suite compares keyword by keyword.
fn keywords() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

fn header() -> Value {
    json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    })
}
