//! Revision 2025-11-25: sessions.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditOutcome;
use nuncio_testkit::{Gateway, ManualClock, eventually};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{AGENT, McpTestClient, SESSION, agent, described, gateway, tool_names};
use crate::agents::{DESK, gone, held_pid, release};

#[tokio::test]
async fn initialize_returns_a_session_id_with_which_tools_are_listed_and_called() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let params = json!({"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let answer = client.in_session(None, "initialize", params).await;
    let session = answer.header("mcp-session-id").unwrap();
    assert!(session.bytes().all(|byte| byte.is_ascii_graphic()), "{session}");
    let result = &answer.json()["result"];
    assert_eq!((&result["protocolVersion"], &result["capabilities"]), (&json!(SESSION), &json!({"tools": {}})));
    assert_eq!(result["serverInfo"], json!({"name": DESK, "version": "1.0.0"}));
    assert_eq!(result.get("resultType"), None, "that is a member of the newer revision");

    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let accepted = client.send("POST", &[("Mcp-Session-Id", session)], &notification).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
    let session = Some(session);
    assert_eq!(client.in_session(session, "ping", json!({})).await.json()["result"], json!({}));
    let listed = client.in_session(session, "tools/list", json!({})).await.json()["result"].clone();
    assert!(tool_names(&listed).contains(&"echo"));
    assert_eq!(described(&listed, "listed").get("outputSchema"), None, "schemas of results are objects here");
    let call = async |tool: &str| {
        client.in_session(session, "tools/call", json!({"name": tool})).await.json()["result"].clone()
    };
    assert_eq!(call("echo").await, json!({"content": [{"type": "text", "text": "{}"}], "structuredContent": {}}));
    assert_eq!(call("sized").await["structuredContent"], json!({"size": 3}));
    assert_eq!(call("listed").await.get("structuredContent"), None);
    let unknown = client.in_session(session, "prompts/list", json!({})).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (200, &json!(-32601)));
}

#[tokio::test]
async fn unknown_revision_is_answered_with_the_newest_session_revision() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    for (asked, agreed) in [(SESSION, SESSION), ("2025-06-18", "2025-06-18"), ("2024-11-05", SESSION), ("x", SESSION)] {
        let answer = client.in_session(None, "initialize", json!({"protocolVersion": asked})).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], agreed, "{asked}");
    }
    let answer = client.in_session(None, "initialize", json!({})).await;
    assert_eq!(answer.json()["error"]["code"], -32602);
    assert_eq!(answer.header("mcp-session-id"), None);
}

#[tokio::test]
async fn request_without_session_is_refused_and_an_ended_session_is_unknown() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    assert_eq!(client.in_session(None, "tools/list", json!({})).await.status, 400);
    let session = client.initialize().await;
    let list = async || client.in_session(Some(&session), "tools/list", json!({})).await.status;
    assert_eq!(list().await, 200);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (version, status) in [(SESSION, 200), ("2025-06-18", 200), ("1999-01-01", 400), ("", 400)] {
        let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", version)];
        assert_eq!(client.send("POST", &headers, &body).await.status, status, "{version}");
    }
    let end = async |session: &str| client.send("DELETE", &[("Mcp-Session-Id", session)], "").await.status;
    assert_eq!(end(&session).await, 204);
    assert_eq!((list().await, end(&session).await), (404, 404));
    assert_eq!(client.send("GET", &[("Mcp-Session-Id", &session)], "").await.status, 405);
}

#[tokio::test]
async fn session_survives_a_restart_and_expires_after_a_week() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).start().await;
    let session = McpTestClient::new(&gateway).initialize().await;
    let data = gateway.stop().await;
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).data(data).start().await;
    let client = McpTestClient::new(&gateway);
    assert_eq!(client.in_session(Some(&session), "tools/list", json!({})).await.status, 200);
    clock.advance(Duration::from_secs(7 * 24 * 3600));
    assert_eq!(client.in_session(Some(&session), "tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn call_in_a_session_continues_after_a_disconnect_and_ends_when_it_is_cancelled() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let session = client.initialize().await;
    let begin = async |id: u64| {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "held"}}).to_string();
        let request = format!(
            "POST {AGENT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: {session}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut connection = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let pid = held_pid(&gateway).await;
        drop(connection);
        pid
    };
    begin(7).await;
    release(&gateway, "held.gate", "released").await;
    let record = eventually("the call has ended", async || gateway.audit().await.pop()).await;
    assert_eq!(record.outcome, AuditOutcome::Completed);

    std::fs::remove_file(gateway.file(DESK, "held.pid")).unwrap();
    std::fs::remove_file(gateway.file(DESK, "held.gate")).unwrap();
    let pid = begin(8).await;
    let cancel = async |session: &str, id: Value| {
        let body =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string();
        client.send("POST", &[("Mcp-Session-Id", session)], &body).await.status
    };
    let other = client.initialize().await;
    assert_eq!(cancel(&other, json!(8)).await, 202, "another session cancels nothing");
    assert_eq!(cancel(&session, json!("8")).await, 202, "another id cancels nothing");
    let again = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "echo"}}).to_string();
    let answer = client.send("POST", &[("Mcp-Session-Id", &session)], &again).await;
    assert_eq!(answer.json()["error"]["code"], -32600, "the id is in use, so the call is still running");
    assert_eq!(cancel(&session, json!(8)).await, 202);
    gone(pid).await;
    let cancelled = async || gateway.audit().await.into_iter().nth(1);
    let record = eventually("the call is recorded", cancelled).await;
    assert_eq!(record.outcome, AuditOutcome::Failed { code: ErrorCode::Cancelled });
}
