//! Approvals by the caller's own person, asked by elicitation.

use nuncio_core::ErrorCode;
use nuncio_core::approval::{ApprovalAnswer, Approver};
use nuncio_core::audit::AuditDecision;
use nuncio_testkit::{Gateway, ManualClock};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{AGENT, McpTestClient, SESSION, agent, gateway};
use crate::agents::{DESK, desk, scope, tool};

fn forms() -> Value {
    json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}})
}

fn yes() -> Value {
    json!({"approval": {"action": "accept", "content": {"approve": true}}})
}

fn dangers(gateway: &Gateway) -> usize {
    std::fs::read_to_string(gateway.file(DESK, "dangers")).unwrap_or_default().lines().count()
}

/// Calls `danger` and returns the question.
async fn question(client: &McpTestClient<'_>, arguments: Value) -> Value {
    let asked = client.result("tools/call", json!({"name": "danger", "arguments": arguments, "_meta": forms()})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    asked
}

async fn answer(client: &McpTestClient<'_>, arguments: Value, state: &Value, responses: Value) -> Value {
    let params = json!({
        "name": "danger", "arguments": arguments, "_meta": forms(), "requestState": state, "inputResponses": responses,
    });
    let answer = client.stateless("tools/call", params).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn caller_approves_its_own_call_by_repeating_it_with_the_answer() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let asked = question(&client, json!({"room": 7})).await;
    let form = &asked["inputRequests"]["approval"];
    assert_eq!((&form["method"], &form["params"]["mode"]), (&json!("elicitation/create"), &json!("form")));
    let message = form["params"]["message"].as_str().unwrap();
    assert!(message.contains("danger") && message.contains("{\"room\":7}"), "{message}");
    assert_eq!(form["params"]["requestedSchema"]["properties"]["approve"]["type"], "boolean");
    assert_eq!((dangers(&gateway), gateway.audit().await.len()), (0, 0), "nothing ran and nothing was recorded");

    let state = &asked["requestState"];
    let done = answer(&client, json!({"room": 7}), state, yes()).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    let records = gateway.audit().await;
    assert_eq!(records.len(), 1);
    assert!(matches!(&records[0].decision, AuditDecision::Allowed { by } if by == &["client"]), "{records:?}");

    let replayed = answer(&client, json!({"room": 7}), state, yes()).await;
    assert_eq!(replayed["error"]["code"], -32602, "an answer counts once");
    assert_eq!((dangers(&gateway), gateway.audit().await.len()), (1, 1));
}

#[tokio::test]
async fn declined_question_is_a_recorded_refusal_and_an_unclear_answer_is_asked_again() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    for response in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept", "content": {"approve": false}}),
    ] {
        let asked = question(&client, json!({})).await;
        let refused = answer(&client, json!({}), &asked["requestState"], json!({"approval": response})).await;
        assert_eq!(
            (&refused["result"]["isError"], &refused["result"]["_meta"]["nuncio/code"]),
            (&json!(true), &json!("denied"))
        );
    }
    let records = gateway.audit().await;
    let by_client = |by: &str, code| by == "client" && code == ErrorCode::Denied;
    assert!(
        records.iter().all(|it| matches!(&it.decision, AuditDecision::Refused { by, code } if by_client(by, *code)))
    );
    assert_eq!(records.len(), 3);

    let asked = question(&client, json!({})).await;
    for responses in
        [json!({}), json!({"other": {"action": "accept"}}), json!({"approval": {"action": "accept"}}), json!([])]
    {
        let again = answer(&client, json!({}), &asked["requestState"], responses.clone()).await;
        assert_eq!(again["result"]["resultType"], "input_required", "{responses}");
    }
    assert_eq!((dangers(&gateway), gateway.audit().await.len()), (0, 3));
}

