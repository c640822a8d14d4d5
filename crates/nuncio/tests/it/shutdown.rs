//! Shutdown: running work may finish, nothing new begins, and work over the time limit is ended and stored.

use std::fs;

use nuncio_testkit::ReceivedSseEvent;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, call, play, turns, user};
use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::until;

/// Shell line of a tool that answers once a file named `go` exists.
const GATE: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo went";

fn gated() -> TestAgentFolder {
    TestAgentFolder::with_agent(&format!("{SCRIPTED}{}", shell_tool("gate", GATE)))
}

#[tokio::test]
async fn graceful_stop_finishes_running_turns_and_refuses_new_ones() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = gated();
        let server = home.start();
        let client = server.aap();
        let session = client.session("script", &[("gate", true)]).await;
        let other = client.session("script", &[]).await;
        let live = client.stream(&session, json!([[call("c1", "gate", json!({}))], [{"text": "all done"}]])).await;
        until("the tool runs", async || home.path("begun").exists().then_some(())).await;

        server.signal(signal);
        let refused = until("new turns are refused", async || refusal(&client, &other).await).await;
        if let Some(body) = refused {
            assert_eq!(body["code"], "shutting_down");
        }
        fs::write(home.path("go"), "").unwrap();
        let events = live.rest().await;
        assert_eq!(stop_of(&events)["stopReason"], "end_turn", "{:?}", stop_of(&events));
        assert!(events.iter().any(|event| event.event == "tool_result" && event.data["content"] == "went"));
        let (status, stderr) = server.wait_for_end();
        assert_eq!(status, Some(0), "{stderr}");

        let server = home.start();
        assert_eq!(server.aap().history(&session).await.len(), 4);
    }
}

#[tokio::test]
async fn turn_over_the_shutdown_limit_ends_with_an_error_and_is_stored() {
    let home = gated();
    let server = home.serve().env("NUNCIO_LIMITS_SHUTDOWN_SECONDS", "1").start();
    let client = server.aap();
    let speaks = client.session("script", &[]).await;
    let mut speaking =
        client.stream(&speaks, json!([[{"text": "so far "}, {"sleep": 600_000}, {"text": "never"}]])).await;
    speaking.until("text_delta").await;
    let works = client.session("script", &[("gate", true)]).await;
    let working = client.stream(&works, json!([[call("c1", "gate", json!({}))], [{"text": "never"}]])).await;
    until("the tool runs", async || home.path("begun").exists().then_some(())).await;

    server.terminate();
    for live in [speaking, working] {
        let events = live.rest().await;
        assert_eq!(stop_of(&events)["stopReason"], "error");
        assert_eq!(stop_of(&events)["error"]["code"], "shutting_down", "{:?}", stop_of(&events));
    }
    let (status, stderr) = server.wait_for_end();
    assert_eq!(status, Some(0), "{stderr}");

    let server = home.start();
    let client = server.aap();
    for session in [&speaks, &works] {
        assert_eq!(stop_of(&client.events(session).await)["error"]["code"], "shutting_down");
    }
    let history = client.history(&works).await;
    assert_eq!(history.len(), 3, "{history:?}");
    assert_eq!((&history[2]["role"], &history[2]["toolCallId"]), (&json!("tool"), &json!("c1")));
    let records = home.audit();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["outcome"]["result"], "failed");
    assert_eq!(client.say(&works, "and now?").await["stopReason"], "end_turn");
}

#[tokio::test]
async fn second_stop_signal_ends_the_server_without_waiting_for_turns() {
    let home = gated();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[]).await;
    let mut live = client.stream(&session, json!([[{"text": "so far "}, {"sleep": 600_000}]])).await;
    live.until("text_delta").await;
    server.terminate();
    until("it is stopping", async || refusal(&client, &session).await).await;
    server.terminate();
    let (status, stderr) = server.wait_for_end();
    assert_eq!(status, Some(143), "{stderr}");

    let server = home.start();
    assert_eq!(stop_of(&server.aap().events(&session).await)["error"]["code"], "interrupted");
}

async fn refusal(client: &Client, session: &str) -> Option<Option<Value>> {
    // A client that comes during the shutdown needs a new connection.
    let fresh = client.reconnected();
    match fresh.try_post(&turns(session), &json!({"messages": [user("too late?")]})).await {
        Ok((200 | 409, _)) => None,
        Ok((503, body)) => Some(Some(body)),
        Ok((status, body)) => panic!("{status} {body}"),
        Err(_) => Some(None),
    }
}

fn stop_of(events: &[ReceivedSseEvent]) -> &Value {
    let stop = events.last().unwrap();
    assert_eq!(stop.event, "turn_stop");
    &stop.data
}

#[tokio::test]
async fn graceful_stop_finishes_a_turn_whose_client_disconnected() {
    let home = gated();
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[("gate", true)]).await;
    let body = json!({"stream": "delta", "messages": [play(&json!([[call("c1", "gate", json!({}))], [{"text": "all done"}]]))]});
    let request = client.request(reqwest::Method::POST, &turns(&session)).json(&body);
    drop(request.send().await.unwrap());
    until("the tool runs", async || home.path("begun").exists().then_some(())).await;
    server.terminate();
    until("it is stopping", async || refusal(&client, &session).await).await;
    fs::write(home.path("go"), "").unwrap();
    assert_eq!(server.wait_for_end().0, Some(0));
    let server = home.start();
    assert_eq!(stop_of(&server.aap().events(&session).await)["stopReason"], "end_turn");
}
