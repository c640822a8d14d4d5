//! Turns: concurrency, cancellation, and the state after a failed or interrupted turn.

use std::collections::BTreeMap;
use std::time::Duration;

use nuncio_core::audit::AuditOutcome;
use nuncio_core::ids::OptionName;
use nuncio_core::message::Message;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::session::StoredOptionValue;
use nuncio_core::turn::{StreamMode, TurnInput};
use nuncio_engine::Caller;
use nuncio_engine::converse::{PermissionResponder, SessionSettingsPatch, TurnRequest};
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_testkit::{AapClient, Gateway, ManualClock, Method, eventually};
use serde_json::{Value, json};

use crate::agents::{
    DESK, call, call_once, count, desk, echo, gone, held, held_pid, messages, release, result_of, runs, tool,
};

const PAUSE: Duration = Duration::from_secs(7);

async fn start(tools: &[String]) -> Gateway {
    Gateway::builder().agent(DESK, &desk(tools)).start().await
}

/// Sends a turn request, optionally with an idempotency key.
async fn post_turn(aap: &AapClient, session: &str, idempotency: Option<&str>, body: &Value) -> (u16, String) {
    let mut request = aap.request(Method::POST, &format!("/sessions/{session}/turns")).json(body);
    if let Some(key) = idempotency {
        request = request.header("Idempotency-Key", key);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

fn playing(script: &Value) -> Value {
    json!({"messages": [{"role": "user", "content": json!({"script": script}).to_string()}]})
}

#[tokio::test]
async fn tool_calls_of_a_step_run_concurrently_and_report_in_order() {
    // The calls wait for each other, and the first ends only after the second.
    let gateway = start(&[
        tool("left", "mkfifo pipe 2>/dev/null; cat pipe; printf ' and left'", ""),
        tool("right", "mkfifo pipe 2>/dev/null; printf right > pipe; printf right", ""),
    ])
    .await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("left", true), ("right", true)]).await;
    let script = json!([[call("c1", "left", json!({})), call("c2", "right", json!({}))], [{"text": "done"}]]);
    let events = aap.stream(&session, "message", script).await.rest().await;
    let told: Vec<_> = events.iter().map(|event| (event.event.as_str(), event.data["toolCallId"].as_str())).collect();
    assert_eq!(
        told,
        [
            ("turn_start", None),
            ("tool_call", Some("c1")),
            ("tool_call", Some("c2")),
            ("tool_result", Some("c1")),
            ("tool_result", Some("c2")),
            ("text", None),
            ("turn_stop", None),
        ]
    );
    assert_eq!(events[3].data["content"], "right and left");
    let history = aap.history(&session).await;
    assert_eq!((&history[2]["toolCallId"], &history[3]["toolCallId"]), (&json!("c1"), &json!("c2")));
}

#[tokio::test]
async fn cancelling_a_turn_kills_its_program_and_child_processes() {
    let gateway =
        start(&[tool("family", "sleep 600 & echo $! > child.new; mv child.new child.pid; wait", ""), held("")]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("family", true), ("held", true)]).await;
    let script = json!([[call("c1", "held", json!({})), call("c2", "family", json!({}))], [{"text": "never"}]]);
    let mut stream = aap.stream(&session, "delta", script).await;
    let parent = held_pid(&gateway).await;
    let file = gateway.file(DESK, "child.pid");
    let child: u32 =
        eventually("the child runs", async || std::fs::read_to_string(&file).ok()?.trim().parse().ok()).await;

    let stop = aap.cancel(&session).await;
    assert_eq!((&stop["stopReason"], &stop["cancelled"]), (&json!("end_turn"), &json!(true)));
    gone(parent).await;
    gone(child).await;
    let told = stream.up_to("turn_stop").await;
    assert_eq!(told.last().unwrap().data, stop, "every reader receives the same stop event");
    for call in ["c1", "c2"] {
        let said = result_of(&aap.history(&session).await, call).clone();
        assert!(said.as_str().unwrap().contains("cancelled"), "{said}");
    }
    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 2);
    assert!(audit.iter().all(|record| matches!(record.outcome, AuditOutcome::Failed { .. })), "{audit:#?}");
    assert_eq!(aap.say(&session, "hello").await["stopReason"], "end_turn");
    let (status, body) = aap.post(&format!("/sessions/{session}/cancel"), json!({})).await;
    assert_eq!((status, &body["code"]), (404, &json!("turn_not_found")), "no turn is running any more");
}

