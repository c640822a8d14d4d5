//! `kill -9` at the worst moments of a turn: finished steps are kept, unfinished ones are reported, nothing runs twice,
//! and the conversation continues.

use std::fs;

use nuncio_testkit::ReceivedSseEvent;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::{Client, call, last_text, play, turns};
use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::until;

#[tokio::test]
async fn turn_killed_mid_answer_keeps_finished_steps_and_drops_unfinished_text() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let session = server.aap().session("script", &[("add", true)]).await;
    server.aap().say(&session, "hello").await;
    let script = json!([
        [{"thinking": "sum"}, call("c1", "add", json!({"a": 1, "b": 2}))],
        [{"text": "half a sentence "}, {"sleep": 600_000}, {"text": "never said"}],
    ]);
    let mut live = server.aap().stream(&session, script.clone()).await;
    live.until("text_delta").await;
    server.kill9();

    let server = home.start();
    let (status, info) = server.aap().get(&format!("/sessions/{session}")).await;
    assert_eq!((status, &info["sessionId"]), (200, &json!(session)));
    let history = server.aap().history(&session).await;
    assert_eq!(roles(&history), ["user", "assistant", "user", "assistant", "tool"]);
    assert_eq!(history[2], play(&script));
    assert_eq!(history[4], json!({"role": "tool", "toolCallId": "c1", "content": "3"}));
    let events = server.aap().events(&session).await;
    assert_eq!(names(&events), ["turn_start", "thinking_delta", "tool_call", "tool_result", "turn_stop"]);
    assert_interrupted(&events);
    // A client that resumes after an unknown event id gets at least the last event of the stored stream.
    for (seen, count) in [("2.0", 4), ("2.1", 1), ("2.4", 1), ("2.5", 1), ("2.400", 1), (&events[2].id, 2)] {
        let resumed = server.aap().events_behind(&session, seen).await;
        assert_eq!(resumed, events[events.len() - count..], "behind {seen}");
    }
    assert!(server.aap().events_behind(&session, &events[4].id).await.is_empty());
    let records = home.audit();
    assert_eq!((records.len(), &records[0]["outcome"]["result"]), (1, &json!("completed")));
    assert_session_continues(&server.aap(), &session).await;
}

#[tokio::test]
async fn tool_interrupted_by_a_kill_is_reported_and_not_run_again() {
    let home = TestAgentFolder::with_agent(&format!(
        "{SCRIPTED}{}{}",
        shell_tool("hold", "echo $$ >> started; exec sleep 600"),
        shell_tool("quick", "echo done"),
    ));
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("hold", true), ("quick", true)]).await;
    let script = json!([[call("c1", "hold", json!({"x": 1})), call("c2", "quick", json!({}))], [{"text": "over"}]]);
    let body = json!({"messages": [play(&script)]});
    let send = |client: &Client| {
        client.request(reqwest::Method::POST, &turns(&session)).header("Idempotency-Key", "once").json(&body).send()
    };
    let turn = tokio::spawn(send(&client));
    let started = home.path("started");
    let orphan = until("the tool has started", async || OrphanProcess::in_file(&started)).await;
    until("the other tool has answered", async || (client.history(&session).await.len() == 3).then_some(())).await;
    server.kill9();
    assert!(turn.await.unwrap().is_err(), "the answer never came");

    let server = home.start();
    let client = server.aap();
    let history = client.history(&session).await;
    assert_eq!(roles(&history), ["user", "assistant", "tool", "tool"]);
    assert_eq!(history[2]["toolCallId"], "c1");
    assert!(history[2]["content"].as_str().unwrap().contains("the server stopped while it ran"), "{}", history[2]);
    assert_eq!(history[3], json!({"role": "tool", "toolCallId": "c2", "content": "done"}));
    let events = client.events(&session).await;
    assert_eq!(names(&events), ["turn_start", "tool_call", "tool_call", "tool_result", "tool_result", "turn_stop"]);
    assert_interrupted(&events);

    let records = home.audit();
    let of = |tool: &str| records.iter().find(|record| record["tool"] == tool).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(of("hold")["outcome"], json!({"result": "failed", "code": "interrupted"}));
    assert_eq!(of("hold")["decision"], json!({"verdict": "allowed", "by": ["policy"]}));
    assert!(of("hold")["started_at"].is_string());
    assert_eq!(of("quick")["outcome"], json!({"result": "completed"}));

    // A request repeated with the same idempotency key gets the interrupted turn, and runs nothing.
    let again: Value = send(&client).await.unwrap().json().await.unwrap();
    assert_eq!((&again["stopReason"], &again["error"]["code"]), (&json!("error"), &json!("interrupted")));
    assert_eq!(client.history(&session).await, history);
    assert_eq!(fs::read_to_string(&started).unwrap().lines().count(), 1);
    assert_session_continues(&client, &session).await;
    drop(orphan);
}

