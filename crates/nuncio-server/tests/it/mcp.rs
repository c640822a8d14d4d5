//! MCP routes over real sockets: both revisions, refusals, and independent clients.

#[path = "mcp/approvals.rs"]
mod approvals;
#[path = "mcp/ask.rs"]
mod ask;
#[path = "mcp/hostile.rs"]
mod hostile;
#[path = "mcp/independent_client.rs"]
mod independent_client;
#[path = "mcp/session.rs"]
mod session;
#[path = "mcp/stateless.rs"]
mod stateless;

use nuncio_testkit::{Gateway, RawHttpResponse};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::agents::{DESK, count, desk, echo, held, scope, tool};

pub(crate) const STATELESS: &str = "2026-07-28";
pub(crate) const SESSION: &str = "2025-11-25";
pub(crate) const AGENT: &str = "/agents/desk/mcp";

pub(crate) fn agent() -> String {
    desk(&[
        scope("notes:write", "low"),
        scope("danger:do", "high"),
        echo(),
        tool("sized", "printf '{\"size\": 3}'", "output = { type = \"object\", required = [\"size\"] }"),
        tool("listed", "printf '[1, 2]'", "output = { type = \"array\" }"),
        tool(
            "strict",
            "cat",
            "input = { type = \"object\", required = [\"n\"], \"$defs\" = { n = { type = \"integer\" } } }",
        ),
        tool("breaks", "exit 3", "effect = \"read\"\nidempotent = true\nopen_world = false"),
        tool("secret", "printf secret", "expose = false"),
        count("scope = \"notes:write\""),
        tool("danger", "echo ran >> dangers; printf done", "scope = \"danger:do\""),
        held("timeout_ms = 30000"),
    ])
}

/// A client that sends requests exactly as given.
#[derive(Clone)]
pub(crate) struct McpTestClient<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) path: &'static str,
    pub(crate) key: Option<String>,
}

impl<'a> McpTestClient<'a> {
    pub(crate) fn new(gateway: &'a Gateway) -> Self {
        Self { gateway, path: AGENT, key: None }
    }

    pub(crate) fn with_key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    pub(crate) async fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> RawHttpResponse {
        let mut request = format!("{method} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", self.path);
        request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        if let Some(key) = &self.key {
            request += &format!("Authorization: Bearer {key}\r\n");
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        self.gateway.raw(request + "\r\n" + body).await.unwrap()
    }

    /// Sends a request of 2026-07-28 with its headers.
    pub(crate) async fn stateless(&self, method: &str, params: Value) -> RawHttpResponse {
        let request = stateless_request(method, params);
        let name = request["params"]["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method)];
        if method == "tools/call" {
            headers.push(("Mcp-Name", &name));
        }
        self.send("POST", &headers, &request.to_string()).await
    }

    /// The result of a request of 2026-07-28; panics on an error.
    pub(crate) async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.stateless(method, params).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["result"].clone()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Begins a session of 2025-11-25; returns its id.
    pub(crate) async fn initialize(&self) -> String {
        let params =
            json!({"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.in_session(None, "initialize", params).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("mcp-session-id").unwrap().to_owned()
    }

    /// Sends a request of 2025-11-25.
    pub(crate) async fn in_session(&self, session: Option<&str>, method: &str, params: Value) -> RawHttpResponse {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let headers: Vec<_> = session.map(|session| ("Mcp-Session-Id", session)).into_iter().collect();
        self.send("POST", &headers, &body).await
    }
}

/// A request of 2026-07-28 with the members of `_meta` that it needs.
pub(crate) fn stateless_request(method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(STATELESS);
    if params["_meta"].get("io.modelcontextprotocol/clientCapabilities").is_none() {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Names of the tools in a result of `tools/list`.
pub(crate) fn tool_names(result: &Value) -> Vec<&str> {
    result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

pub(crate) fn described<'a>(result: &'a Value, tool: &str) -> &'a Value {
    result["tools"].as_array().unwrap().iter().find(|described| described["name"] == tool).unwrap()
}

pub(crate) async fn gateway() -> Gateway {
    Gateway::builder().agent(DESK, &agent()).start().await
}

/// Sends a call of a tool without a session, and returns the connection without reading the response.
pub(crate) async fn begin_call(gateway: &Gateway, tool: &str, arguments: Value) -> TcpStream {
    let body = stateless_request("tools/call", json!({"name": tool, "arguments": arguments})).to_string();
    let request = format!(
        "POST {AGENT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: {STATELESS}\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect(gateway.address()).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}