#[tokio::test]
async fn state_that_is_forged_expired_or_of_another_call_or_caller_is_refused() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let ada = McpTestClient::new(&gateway).with_key(&ada.secret);
    let bob = McpTestClient::new(&gateway).with_key(&bob.secret);
    let asked = question(&ada, json!({"room": 7})).await;
    let state = asked["requestState"].as_str().unwrap();
    let mut changed = state.to_owned().into_bytes();
    changed[30] = if changed[30] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    let refused = async |client: &McpTestClient<'_>, arguments: Value, state: Value| {
        let error = answer(client, arguments, &state, yes()).await["error"]["code"].clone();
        assert_eq!(error, -32602, "{state}");
    };
    refused(&bob, json!({"room": 7}), json!(state)).await;
    refused(&ada, json!({"room": 8}), json!(state)).await;
    for forged in [json!(changed), json!(&state[..state.len() - 2]), json!("x"), json!(""), json!(7), Value::Null] {
        refused(&ada, json!({"room": 7}), forged).await;
    }
    let other = json!({
        "name": "echo", "arguments": {"room": 7}, "_meta": forms(), "requestState": state, "inputResponses": yes(),
    });
    assert_eq!(ada.stateless("tools/call", other).await.json()["error"]["code"], -32602, "another tool");
    clock.advance(std::time::Duration::from_secs(301));
    refused(&ada, json!({"room": 7}), json!(state)).await;
    assert_eq!((dangers(&gateway), gateway.audit().await.len()), (0, 0));
}

#[tokio::test]
async fn caller_cannot_answer_an_approval_that_operators_decide() {
    let careful = tool("careful", "printf done", "scope = \"danger:do\"\nhuman_authorization = true");
    let text = desk(&[scope("danger:do", "high"), careful, tool("danger", "printf done", "scope = \"danger:do\"")]);
    let gateway = Gateway::builder().agent(DESK, &text).start().await;
    let client = McpTestClient::new(&gateway);
    // Without forms, and where a tool always needs an operator, the operators are asked.
    let long = "x".repeat(5000);
    for (name, arguments, meta) in
        [("danger", json!({}), json!({})), ("careful", json!({}), forms()), ("danger", json!({"text": long}), forms())]
    {
        let params = json!({"name": name, "arguments": arguments, "_meta": meta, "inputResponses": yes()});
        let (result, ()) = tokio::join!(client.result("tools/call", params), async {
            let approval = gateway.question().await;
            assert_eq!(approval.asked_of, Approver::Operators);
            let approvals = gateway.engine().approvals();
            let by = nuncio_core::principal::Principal::Operator;
            approvals.decide_approval(&approval.id, ApprovalAnswer::Deny { reason: None }, by).await.unwrap();
        });
        assert_eq!((&result["isError"], &result["_meta"]["nuncio/code"]), (&json!(true), &json!("denied")), "{name}");
    }
}

#[tokio::test]
async fn session_is_asked_in_the_stream_of_the_call_and_answers_in_a_message_of_its_own() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let params = json!({"protocolVersion": SESSION, "capabilities": {"elicitation": {"form": {}}}});
    let begun = client.in_session(None, "initialize", params).await;
    let session = begun.header("mcp-session-id").unwrap();
    let other = client.initialize().await;
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "danger"}}).to_string();
    let request = format!(
        "POST {AGENT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut received = String::new();
    while !received.contains("elicitation/create") || !received.ends_with("\n\r\n") {
        let mut piece = [0; 4096];
        let length = connection.read(&mut piece).await.unwrap();
        assert_ne!(length, 0, "{received}");
        received.push_str(std::str::from_utf8(&piece[..length]).unwrap());
    }
    let data = received.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let asked: Value = serde_json::from_str(data).unwrap();
    assert_eq!(asked["params"]["mode"], "form");
    let respond = async |session: &str, id: &Value| {
        let result = json!({"action": "accept", "content": {"approve": true}});
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        client.send("POST", &[("Mcp-Session-Id", session)], &body).await.status
    };
    assert_eq!(respond(&other, &asked["id"]).await, 202, "the answer of another session changes nothing");
    assert_eq!(respond(session, &json!("elicitation-1")).await, 202);
    assert_eq!((dangers(&gateway), gateway.audit().await.len()), (0, 0));
    assert_eq!(respond(session, &asked["id"]).await, 202);
    connection.read_to_string(&mut received).await.unwrap();
    let last = received.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!(5), &json!("done")));
    assert_eq!(respond(session, &asked["id"]).await, 202, "a second answer changes nothing");
    assert_eq!(dangers(&gateway), 1);
}
