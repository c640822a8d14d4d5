//! Revision 2026-07-28: every request stands alone.

use nuncio_core::audit::{AuditDecision, AuditOutcome};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_testkit::Gateway;
use serde_json::{Value, json};

use super::{McpTestClient, STATELESS, agent, begin_call, described, gateway, stateless_request, tool_names};
use crate::agents::{DESK, desk, echo, gone, held_pid, tool};

#[tokio::test]
async fn discovery_names_the_agent_and_only_what_it_answers() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let found = client.result("server/discover", json!({})).await;
    assert_eq!(found["supportedVersions"], json!([STATELESS]));
    assert_eq!(found["capabilities"], json!({"tools": {}}));
    assert_eq!((&found["resultType"], &found["cacheScope"]), (&json!("complete"), &json!("public")));
    let server = json!({"name": DESK, "version": "1.0.0"});
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"], server);
    for method in ["prompts/list", "resources/list", "subscriptions/listen", "tasks/list", "ping", "initialize", "x"] {
        let answer = client.stateless(method, json!({})).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
}

#[tokio::test]
async fn declared_tools_are_listed_with_their_schemas_unchanged_and_hidden_ones_are_not() {
    let gateway = gateway().await;
    let listed = McpTestClient::new(&gateway).result("tools/list", json!({})).await;
    let expected = ["echo", "sized", "listed", "strict", "breaks", "count", "danger", "held", "ask"];
    assert_eq!(tool_names(&listed), expected);
    assert_eq!((&listed["cacheScope"], listed["ttlMs"].is_u64()), (&json!("private"), true));
    let input = json!({"type": "object", "required": ["n"], "$defs": {"n": {"type": "integer"}}});
    assert_eq!(described(&listed, "strict")["inputSchema"], input);
    assert_eq!(described(&listed, "listed")["outputSchema"], json!({"type": "array"}));
    let hints = |read, destructive, idempotent, open| json!({"readOnlyHint": read, "destructiveHint": destructive, "idempotentHint": idempotent, "openWorldHint": open});
    assert_eq!(described(&listed, "breaks")["annotations"], hints(true, false, true, false));
    assert_eq!(described(&listed, "echo")["annotations"], hints(false, true, false, true), "the worst is assumed");
}

#[tokio::test]
async fn tool_call_leaves_one_audit_record() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let result = client.call("echo", json!({"note": "ü"})).await;
    assert_eq!(result["content"], json!([{"type": "text", "text": "{\"note\":\"ü\"}"}]));
    assert_eq!((result.get("isError"), &result["resultType"]), (None, &json!("complete")));
    let sized = client.call("sized", json!({})).await;
    assert_eq!(sized["structuredContent"], json!({"size": 3}));
    assert_eq!(client.call("listed", json!({})).await["structuredContent"], json!([1, 2]));

    let refused = client.call("strict", json!({})).await;
    assert_eq!((&refused["isError"], &refused["_meta"]["nuncio/code"]), (&json!(true), &json!("invalid_arguments")));
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("\"n\""), "{refused}");
    let failed = client.call("breaks", json!({})).await;
    assert_eq!(failed["isError"], json!(true));
    for unknown in ["secret", "nothing", "no name"] {
        let answer = client.stateless("tools/call", json!({"name": unknown, "arguments": {}})).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32602)), "{unknown}");
    }
    let records = gateway.audit().await;
    assert!(records.iter().all(|record| (record.protocol, &record.caller) == (Protocol::Mcp, &Principal::Local)));
    let tools: Vec<_> = records.iter().map(|record| record.tool.as_str()).collect();
    assert_eq!(tools, ["echo", "sized", "listed", "strict", "breaks", "secret", "nothing"]);
    assert!(matches!(&records[0].decision, AuditDecision::Allowed { by } if by == &["policy"]));
    assert_eq!(records[3].outcome, AuditOutcome::NotRun);
}

#[tokio::test]
async fn tools_list_contains_only_tools_that_the_key_may_call() {
    let gateway = gateway().await;
    let holder = gateway.key(&["notes:write"]).await;
    let listed = McpTestClient::new(&gateway).with_key(&holder.secret).result("tools/list", json!({})).await;
    assert!(tool_names(&listed).contains(&"count") && !tool_names(&listed).contains(&"danger"), "{listed}");
    let nothing = gateway.key(&["other:scope"]).await;
    let client = McpTestClient::new(&gateway).with_key(&nothing.secret);
    let listed = client.result("tools/list", json!({})).await;
    assert!(!tool_names(&listed).contains(&"count"), "{listed}");
    let refused = client.call("count", json!({})).await;
    assert_eq!((&refused["isError"], &refused["_meta"]["nuncio/code"]), (&json!(true), &json!("scope_not_granted")));
    assert_eq!(crate::agents::runs(&gateway), 0);
}

