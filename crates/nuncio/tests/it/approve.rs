//! Operator approval: a call of a tool with `human_authorization` waits, even if the app trusts the tool.

use std::fs;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::{Client, call, play, turns};
use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::until;

/// An agent whose only tool, `pay`, needs approval and writes a line for each run.
fn guarded() -> TestAgentFolder {
    let tool = shell_tool("pay", "cat >> runs; echo >> runs; echo paid")
        .replace("timeout_ms", "human_authorization = true\ntimeout_ms");
    TestAgentFolder::with_agent(&format!("{SCRIPTED}{tool}"))
}

fn runs(home: &TestAgentFolder) -> Vec<Value> {
    let text = fs::read_to_string(home.path("runs")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Starts a turn that calls `pay` and waits for approval.
fn pay(client: &Client, session: &str, euros: u32) -> JoinHandle<(u16, Value)> {
    let script = json!([[call("c1", "pay", json!({"euros": euros}))], [{"echo": "results"}]]);
    let (client, path, body) = (client.clone(), turns(session), json!({"messages": [play(&script)]}));
    tokio::spawn(async move { client.post(&path, &body).await })
}

async fn question(home: &TestAgentFolder) -> Value {
    until("a question", async || {
        let listed = home.json_command(&["approve", "list"]).json();
        let waiting = listed["approvals"].as_array().unwrap();
        assert!(waiting.len() < 2, "{listed}");
        waiting.first().cloned()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn call_approved_on_the_command_line_runs_once() {
    let home = guarded();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("pay", true)]).await;
    let turn = pay(&client, &session, 80);
    let approval = question(&home).await;
    assert_eq!(approval["question"]["arguments"], json!({"euros": 80}));
    assert_eq!(approval["question"]["tool"], "pay");
    assert_eq!((&approval["question"]["caller"], &approval["asked_of"]), (&json!("local"), &json!("operators")));
    assert_eq!(approval["question"]["session"], json!(session));
    assert!(runs(&home).is_empty() && !turn.is_finished());
    let shown = home.nuncio(&["approve", "list"]).run();
    assert!(shown.stdout.contains("pay") && shown.stdout.contains(r#"{"euros":80}"#), "{shown:?}");

    let id = approval["id"].as_str().unwrap();
    home.json_command(&["approve", "allow", id]).json();
    let (status, answer) = turn.await.unwrap();
    assert_eq!((status, &answer["stopReason"]), (200, &json!("end_turn")));
    assert_eq!(answer["messages"][1], json!({"role": "tool", "toolCallId": "c1", "content": "paid"}));
    assert_eq!(runs(&home), [json!({"euros": 80})]);

    for again in ["allow", "deny"] {
        assert_eq!(home.json_command(&["approve", again, id]).failure().0, "approval_closed");
    }
    assert_eq!(home.json_command(&["approve", "allow", "apr_unknown"]).failure().0, "approval_not_found");
    assert_eq!(runs(&home).len(), 1);
    let records = home.audit();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["decision"], json!({"verdict": "allowed", "by": ["operator"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_says_that_a_call_without_a_result_may_wait_for_a_person() {
    let home = guarded();
    let server = home.start();
    let mut chat = home.nuncio(&["chat", server.url(), "--trust"]).start_interactive();
    chat.line(&json!({"script": [[call("c1", "pay", json!({"euros": 80}))], [{"echo": "results"}]]}).to_string());
    until("it says so", async || chat.stdout().contains("No result of pay yet").then_some(())).await;
    let approval = question(&home).await;
    home.json_command(&["approve", "allow", approval["id"].as_str().unwrap()]).json();
    until("the result", async || chat.stdout().contains("← paid").then_some(())).await;
    let ran = chat.wait_for_end();
    assert!(ran.status == Some(0) && ran.stdout.contains("nuncio approve list"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_says_that_a_call_permitted_in_the_chat_may_wait_for_a_person() {
    for answer in ["y", "a"] {
        let home = guarded();
        let server = home.start();
        let Some(command) = home.nuncio(&["chat", server.url()]).in_terminal() else {
            return eprintln!("skipped: `script` is not installed");
        };
        let mut chat = command.start_interactive();
        chat.line(&json!({"script": [[call("c1", "pay", json!({"euros": 80}))], [{"echo": "results"}]]}).to_string());
        until("a question", async || chat.stdout().contains("Allow pay?").then_some(())).await;
        chat.line(answer);
        until("a note", async || chat.stdout().contains("No result of pay yet").then_some(())).await;
        let approval = question(&home).await;
        home.json_command(&["approve", "allow", approval["id"].as_str().unwrap()]).json();
        until("the result", async || chat.stdout().contains("← paid").then_some(())).await;
        chat.keys("\u{4}");
        assert_eq!(chat.wait_for_end().status, Some(0), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_that_joins_a_turn_notes_its_call_without_a_result() {
    let home = guarded();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("pay", false)]).await;
    assert_eq!(pay(&client, &session, 80).await.unwrap().1["stopReason"], "tool_use");
    let grant = json!({"messages": [{"role": "tool_permission", "toolCallId": "c1", "granted": true}]});
    let (path, sender) = (turns(&session), client.clone());
    let turn = tokio::spawn(async move { sender.post(&path, &grant).await });
    let approval = question(&home).await;
    let chat = home.nuncio(&["chat", server.url(), "--session", &session]).start_interactive();
    until("a note", async || chat.stdout().contains("No result of pay yet").then_some(())).await;
    home.json_command(&["approve", "allow", approval["id"].as_str().unwrap()]).json();
    assert_eq!(turn.await.unwrap().1["stopReason"], "end_turn");
    until("the result", async || chat.stdout().contains("← paid").then_some(())).await;
    assert_eq!(chat.wait_for_end().status, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_call_does_not_run_and_the_agent_gets_the_reason() {
    let home = guarded();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("pay", true)]).await;
    let turn = pay(&client, &session, 9000);
    let approval = question(&home).await;
    let id = approval["id"].as_str().unwrap();
    home.json_command(&["approve", "deny", id, "--reason", "too much"]).json();
    let (status, answer) = turn.await.unwrap();
    assert_eq!((status, &answer["stopReason"]), (200, &json!("end_turn")));
    let history = client.history(&session).await;
    assert_eq!(history[2], json!({"role": "tool", "toolCallId": "c1", "content": "Tool call denied: too much"}));
    assert_eq!(home.json_command(&["approve", "allow", id]).failure().0, "approval_closed");
    assert!(runs(&home).is_empty());
    let records = home.audit();
    assert_eq!(records[0]["decision"], json!({"verdict": "refused", "by": "operator", "code": "denied"}));
    assert_eq!(records[0]["outcome"], json!({"result": "not_run"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn permission_given_by_the_app_does_not_replace_operator_approval() {
    let home = guarded();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("pay", false)]).await;
    let (_, turn) = pay(&client, &session, 80).await.unwrap();
    assert_eq!(turn["stopReason"], "tool_use");
    let grant = json!({"messages": [{"role": "tool_permission", "toolCallId": "c1", "granted": true}]});
    let (path, sender) = (turns(&session), client.clone());
    let turn = tokio::spawn(async move { sender.post(&path, &grant).await });
    let waiting = question(&home).await;
    assert!(runs(&home).is_empty());
    home.json_command(&["approve", "allow", waiting["id"].as_str().unwrap()]).json();
    assert_eq!(turn.await.unwrap().1["stopReason"], "end_turn");
    assert_eq!(runs(&home).len(), 1);
    assert_eq!(home.audit()[0]["decision"]["by"], json!(["client", "operator"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_turn_closes_its_pending_approval() {
    let home = guarded();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("pay", true)]).await;
    let turn = pay(&client, &session, 80);
    let approval = question(&home).await;
    let (status, _) = client.post(&format!("/sessions/{session}/cancel"), &json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(turn.await.unwrap().1["cancelled"], true);
    assert_eq!(
        home.json_command(&["approve", "allow", approval["id"].as_str().unwrap()]).failure().0,
        "approval_closed"
    );
    assert!(runs(&home).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_pending_at_a_crash_is_closed_and_its_call_is_not_run() {
    let home = guarded();
    let server = home.start();
    let session = server.aap().session("script", &[("pay", true)]).await;
    let client = server.aap();
    let (path, script) = (turns(&session), json!([[call("c1", "pay", json!({"euros": 80}))], [{"text": "over"}]]));
    let turn = tokio::spawn(async move { client.try_post(&path, &json!({"messages": [play(&script)]})).await });
    let approval = question(&home).await;
    server.kill9();
    assert!(turn.await.unwrap().is_err());

    let server = home.start();
    assert_eq!(home.json_command(&["approve", "list"]).json()["approvals"], json!([]));
    assert_eq!(
        home.json_command(&["approve", "allow", approval["id"].as_str().unwrap()]).failure().0,
        "approval_closed"
    );
    let history = server.aap().history(&session).await;
    assert_eq!(history.len(), 3);
    assert!(history[2]["content"].as_str().unwrap().contains("not run"), "{}", history[2]);
    assert!(runs(&home).is_empty());
    assert_eq!(server.aap().say(&session, "and now?").await["stopReason"], "end_turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn approve_list_shows_invisible_characters_in_arguments_escaped() {
    let home = guarded();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("pay", true)]).await;
    let to = "a\u{9b}b\u{202e}c\u{2028}d\u{200b}e";
    let script = json!([[call("c1", "pay", json!({"to": to}))], [{"echo": "results"}]]);
    let (path, body) = (turns(&session), json!({"messages": [play(&script)]}));
    let turn = tokio::spawn(async move { client.post(&path, &body).await });
    let approval = question(&home).await;
    let shown = home.nuncio(&["approve", "list"]).run().stdout;
    assert!(shown.contains(r"a\u{9b}b\u{202e}c\u{2028}d\u{200b}e"), "{shown:?}");
    assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{2028}', '\u{200b}']), "{shown:?}");
    home.json_command(&["approve", "deny", approval["id"].as_str().unwrap()]).json();
    turn.await.unwrap();
}