#[tokio::test]
async fn text_before_a_cancel_stays_in_the_history() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let script = json!([[{"text": "so far "}, {"sleep": 7000}, {"text": "and no further"}]]);
    let mut stream = aap.stream(&session, "delta", script).await;
    clock.wait_for_sleeper(PAUSE).await;
    aap.cancel(&session).await;
    stream.up_to("turn_stop").await;
    let history = aap.history(&session).await;
    assert_eq!(history[1], json!({"role": "assistant", "content": [{"type": "text", "text": "so far "}]}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn second_concurrent_turn_of_a_session_is_refused() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[count("")])).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", true)]).await;
    let body = playing(&json!([[call("c1", "count", json!({}))], [{"sleep": 7000}]]));
    let (answers, mut answered) = tokio::sync::mpsc::channel(8);
    for _ in 0..8 {
        let (aap, session, body, answers) = (aap.clone(), session.clone(), body.clone(), answers.clone());
        tokio::spawn(async move { answers.send(post_turn(&aap, &session, None, &body).await).await.unwrap() });
    }
    // The accepted turn waits for the clock, so the refused requests end first.
    for _ in 0..7 {
        let (status, text) = answered.recv().await.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &body["code"]), (409, &json!("turn_running")));
    }
    clock.pass(PAUSE).await;
    assert_eq!(answered.recv().await.unwrap().0, 200);
    assert_eq!(runs(&gateway), 1);
    let users = aap.history(&session).await.into_iter().filter(|message| message["role"] == "user").count();
    assert_eq!(users, 1, "refused turns store no message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_concurrent_equal_requests_begin_one_turn() {
    let gateway = start(&[count("")]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", true)]).await;
    for mode in ["none", "delta"] {
        let mut body = playing(&json!([[call("c1", "count", json!({}))], [{"text": "counted it"}]]));
        body["stream"] = mode.into();
        let before = (runs(&gateway), aap.history(&session).await.len());
        let requests: Vec<_> = (0..16)
            .map(|_| {
                let (aap, session, body) = (aap.clone(), session.clone(), body.clone());
                tokio::spawn(async move { post_turn(&aap, &session, Some(mode), &body).await })
            })
            .collect();
        let mut answers = Vec::new();
        for request in requests {
            answers.push(request.await.unwrap());
        }
        assert_eq!(answers[0].0, 200, "{}", answers[0].1);
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
        assert_eq!((runs(&gateway), aap.history(&session).await.len()), (before.0 + 1, before.1 + 4));

        // A request repeated after the turn gets the same response.
        assert_eq!(post_turn(&aap, &session, Some(mode), &body).await, answers[0]);
        let other = playing(&json!([[{"text": "something else"}]]));
        let (status, text) = post_turn(&aap, &session, Some(mode), &other).await;
        assert_eq!(status, 422, "{text}");
    }
    assert_eq!(runs(&gateway), 2);
    let data = gateway.stop().await;
    let next = Gateway::builder().agent(DESK, &desk(&[count("")])).data(data).start().await;
    let body = playing(&json!([[call("c1", "count", json!({}))], [{"text": "counted it"}]]));
    let mut same = body.clone();
    same["stream"] = "none".into();
    assert_eq!(post_turn(&next.aap(), &session, Some("none"), &same).await.0, 200, "also after a restart");
    assert_eq!(runs(&next), 0);
    assert_eq!(post_turn(&next.aap(), &session, Some("none"), &body).await.0, 422, "the body must be identical");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_concurrent_equal_requests_create_one_session() {
    let gateway = start(&[]).await;
    let requests: Vec<_> = (0..16)
        .map(|_| {
            let request = gateway.aap().request(Method::POST, "/sessions").header("Idempotency-Key", "k");
            tokio::spawn(async move {
                let response = request.json(&json!({"agent": {"name": DESK}})).send().await.unwrap();
                (response.status().as_u16(), response.text().await.unwrap())
            })
        })
        .collect();
    let mut answers = BTreeMap::new();
    for request in requests {
        *answers.entry(request.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(answers.into_values().collect::<Vec<_>>(), [16]);
    assert_eq!(gateway.aap().get("/sessions").await.1["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn turn_continues_after_its_client_disconnects() {
    let gateway = start(&[held("")]).await;
    let session = {
        let aap = gateway.aap();
        let session = aap.session(DESK, &[("held", true)]).await;
        let script = json!([[{"text": "one moment"}, call("c1", "held", json!({}))], [{"echo": "results"}]]);
        let mut stream = aap.stream(&session, "delta", script).await;
        stream.up_to("tool_call").await;
        session
    };
    held_pid(&gateway).await;
    release(&gateway, "held.gate", "still here").await;
    let aap = gateway.aap();
    let told = aap.resume(&session, "message", None).await.rest().await;
    let names: Vec<_> = told.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(names, ["turn_start", "text", "tool_call", "tool_result", "text", "turn_stop"]);
    assert_eq!(aap.history(&session).await.last().unwrap()["content"][0]["text"], "[\"still here\"]");
}

#[tokio::test]
async fn deleting_a_session_stops_its_running_turn() {
    let gateway = start(&[held(""), echo()]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("held", true)]).await;
    let mut stream = aap.stream(&session, "delta", call_once("c1", "held", json!({}))).await;
    let pid = held_pid(&gateway).await;
    assert_eq!(aap.delete(&format!("/sessions/{session}")).await, (204, Value::Null));
    let told = stream.up_to("turn_stop").await;
    assert_eq!(told.last().unwrap().data["cancelled"], json!(true));
    gone(pid).await;
    for path in ["", "/history?type=full", "/stream"] {
        assert_eq!(aap.get(&format!("/sessions/{session}{path}")).await.0, 404, "{path}");
    }
    assert_eq!(aap.delete(&format!("/sessions/{session}")).await.0, 404, "a second time");
    assert_eq!(aap.get("/sessions").await.1, json!({"sessions": []}));
    assert_eq!(gateway.audit().await.len(), 1, "the finished call is recorded");
    gateway.order(nuncio_server::admin::AdminCommand::AuditVerify).await.unwrap();
}

#[tokio::test]
async fn every_reader_of_a_turn_gets_the_same_bytes() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true)]).await;
    let pause = json!({"sleep": 7000});
    let script = json!([
        [{"thinking": "so many readers"}, pause, call("c1", "echo", json!({"ü": 1}))],
        [{"deltas": 3000, "delta": "слово "}, pause, {"text": "the end"}],
    ]);
    let mut readers = vec![tokio::spawn(aap.stream(&session, "delta", script).await.rest_raw())];
    for _ in 0..2 {
        clock.wait_for_sleeper(PAUSE).await;
        for _ in 0..8 {
            readers.push(tokio::spawn(aap.resume(&session, "delta", None).await.rest_raw()));
        }
        clock.advance(PAUSE);
    }
    let mut read = Vec::new();
    for reader in readers {
        read.push(reader.await.unwrap());
    }
    assert!(read[0].len() > 100_000 && read[0].ends_with("}\n\n"), "{}", read[0].len());
    assert!(read.iter().all(|bytes| *bytes == read[0]));
}

#[tokio::test]
async fn brain_that_fails_leaves_the_session_usable() {
    let gateway = start(&[count("")]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", true)]).await;
    let script = json!([[call("c1", "count", json!({}))], [{"text": "half a sen"}, {"throw": "out of ideas"}]]);
    let answer = aap.play(&session, script).await;
    assert_eq!(answer["stopReason"], "error");
    assert_eq!(answer["error"], json!({"code": "brain_failed", "message": "out of ideas"}));
    let history = aap.history(&session).await;
    assert_eq!(&history[1..], messages(&answer), "finished steps are kept, unfinished text is dropped");
    assert_eq!(history.len(), 3);
    assert_eq!(aap.say(&session, "never mind").await["messages"][0]["content"][0]["text"], "You said: never mind");
    // A stream has the failure once, at its end.
    let events = aap.stream(&session, "delta", json!([[{"text": "a"}, {"throw": "again"}]])).await.rest().await;
    let stops = events.iter().filter(|event| event.event == "turn_stop").count();
    assert_eq!((stops, events.last().unwrap().data["stopReason"].as_str()), (1, Some("error")));
}

#[tokio::test]
async fn turn_response_equals_the_messages_stored_in_the_history() {
    let gateway = start(&[echo()]).await;
    let aap = gateway.aap();
    for script in [
        json!([[{"thinking": "hm"}, {"text": "a"}, {"thinking": "ja"}, {"text": "b"}]]),
        json!([[{"text": "a"}, call("c1", "echo", json!({})), call("c2", "none", json!({}))], [{"text": "c"}]]),
        json!([[{"text": "cut"}, {"stop": "max_tokens"}]]),
        json!([[{"text": "no"}, {"stop": "refusal"}]]),
        json!([[call("c1", "echo", json!({})), {"stop": "max_tokens"}]]),
        json!([[{"stop": "tool_use"}, {"text": "wants tools, calls none"}]]),
    ] {
        let session = aap.session(DESK, &[("echo", true)]).await;
        let answer = aap.play(&session, script.clone()).await;
        assert_eq!(messages(&answer), &aap.history(&session).await[1..], "{script}: {answer}");
    }
}

#[tokio::test]
async fn response_after_a_brain_error_equals_the_stored_history() {
    let gateway = start(&[]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let answer = aap.play(&session, json!([[{"text": "half"}, {"stop": "error"}]])).await;
    assert_eq!(answer["stopReason"], "error");
    assert_eq!(messages(&answer), &aap.history(&session).await[1..]);
}

#[tokio::test]
async fn response_to_an_empty_brain_answer_equals_the_stored_history() {
    let gateway = start(&[]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let answer = aap.play(&session, json!([[]])).await;
    assert_eq!(messages(&answer), &aap.history(&session).await[1..]);
}

#[tokio::test]
async fn text_between_tool_calls_is_stored_in_the_order_of_the_response() {
    let gateway = start(&[echo()]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true)]).await;
    let step = json!([{"text": "a"}, call("c1", "echo", json!({})), {"text": "b"}, call("c2", "echo", json!({}))]);
    let answer = aap.play(&session, json!([step, []])).await;
    assert_eq!(messages(&answer)[0], aap.history(&session).await[1]);
}

#[tokio::test]
async fn new_user_message_closes_pending_calls_without_running_them() {
    let gateway = start(&[count("")]).await;
    let aap = gateway.aap();
    let mine = json!([{"name": "mine", "description": "", "parameters": {"type": "object"}}]);
    let request = json!({"agent": {"name": DESK, "tools": [{"name": "count"}]}, "tools": mine});
    let session = aap.session_with(request).await;
    let script = json!([[call("c1", "count", json!({})), call("c2", "mine", json!({}))], []]);
    assert_eq!(aap.play(&session, script).await["stopReason"], "tool_use");
    let answer = aap.play(&session, json!([[{"echo": "roles"}]])).await;
    assert_eq!(answer["messages"][0]["content"][0]["text"], "[\"user\",\"assistant\",\"tool\",\"tool\",\"user\"]");
    let history = aap.history(&session).await;
    for call in ["c1", "c2"] {
        assert_eq!(result_of(&history, call), "Tool call not run: the conversation continued without an answer to it");
    }
    let late = json!([
        {"role": "tool_permission", "toolCallId": "c1", "granted": true},
        {"role": "tool", "toolCallId": "c2", "content": "late"},
    ]);
    let (status, body) = aap.turn(&session, late).await;
    assert_eq!((status, &body["code"]), (400, &json!("bad_answer")));
    assert_eq!(runs(&gateway), 0);
    assert_eq!(aap.history(&session).await, history);
}

#[tokio::test]
async fn answers_that_do_not_match_the_pending_calls_are_refused_and_run_nothing() {
    let gateway = start(&[count("")]).await;
    let aap = gateway.aap();
    let mine = json!([{"name": "mine", "description": "", "parameters": {"type": "object"}}]);
    let seed = json!([
        {"role": "user", "content": "earlier"},
        {"role": "assistant", "content": [{"type": "tool_use", "toolCallId": "seed", "name": "count", "input": {}}]},
    ]);
    let request = json!({"agent": {"name": DESK, "tools": [{"name": "count"}]}, "tools": mine, "messages": seed});
    let session = aap.session_with(request).await;
    let yes = |id: &str| json!({"role": "tool_permission", "toolCallId": id, "granted": true});
    let result = |id: &str| json!({"role": "tool", "toolCallId": id, "content": "done"});
    let user = json!({"role": "user", "content": "hi"});

    let refused = async |name: &str, answers: Value| {
        let before = aap.history(&session).await;
        let (status, body) = aap.turn(&session, answers).await;
        assert_eq!(status, 400, "{name}: {body}");
        assert!(["bad_answer", "bad_request"].contains(&body["code"].as_str().unwrap()), "{name}: {body}");
        assert_eq!(aap.history(&session).await, before, "{name}");
        assert_eq!(runs(&gateway), 0, "{name}");
    };
    refused("a call from the client's own history", json!([yes("seed")])).await;
    refused("no call is waiting", json!([result("c2")])).await;

    let script = json!([[call("c1", "count", json!({})), call("c2", "mine", json!({}))], [{"text": "done"}]]);
    assert_eq!(aap.play(&session, script).await["stopReason"], "tool_use");
    refused("no answer", json!([])).await;
    refused("only the first answer", json!([yes("c1")])).await;
    refused("only the second answer", json!([result("c2")])).await;
    refused("an answer twice", json!([yes("c1"), yes("c1"), result("c2")])).await;
    refused("one answer too many", json!([yes("c1"), result("c2"), result("c3")])).await;
    refused("with an answer to a call of the initial history", json!([yes("c1"), result("c2"), yes("seed")])).await;
    refused("a result for our tool", json!([result("c1"), result("c2")])).await;
    refused("a permission for the app's tool", json!([yes("c1"), yes("c2")])).await;
    refused("the kinds swapped", json!([result("c1"), yes("c2")])).await;
    refused("an unknown call", json!([yes("c1"), result("c9")])).await;
    refused("with a user message", json!([yes("c1"), result("c2"), user])).await;
    refused("a permission without a decision", json!([{"role": "tool_permission", "toolCallId": "c1"}, result("c2")]))
        .await;
    refused(
        "a permission that is neither true nor false",
        json!([{"role": "tool_permission", "toolCallId": "c1", "granted": "true"}, result("c2")]),
    )
    .await;

    let (status, answer) = aap.turn(&session, json!([yes("c1"), result("c2")])).await;
    assert_eq!((status, runs(&gateway)), (200, 1), "{answer}");
    let (status, body) = aap.turn(&session, json!([yes("c1"), result("c2")])).await;
    assert_eq!((status, &body["code"], runs(&gateway)), (400, &json!("bad_answer"), 1), "replayed");
}

#[tokio::test]
async fn permission_for_a_tool_disabled_in_the_same_request_runs_nothing() {
    let gateway = start(&[count("")]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", false)]).await;
    assert_eq!(aap.play(&session, call_once("c1", "count", json!({}))).await["stopReason"], "tool_use");
    let body = json!({
        "messages": [{"role": "tool_permission", "toolCallId": "c1", "granted": true}],
        "agent": {"tools": []},
    });
    let (status, answer) = aap.post(&format!("/sessions/{session}/turns"), body).await;
    assert_eq!((status, runs(&gateway)), (200, 0));
    assert_eq!(result_of(messages(&answer), "c1"), "Tool not found: count");
}

#[tokio::test]
async fn permission_for_a_removed_tool_runs_nothing_and_is_recorded() {
    let gateway = start(&[count(""), echo()]).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", false)]).await;
    assert_eq!(aap.play(&session, call_once("c1", "count", json!({}))).await["stopReason"], "tool_use");
    gateway.rewrite_agent(DESK, &desk(&[echo()]));
    eventually("the tool is gone", async || {
        let (_, meta) = aap.get("/meta").await;
        (!meta.to_string().contains("\"count\"")).then_some(())
    })
    .await;
    let grant = json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}]);
    let (status, answer) = aap.turn(&session, grant).await;
    assert_eq!((status, runs(&gateway)), (200, 0));
    assert_eq!(result_of(messages(&answer), "c1"), "Tool not found: count");
    assert_eq!(gateway.audit().await.last().map(|record| &record.outcome), Some(&AuditOutcome::NotRun));
}

