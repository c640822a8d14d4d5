//! MCP server built with the SDK: this test binary, started again with `FAKE` set.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, serve_server};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

/// Command that starts the server, as written in an agent file.
pub(crate) fn command() -> String {
    let program = std::env::current_exe().unwrap();
    // Quiet, so that the test harness writes nothing to the protocol stream.
    json!([program, "--quiet", "--nocapture", "--exact", "test_mcp_server::helper_process_serves_mcp"]).to_string()
}

/// `[[mcp]]` section of an agent file for the server in this mode, with additional lines.
pub(crate) fn section(name: &str, mode: &str, rest: &str) -> String {
    format!(
        "[[mcp]]\nname = \"{name}\"\ncommand = {}\nenv = {{ FAKE = \"{mode}\", KEY = \"{{{{ secrets.key }}}}\" }}\n{rest}\n",
        command()
    )
}

/// Not a test: serves MCP if another test set `FAKE`; otherwise does nothing.
#[test]
fn helper_process_serves_mcp() {
    let Ok(mode) = std::env::var("FAKE") else { return };
    let (mode, port) = mode.split_once(':').unwrap_or((&mode, ""));
    match mode {
        "dies" => {
            eprintln!("my key is {}", std::env::var("KEY").unwrap_or_default());
            std::process::exit(3);
        }
        // Reports its start on a socket and serves when it receives a byte, or never.
        "gated" => {
            let mut gate = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            gate.write_all(b"!").unwrap();
            if gate.read(&mut [0]).unwrap_or_default() == 0 {
                std::thread::park();
            }
        }
        _ => {}
    }
    let server = TestMcpServer { mode: mode.to_owned() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let running = serve_server(server, (tokio::io::stdin(), tokio::io::stdout())).await.unwrap();
        let _ = running.waiting().await;
    });
    std::process::exit(0);
}

struct TestMcpServer {
    mode: String,
}

impl TestMcpServer {
    fn tools(&self) -> Vec<Tool> {
        let names = ["pid", "wait", "fail", "exit", "key", "trace", "structured", "last"];
        let input = if self.mode == "bad-schema" {
            json!({"type": "object", "required": 7})
        } else {
            json!({"type": "object"})
        };
        let tool = |name| Tool::new(name, format!("Does {name}."), Arc::new(rmcp::model::object(input.clone())));
        let mut tools: Vec<Tool> = names.into_iter().map(tool).collect();
        if self.mode == "odd-name" {
            tools.push(tool("make reservation"));
        }
        tools[0].title = Some("Process number".into());
        tools
    }
}

impl ServerHandler for TestMcpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.mode.as_str() {
            "modern" => Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]),
            _ => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }

    /// Lists three tools per page, so that tests cover paging.
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let start: usize = request.and_then(|request| request.cursor).map_or(0, |cursor| cursor.parse().unwrap());
        let tools = self.tools();
        let end = (start + 3).min(tools.len());
        let mut page = ListToolsResult::with_all_items(tools[start..end].to_vec());
        page.next_cursor = (end < tools.len()).then(|| end.to_string());
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let text = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(match request.name.as_ref() {
            "pid" => text(std::process::id().to_string()),
            "fail" => CallToolResult::error(vec![ContentBlock::text("no rooms left")]),
            "exit" => {
                eprintln!("the roof fell in");
                std::process::exit(7);
            }
            "key" => text(std::env::var("KEY").unwrap_or_default()),
            "trace" => text(context.meta.get("traceparent").map(Value::to_string).unwrap_or_default()),
            "structured" => CallToolResult::structured(json!({"echo": arguments})),
            // Reports on a socket when it begins and when it is cancelled.
            "wait" => {
                let mut socket =
                    tokio::net::TcpStream::connect(format!("127.0.0.1:{}", arguments["port"])).await.unwrap();
                socket.write_all(b"began,").await.unwrap();
                context.ct.cancelled().await;
                socket.write_all(b"cancelled").await.unwrap();
                text("never seen".into())
            }
            other => return Err(ErrorData::invalid_params(format!("what is {other}?"), None)),
        }
        .into())
    }
}