#[tokio::test]
async fn permitted_calls_at_a_kill_are_reported_as_interrupted_or_not_run() {
    let home =
        TestAgentFolder::with_agent(&format!("{SCRIPTED}{}", shell_tool("hold", "echo $$ >> started; exec sleep 600")));
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("hold", false)]).await;
    let turn = client
        .play(&session, json!([[call("c1", "hold", json!({})), call("c2", "hold", json!({}))], [{"text": "over"}]]))
        .await;
    assert_eq!(turn["stopReason"], "tool_use");
    let grants = ["c1", "c2"].map(|id| json!({"role": "tool_permission", "toolCallId": id, "granted": true}));
    let body = json!({"messages": grants});
    let (path, sender) = (turns(&session), client.clone());
    let turn = tokio::spawn(async move { sender.try_post(&path, &body).await });
    let started = home.path("started");
    let _orphan = until("the tool has started", async || OrphanProcess::in_file(&started)).await;
    server.kill9();
    assert!(turn.await.unwrap().is_err(), "the answer never came");

    let server = home.start();
    let client = server.aap();
    let history = client.history(&session).await;
    assert_eq!(roles(&history), ["user", "assistant", "tool", "tool"]);
    let result_of =
        |id: &str| history.iter().find(|message| message["toolCallId"] == id).unwrap()["content"].to_string();
    assert!(result_of("c1").contains("may or may not have had an effect"), "{}", result_of("c1"));
    assert!(result_of("c2").contains("not run"), "{}", result_of("c2"));
    assert_interrupted(&client.events(&session).await);
    let records = home.audit();
    assert_eq!(records.len(), 2, "what began and what never did: {records:?}");
    assert_eq!(records[0]["outcome"], json!({"result": "failed", "code": "interrupted"}));
    assert_eq!(records[1]["outcome"], json!({"result": "not_run"}));
    assert_session_continues(&client, &session).await;
}

#[tokio::test]
async fn restart_answers_interrupted_calls_even_if_a_call_id_was_used_in_an_earlier_turn() {
    let home = TestAgentFolder::with_agent(&format!(
        "{SCRIPTED}{}{}",
        shell_tool("hold", "echo $$ >> started; exec sleep 600"),
        shell_tool("quick", "echo done"),
    ));
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("hold", true), ("quick", true)]).await;
    client.play(&session, json!([[call("c1", "quick", json!({}))], [{"text": "over"}]])).await;
    // The second call waits for permission, so it has not started when the server is killed during the first.
    let script = json!([[call("c2", "hold", json!({})), call("c1", "quick", json!({}))], [{"text": "over"}]]);
    let untrusted = json!({"tools": [{"name": "hold", "trust": true}, {"name": "quick", "trust": false}]});
    let body = json!({"messages": [play(&script)], "agent": untrusted});
    let (path, sender) = (turns(&session), client.clone());
    let turn = tokio::spawn(async move { sender.try_post(&path, &body).await });
    let started = home.path("started");
    let _orphan = until("the tool has started", async || OrphanProcess::in_file(&started)).await;
    server.kill9();
    assert!(turn.await.unwrap().is_err(), "the answer never came");

    let server = home.start();
    let history = server.aap().history(&session).await;
    assert_eq!(roles(&history[4..]), ["user", "assistant", "tool", "tool"], "both calls are answered: {history:#?}");
    assert_interrupted(&server.aap().events(&session).await);
    assert_session_continues(&server.aap(), &session).await;
}

#[tokio::test]
async fn pending_call_survives_a_kill_and_can_be_permitted() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let session = server.aap().session("script", &[("add", false)]).await;
    let script = json!([[call("c1", "add", json!({"a": 2, "b": 3}))], [{"echo": "results"}]]);
    assert_eq!(server.aap().play(&session, script).await["stopReason"], "tool_use");
    server.kill9();

    let server = home.start();
    let granted = json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}]);
    let answer = server.aap().turn(&session, granted).await;
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(last_text(answer["messages"].as_array().unwrap()), r#"["5"]"#);
}

/// A tool's process that outlived its server; killed at the end of the test.
struct OrphanProcess(Pid);

impl OrphanProcess {
    fn in_file(path: &std::path::Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let number = text.strip_suffix('\n')?.lines().next()?.parse().ok()?;
        Pid::from_raw(number).map(Self)
    }
}

impl Drop for OrphanProcess {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

async fn assert_session_continues(client: &Client, session: &str) {
    let answer = client.say(session, "still there?").await;
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(last_text(answer["messages"].as_array().unwrap()), "You said: still there?");
}

fn assert_interrupted(events: &[ReceivedSseEvent]) {
    let stop = events.last().unwrap();
    assert_eq!(stop.event, "turn_stop");
    assert_eq!(
        (&stop.data["stopReason"], &stop.data["error"]["code"]),
        (&json!("error"), &json!("interrupted")),
        "{}",
        stop.raw
    );
}

fn roles(history: &[Value]) -> Vec<&str> {
    history.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

fn names(events: &[ReceivedSseEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event.as_str()).collect()
}