#[tokio::test]
async fn secret_option_is_stored_sealed_and_never_returned() {
    let option = "[[option]]\nname = \"apiKey\"\ntype = \"secret\"\n".to_owned();
    let agent = desk(&[option]);
    let gateway = Gateway::builder().agent(DESK, &agent).start().await;
    let aap = gateway.aap();
    let secret = "sk-schlüssel-4711-never-in-clear";
    let session = aap.session_with(json!({"agent": {"name": DESK, "options": {"apiKey": secret}}})).await;
    let redacted = json!({"apiKey": "***"});
    let shown = aap.get(&format!("/sessions/{session}")).await.1;
    assert_eq!(shown["agent"]["options"], redacted);
    assert_eq!(aap.get("/sessions").await.1["sessions"][0]["agent"]["options"], redacted);
    let sealed = opened(&gateway, &session).await;
    assert_eq!(sealed.1, secret);

    // The masked value, sent back, keeps the secret.
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body["agent"] = shown["agent"].clone();
    assert_eq!(post_turn(&aap, &session, None, &body).await.0, 200);
    assert_eq!(opened(&gateway, &session).await, sealed);
    body["agent"] = json!({"options": {"apiKey": "another-sk-never-in-clear"}});
    assert_eq!(post_turn(&aap, &session, None, &body).await.0, 200);
    assert_eq!(opened(&gateway, &session).await.1, "another-sk-never-in-clear");

    let data = gateway.stop().await;
    for entry in std::fs::read_dir(data.path()).unwrap() {
        let file = entry.unwrap().path();
        let bytes = std::fs::read(&file).unwrap_or_default();
        let clear = bytes.windows(b"never-in-clear".len()).any(|bytes| bytes == b"never-in-clear");
        assert!(!clear, "{} holds it in clear", file.display());
    }
    let next = Gateway::builder().agent(DESK, &agent).data(data).start().await;
    assert_eq!(opened(&next, &session).await.1, "another-sk-never-in-clear");
    assert_eq!(next.aap().get(&format!("/sessions/{session}")).await.1["agent"]["options"], redacted);
}

