//! Requests that must be refused, and what they get.

use nuncio_auth::settings::IssuerSetting;
use nuncio_testkit::Gateway;
use serde_json::{Value, json};

use super::{AGENT, McpTestClient, STATELESS, agent, gateway, stateless_request};
use crate::agents::DESK;

#[tokio::test]
async fn session_id_that_is_forged_or_of_another_caller_or_agent_is_unknown() {
    let other = agent().replace(&format!("name = \"{DESK}\""), "name = \"other\"");
    let gateway = Gateway::builder().agent(DESK, &agent()).agent("other", &other).start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let ada = McpTestClient::new(&gateway).with_key(&ada.secret);
    let bob = McpTestClient::new(&gateway).with_key(&bob.secret);
    let session = ada.initialize().await;
    let status = async |client: &McpTestClient<'_>, session: &str| {
        client.in_session(Some(session), "tools/call", json!({"name": "echo"})).await.status
    };
    assert_eq!(status(&ada, &session).await, 200);
    assert_eq!(status(&bob, &session).await, 404, "another caller");
    let elsewhere = McpTestClient { path: "/agents/other/mcp", ..ada.clone() };
    assert_eq!(status(&elsewhere, &session).await, 404, "another agent");
    let mut changed = session.clone().into_bytes();
    changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
    for forged in
        [String::from_utf8(changed).unwrap(), session[..session.len() - 4].to_owned(), "x".into(), "A".repeat(5000)]
    {
        assert_eq!(status(&ada, &forged).await, 404, "{forged}");
    }
    let anonymous = McpTestClient { key: None, ..ada.clone() };
    assert_eq!(status(&anonymous, &session).await, 401, "a session is no credential");
    assert_eq!(anonymous.send("DELETE", &[("Mcp-Session-Id", &session)], "").await.status, 401);
    assert_eq!(bob.send("DELETE", &[("Mcp-Session-Id", &session)], "").await.status, 404);
    assert_eq!(status(&ada, &session).await, 200, "nobody else ended it");
    assert_eq!(gateway.audit().await.len(), 2, "only the good calls ran");
}

#[tokio::test]
async fn missing_or_wrong_key_gets_a_challenge_and_nothing_runs() {
    let gateway = gateway().await;
    gateway.key(&[]).await;
    let client = McpTestClient::new(&gateway);
    for key in [None, Some("nk_wrong"), Some("")] {
        let client = McpTestClient { key: key.map(str::to_owned), ..client.clone() };
        let answer = client.stateless("tools/call", json!({"name": "echo", "arguments": {}})).await;
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, Some("Bearer realm=\"nuncio\"")),
            "{key:?}"
        );
        assert_eq!((answer.json().get("id"), answer.json()["jsonrpc"].as_str()), (None, Some("2.0")));
    }
    let answer = client.send("POST", &[("Authorization", "Basic bm86bm8=")], "{}").await;
    assert_eq!(answer.status, 401);
    assert_eq!(gateway.audit().await.len(), 0);
}

#[tokio::test]
async fn server_with_issuers_names_the_metadata_of_each_mcp_address() {
    let setting = "url = \"https://id.example\"\naudience = \"nuncio\"";
    let setting: IssuerSetting = toml::from_str(setting).unwrap();
    let gateway = Gateway::builder().agent(DESK, &agent()).settings(move |settings| settings.issuer.push(setting));
    let gateway = gateway.start().await;
    gateway.key(&[]).await;
    for path in [AGENT, "/mcp"] {
        let client = McpTestClient { path, ..McpTestClient::new(&gateway) };
        let answer = client.stateless("tools/list", json!({})).await;
        let base = gateway.server().url();
        let metadata = format!("/.well-known/oauth-protected-resource{path}");
        let expected = format!("Bearer resource_metadata=\"{base}{metadata}\", scope=\"danger:do notes:write\"");
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some(expected.as_str())));
        let request = format!("GET {metadata} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let document = gateway.raw(request).await.unwrap().json();
        assert_eq!(document["resource"], format!("{base}{path}"));
        assert_eq!(document["authorization_servers"], json!(["https://id.example"]));
        assert_eq!(document["scopes_supported"], json!(["danger:do", "notes:write"]));
    }
    let missing = "GET /.well-known/oauth-protected-resource/agents/nobody/mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(gateway.raw(missing).await.unwrap().status, 404);
}

#[tokio::test]
async fn foreign_host_or_origin_is_refused_on_an_open_server() {
    let gateway = gateway().await;
    let body = stateless_request("tools/call", json!({"name": "echo", "arguments": {}})).to_string();
    for (host, origin) in
        [("evil.example", None), ("localhost", Some("https://evil.example")), ("localhost", Some("null"))]
    {
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        let request = format!(
            "POST {AGENT} HTTP/1.1\r\nHost: {host}\r\n{origin}Connection: close\r\nContent-Type: application/json\r\n\
             MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = gateway.raw(request).await.unwrap();
        assert_eq!(answer.status, 403, "{host} {origin}");
        assert_eq!((answer.json().get("id"), answer.json()["jsonrpc"].as_str()), (None, Some("2.0")));
    }
    assert_eq!(gateway.audit().await.len(), 0);
}

#[tokio::test]
async fn body_that_is_too_large_deep_or_not_a_message_is_refused() {
    let gateway = Gateway::builder().agent(DESK, &agent()).settings(|settings| settings.limits.body_bytes = 4096);
    let gateway = gateway.start().await;
    let client = McpTestClient::new(&gateway);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": "a".repeat(5000)}}).to_string();
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{{\"a\":{}{}}}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    for (body, status, code) in [
        (large.as_str(), 413, 413),
        (deep.as_str(), 400, -32700),
        ("[]", 400, -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", 400, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 400, -32600),
        ("not json", 400, -32700),
    ] {
        let answer = client.send("POST", &[], body).await;
        let found = (answer.status, answer.json()["error"]["code"].as_i64());
        assert_eq!(found, (status, Some(code)), "{}", &body[..body.len().min(60)]);
    }
    let request = format!(
        "POST {AGENT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    assert_eq!(gateway.raw(request).await.unwrap().status, 415);
    let body: Value = gateway
        .raw(format!("GET {AGENT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
        .await
        .unwrap()
        .json();
    assert_eq!(body["error"]["data"]["code"], "method_not_allowed");
}