#[tokio::test]
async fn headers_that_differ_from_the_body_are_refused_and_nothing_runs() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let body = stateless_request("tools/call", json!({"name": "echo", "arguments": {}})).to_string();
    let version = ("MCP-Protocol-Version", STATELESS);
    let (method, name) = (("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"));
    let mismatch = Some(-32020);
    for (headers, code) in [
        (&[version, method, name][..], None),
        (&[("mcp-protocol-version", STATELESS), ("MCP-METHOD", " tools/call "), ("mcp-name", "echo")], None),
        (&[version, method, ("Mcp-Name", "=?base64?ZWNobw==?=")], None),
        (&[method, name], mismatch),
        (&[version, name], mismatch),
        (&[version, method], mismatch),
        (&[version, ("Mcp-Method", "tools/list"), name], mismatch),
        (&[version, ("Mcp-Method", "Tools/Call"), name], mismatch),
        (&[version, method, ("Mcp-Name", "count")], mismatch),
        (&[version, method, ("Mcp-Name", "=?base64?ZWNobw?=")], mismatch),
        (&[version, method, name, name], mismatch),
        (&[version, version, method, name], mismatch),
        (&[("MCP-Protocol-Version", "2025-11-25"), method, name], mismatch),
    ] {
        let answer = client.send("POST", headers, &body).await;
        let found = answer.json()["error"]["code"].as_i64();
        assert_eq!((answer.status, found), (if code.is_some() { 400 } else { 200 }, code), "{headers:?}");
        assert_eq!(answer.json()["id"], 1, "{headers:?}");
    }
    assert_eq!(gateway.audit().await.len(), 3, "only the three good requests ran");
}

#[tokio::test]
async fn request_without_version_or_capabilities_is_refused_and_an_unknown_version_gets_the_supported_ones() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let send = async |meta: Value, version: &str| {
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": {"_meta": meta}}).to_string();
        let answer =
            client.send("POST", &[("MCP-Protocol-Version", version), ("Mcp-Method", "tools/list")], &body).await;
        assert_eq!((answer.status, &answer.json()["id"]), (400, &json!("x")));
        answer.json()["error"].clone()
    };
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    assert_eq!(send(json!({version: STATELESS}), STATELESS).await["code"], -32602);
    assert_eq!(send(json!({capabilities: {}}), STATELESS).await["code"], -32602);
    assert_eq!(send(json!({version: STATELESS, capabilities: []}), STATELESS).await["code"], -32602);
    let error = send(json!({version: "1999-01-01", capabilities: {}}), "1999-01-01").await;
    assert_eq!(
        (&error["code"], &error["data"]),
        (&json!(-32022), &json!({"supported": [STATELESS], "requested": "1999-01-01"}))
    );
}

#[tokio::test]
async fn closing_the_connection_cancels_the_call() {
    let gateway = gateway().await;
    let connection = begin_call(&gateway, "held", json!({})).await;
    let pid = held_pid(&gateway).await;
    drop(connection);
    gone(pid).await;
    let record = nuncio_testkit::eventually("the call is recorded", async || gateway.audit().await.pop()).await;
    assert_eq!(record.outcome, AuditOutcome::Failed { code: nuncio_core::ErrorCode::Cancelled });
}

#[tokio::test]
async fn only_agent_is_also_served_without_its_name() {
    let gateway = gateway().await;
    let client = McpTestClient { path: "/mcp", ..McpTestClient::new(&gateway) };
    assert_eq!(client.call("echo", json!({})).await["content"][0]["text"], "{}");
    let several = Gateway::builder().agent(DESK, &agent()).agent("other", &desk(&[echo()]).replace(DESK, "other"));
    let several = several.start().await;
    let client = McpTestClient { path: "/mcp", ..McpTestClient::new(&several) };
    let answer = client.stateless("tools/list", json!({})).await;
    assert_eq!((answer.status, &answer.json()["error"]["data"]["code"]), (404, &json!("not_found")));
    assert!(answer.json().get("id").is_none(), "the request was not read");
    let named = McpTestClient::new(&several).result("tools/list", json!({})).await;
    assert!(!named["tools"].as_array().unwrap().is_empty());
    let unknown = McpTestClient { path: "/agents/nobody/mcp", ..McpTestClient::new(&several) };
    assert_eq!(unknown.stateless("tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn long_list_has_pages_and_an_invented_cursor_is_refused() {
    let tools: Vec<_> = (0..230).map(|number| tool(&format!("t{number}"), "cat", "")).collect();
    let gateway = Gateway::builder().agent(DESK, &desk(&tools)).start().await;
    let client = McpTestClient::new(&gateway);
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page =
            client.result("tools/list", cursor.map_or(json!({}), |cursor: String| json!({"cursor": cursor}))).await;
        assert_eq!(page["cacheScope"], "private");
        names.extend(tool_names(&page).into_iter().map(str::to_owned));
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    let declared = (0..230).map(|number| format!("t{number}"));
    let expected: Vec<_> = declared.chain(["ask".to_owned()]).collect();
    assert_eq!(names, expected);
    for cursor in [json!(""), json!("t230"), json!("nothing"), json!(3), Value::Null] {
        let answer = client.stateless("tools/list", json!({"cursor": cursor})).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32602)), "{cursor}");
    }
}