/// The encrypted secret option of a session as stored, and its decrypted value.
async fn opened(gateway: &Gateway, session: &str) -> (String, String) {
    let kept = gateway.engine().conversations().session(&Caller::new(Principal::Local), session).await.unwrap();
    let Some(StoredOptionValue::Sealed(sealed)) = kept.settings.options.get(&OptionName::parse("apiKey").unwrap())
    else {
        panic!("the secret is not sealed");
    };
    let key = std::fs::read(gateway.data().join("secret.key")).unwrap();
    let cipher = SecretCipher::new(&key.try_into().unwrap());
    (sealed.clone(), cipher.open(&format!("{session}/apiKey"), sealed).unwrap())
}

#[tokio::test]
async fn recovery_closes_an_open_call_even_if_an_earlier_turn_used_its_id() {
    let clock = ManualClock::new();
    let agent = desk(&[echo(), tool("sign", "cat", "human_authorization = true")]);
    let gateway = Gateway::builder().agent(DESK, &agent).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true), ("sign", true)]).await;
    // This brain repeats the call id c1 in every turn.
    aap.play(&session, call_once("c1", "echo", json!({}))).await;
    let turn = tokio::spawn({
        let (aap, session) = (aap.clone(), session.clone());
        async move { aap.play(&session, call_once("c1", "sign", json!({}))).await }
    });
    gateway.question().await;
    let data = gateway.data_as_after_a_crash();
    turn.abort();
    let next = Gateway::builder().agent(DESK, &agent).clock(&clock).data(data).start().await;
    let history = next.aap().history(&session).await;
    let roles: Vec<_> = history.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]);
}

#[tokio::test]
async fn turn_request_dropped_while_it_begins_does_not_lock_the_session() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let aap = gateway.aap();
    let caller = Caller::new(Principal::Local);
    for polls in 1..=8 {
        let session = aap.session(DESK, &[]).await;
        let request = TurnRequest {
            input: TurnInput::User(Message::user("hello")),
            mode: StreamMode::None,
            settings: SessionSettingsPatch::default(),
            protocol: Protocol::Aap,
            prompts: PermissionResponder::App,
        };
        let mut begin = Box::pin(gateway.engine().conversations().begin_turn(&caller, &session, request, None));
        for _ in 0..polls {
            let hung_up = futures_util::poll!(begin.as_mut()).is_pending();
            if !hung_up {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(begin);
        eventually("another turn", async || {
            let (status, answer) = aap.turn(&session, json!([{"role": "user", "content": "again"}])).await;
            (status == 200).then_some(answer)
        })
        .await;
    }
}
