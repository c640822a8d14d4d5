//! MCP client for a server in memory or in a child process.

use std::{path::Path, process::Stdio};

use rmcp::{
    RoleClient, ServerHandler,
    model::{CallToolRequestParams, CallToolResult, Tool},
    serve_client, serve_server,
    service::RunningService,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

pub(crate) struct Client(RunningService<RoleClient, ()>);

impl Client {
    pub(crate) async fn in_memory(server: impl ServerHandler) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move { serve_server(server, theirs).await.unwrap().waiting().await });
        Self(serve_client((), ours).await.unwrap())
    }

    /// Runs `child`, a test of this binary that serves MCP on stdio, in a child process. Drop the client to disconnect,
    /// then wait for the process.
    pub(crate) async fn in_process(child: &str, db: &Path) -> (Self, Child) {
        let mut process = Command::new(std::env::current_exe().unwrap())
            // Two test threads: with one, libtest would first print an incomplete line.
            .args([child, "--exact", "--nocapture", "--test-threads=2"])
            .env("NUNCIO_DEMO_DB", db)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        // libtest prints this line before the MCP messages start.
        let mut line = String::new();
        while line != "running 1 test\n" {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).await.unwrap(), 0, "the server did not start");
        }
        let stdin = process.stdin.take().unwrap();
        (Self(serve_client((), (stdout, stdin)).await.unwrap()), process)
    }

    pub(crate) async fn tools(&self) -> Vec<Tool> {
        self.0.list_all_tools().await.unwrap()
    }

    pub(crate) async fn try_call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, rmcp::ServiceError> {
        let arguments = rmcp::model::object(arguments);
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.0.call_tool(request).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        self.try_call(tool, arguments).await.unwrap()
    }

    /// Calls a tool that must succeed and returns its structured content.
    pub(crate) async fn call_ok(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(false), "{result:?}");
        let structured = result.structured_content.clone().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text(&result)).unwrap(), structured);
        structured
    }

    /// Calls a tool that must fail and returns its message.
    pub(crate) async fn refused(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        assert_eq!(result.structured_content, None);
        text(&result).to_owned()
    }

    pub(crate) async fn disconnect(self) {
        self.0.cancel().await.unwrap();
    }
}

/// Exits a serving process at once, because libtest would write its report to a closed pipe.
pub(crate) fn exit_process(served: &anyhow::Result<()>) -> ! {
    if let Err(error) = served {
        eprintln!("{error:#}");
    }
    std::process::exit(i32::from(served.is_err()))
}

pub(crate) fn text(result: &CallToolResult) -> &str {
    assert_eq!(result.content.len(), 1);
    &result.content[0].as_text().unwrap().text
}
