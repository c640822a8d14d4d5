//! The tool `ask`: the whole agent.

use nuncio_core::audit::AuditOutcome;
use nuncio_core::policy::Protocol;
use nuncio_testkit::{Gateway, eventually};
use serde_json::{Value, json};

use super::{McpTestClient, agent, begin_call, gateway, tool_names};
use crate::agents::{DESK, call_once, desk, echo, gone, held_pid, tool};

fn script(items: &Value) -> String {
    json!({"script": items}).to_string()
}

#[tokio::test]
async fn whole_agent_answers_and_its_conversation_continues() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let first = client.call("ask", json!({"text": script(&call_once("c1", "echo", json!({"n": 1})))})).await;
    assert_eq!(first["structuredContent"]["answer"], "done", "{first}");
    assert_eq!(first["content"], json!([{"type": "text", "text": "done"}]));
    let conversation = first["structuredContent"]["conversation"].clone();
    let text = script(&json!([[{"text": "again"}]]));
    let second = client.call("ask", json!({"text": text, "conversation": conversation})).await;
    assert_eq!(second["structuredContent"], json!({"answer": "again", "conversation": conversation}));
    let records = gateway.audit().await;
    assert_eq!((records.len(), records[0].protocol, records[0].tool.as_str()), (1, Protocol::Mcp, "echo"));
    assert_eq!(records[0].session.as_ref().map(|id| json!(id)), Some(conversation));
}

#[tokio::test]
async fn wrong_arguments_and_conversations_of_others_are_results_that_a_model_can_read() {
    let other = agent().replace(&format!("name = \"{DESK}\""), "name = \"other\"");
    let gateway = Gateway::builder().agent(DESK, &agent()).agent("other", &other).start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let ada = McpTestClient::new(&gateway).with_key(&ada.secret);
    let begun = ada.call("ask", json!({"text": script(&json!([[{"text": "hello"}]]))})).await;
    let conversation = begun["structuredContent"]["conversation"].as_str().unwrap().to_owned();
    let bob = McpTestClient::new(&gateway).with_key(&bob.secret);
    let elsewhere = McpTestClient { path: "/agents/other/mcp", ..ada.clone() };
    for (client, arguments) in [
        (&ada, json!({})),
        (&ada, json!({"text": 7})),
        (&ada, json!({"text": "x", "more": 1})),
        (&ada, json!({"text": "x", "conversation": 7})),
        (&ada, json!({"text": "x", "conversation": "ses_unknown"})),
        (&bob, json!({"text": "x", "conversation": conversation})),
        (&elsewhere, json!({"text": "x", "conversation": conversation})),
    ] {
        let result = client.call("ask", arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        assert_eq!(result.get("structuredContent"), None, "{arguments}");
    }
}

#[tokio::test]
async fn ask_is_absent_if_it_is_switched_off_and_a_declared_tool_of_that_name_replaces_it() {
    let silent = desk(&[echo()]).replace("[allow]", "ask = false\n[allow]");
    let gateway = Gateway::builder().agent(DESK, &silent).start().await;
    let client = McpTestClient::new(&gateway);
    assert_eq!(tool_names(&client.result("tools/list", json!({})).await), ["echo"]);
    let answer = client.stateless("tools/call", json!({"name": "ask", "arguments": {"text": "x"}})).await;
    assert_eq!(answer.json()["error"]["code"], -32602);

    let own = Gateway::builder().agent(DESK, &desk(&[tool("ask", "printf mine", "")])).start().await;
    let client = McpTestClient::new(&own);
    assert_eq!(tool_names(&client.result("tools/list", json!({})).await), ["ask"]);
    assert_eq!(client.call("ask", json!({})).await["content"][0]["text"], "mine");
}

#[tokio::test]
async fn progress_is_reported_in_the_stream_before_the_answer() {
    let gateway = gateway().await;
    let client = McpTestClient::new(&gateway);
    let text = script(&call_once("c1", "held", json!({})));
    let params = json!({"name": "ask", "arguments": {"text": text}, "_meta": {"progressToken": "p1"}});
    let (answer, ()) = tokio::join!(client.stateless("tools/call", params), async {
        held_pid(&gateway).await;
        crate::agents::release(&gateway, "held.gate", "released").await;
    });
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let body = answer.body.replace("\r\n", "\n");
    let messages: Vec<Value> =
        body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let (last, reports) = messages.split_last().unwrap();
    assert_eq!((&last["id"], &last["result"]["structuredContent"]["answer"]), (&json!(1), &json!("done")));
    assert!(reports.iter().any(|report| report["params"]["message"] == "Calls held"), "{reports:#?}");
    let numbers: Vec<_> = reports.iter().map(|report| report["params"]["progress"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(reports.iter().all(|report| report["params"]["progressToken"] == "p1"));
}

#[tokio::test]
async fn closing_the_connection_ends_the_turn() {
    let gateway = gateway().await;
    let text = script(&call_once("c1", "held", json!({})));
    let connection = begin_call(&gateway, "ask", json!({"text": text})).await;
    let pid = held_pid(&gateway).await;
    drop(connection);
    gone(pid).await;
    let record = eventually("the call is recorded", async || gateway.audit().await.pop()).await;
    assert!(matches!(record.outcome, AuditOutcome::Failed { .. }), "{record:?}");
}
