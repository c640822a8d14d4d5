//! Limits: requests, bodies, heads, time, steps and concurrent calls.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::{AuditDecision, AuditOutcome};
use nuncio_core::execution::TraceIds;
use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_engine::call::{ClientDecision, ToolCallOutcome, ToolCallRequest};
use nuncio_server::settings::LimitSettings;
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock, Method, RawHttpResponse, eventually};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::agents::{
    DESK, call, call_once, count, desk, echo, gone, held, held_pid, messages, release, result_of, runs, tool,
};

fn gateway(tools: &[String], limit: impl FnOnce(&mut LimitSettings)) -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(tools)).settings(|settings| limit(&mut settings.limits))
}

fn head(line: &str, more: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n")
}

fn post(path: &str, media: &str, body: &str) -> String {
    head(&format!("POST /aap{path}"), &format!("{media}Content-Length: {}\r\n", body.len())) + body
}

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn each_key_has_its_own_rate_limit() {
    let gateway = gateway(&[], |limits| limits.requests_per_minute = 3).start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    for _ in 0..3 {
        assert_eq!(ada.aap.get("/sessions").await.0, 200);
    }
    let response = ada.aap.request(Method::GET, "/sessions").send().await.unwrap();
    assert_eq!(response.status(), 429);
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(body["code"], "rate_limited");
    assert_eq!(bob.aap.get("/sessions").await.0, 200, "other callers are not limited");
    // Callers without a valid key are counted by their address, so guessing is slow too.
    let stranger = gateway.aap_with_key("nk_guess");
    let statuses =
        [stranger.get("/sessions").await.0, stranger.get("/sessions").await.0, gateway.aap().get("/sessions").await.0];
    assert_eq!(statuses, [401, 401, 401]);
    assert_eq!(stranger.get("/sessions").await.0, 429);
}

#[tokio::test]
async fn requests_without_credentials_do_not_use_up_the_rate_limit_of_sign_ins() {
    let gateway = gateway(&[], |limits| limits.requests_per_minute = 2).start().await;
    gateway.key(&[]).await;
    let status = async |line: &str, more: &str| gateway.raw(head(line, more)).await.unwrap().status;
    let plain = [(); 3].map(|()| ("GET /aap/sessions", ""));
    let signed = "X-Signature: v2=00\r\nX-Signature-Timestamp: 1\r\nX-Signature-Nonce: 12345678\r\n";
    let mut statuses = Vec::new();
    for (line, more) in plain {
        statuses.push(status(line, more).await);
    }
    assert_eq!(statuses, [401, 401, 429]);
    for (line, more) in [
        ("GET /aap/sessions", signed),
        ("GET /console/tasks", ""),
        ("POST /a2h/auth/enroll", JSON),
        ("GET /a2h/ws/human", ""),
    ] {
        let statuses = [status(line, more).await, status(line, more).await, status(line, more).await];
        assert!(statuses[0] != 429 && statuses[1] != 429, "{line}: {statuses:?}");
        assert_eq!(statuses[2], 429, "{line} has an end too");
    }
    assert_eq!(status("GET /healthz", "").await, 200);
}

#[tokio::test]
async fn local_requests_are_not_rate_limited() {
    let gateway = gateway(&[], |limits| limits.requests_per_minute = 1).start().await;
    for _ in 0..5 {
        assert_eq!(gateway.aap().get("/sessions").await.0, 200);
    }
}

#[tokio::test]
async fn oversized_body_is_refused_with_a_json_error_and_changes_nothing() {
    let gateway = gateway(&[], |limits| limits.body_bytes = 1000).start().await;
    let body = |text: usize| json!({"agent": {"name": DESK}, "x": "x".repeat(text)}).to_string();
    let fits = body(1000 - body(0).len());
    assert_eq!(fits.len(), 1000);
    assert_eq!(gateway.raw(post("/sessions", JSON, &fits)).await.unwrap().status, 201);
    for size in [1001, 5_000, 1_000_000] {
        let too_large = body(size - body(0).len());
        let answer = gateway.raw(post("/sessions", JSON, &too_large)).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"), "{size}");
    }
    // A body without a Content-Length is limited too.
    let chunks = format!("3e8\r\n{}\r\n", "x".repeat(1000)).repeat(2) + "0\r\n\r\n";
    let chunked = head("POST /aap/sessions", &format!("{JSON}Transfer-Encoding: chunked\r\n")) + &chunks;
    let answer = gateway.raw(chunked).await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    assert_eq!(gateway.aap().get("/sessions").await.1["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn slow_request_body_times_out() {
    let clock = ManualClock::new();
    let gateway = gateway(&[], |limits| limits.body_seconds = 20).clock(&clock).start().await;
    let session = gateway.aap().session(DESK, &[]).await;
    for path in ["/aap/sessions".to_owned(), format!("/aap/sessions/{session}/turns")] {
        let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
        let begun = head(&format!("POST {path}"), &format!("{JSON}Content-Length: 100\r\n")) + "{\"agent\":";
        stream.write_all(begun.as_bytes()).await.unwrap();
        clock.pass(Duration::from_secs(20)).await;
        let answer = RawHttpResponse::read(stream).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"), "{path}");
    }
    assert_eq!(gateway.aap().history(&session).await, [] as [Value; 0]);
}

#[tokio::test]
async fn truncated_request_body_changes_nothing() {
    let gateway = gateway(&[], |_| {}).start().await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let whole = json!({"agent": {"name": DESK}}).to_string();
    let begun = head("POST /aap/sessions", &format!("{JSON}Content-Length: {}\r\n", whole.len() + 1)) + &whole;
    stream.write_all(begun.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    if let Some(answer) = RawHttpResponse::read(stream).await {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    assert_eq!(gateway.aap().get("/sessions").await.1, json!({"sessions": []}));
}

#[tokio::test]
async fn malformed_too_deep_or_too_large_json_is_refused() {
    let gateway = gateway(&[], |_| {}).start().await;
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
    for (name, body) in [
        ("lists", deep("[", "]")),
        ("objects", deep("{\"a\":", "}")),
        ("never closed", "[".repeat(90_000)),
        ("deep inside", format!("{{\"agent\":{{\"name\":\"{DESK}\",\"x\":{}}}}}", deep("[", "]"))),
        ("empty", String::new()),
        ("not JSON", "agent=desk".to_owned()),
        ("two values", "{}{}".to_owned()),
        ("a lone surrogate", "{\"agent\":{\"name\":\"\\ud800\"}}".to_owned()),
        ("a number out of range", format!("{{\"agent\":1e{}}}", "9".repeat(400))),
        ("NaN", "{\"agent\":NaN}".to_owned()),
        ("a byte order mark", "\u{feff}{}".to_owned()),
    ] {
        let answer = gateway.raw(post("/sessions", JSON, &body)).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_json"), "{name}: {answer:?}");
    }
    for (name, item) in [("empty names", "{\"\":0},"), ("numbers", "0,"), ("brackets", "[],")] {
        let body = format!("[{}0]", item.repeat(100_000));
        let answer = gateway.raw(post("/sessions", JSON, &body)).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"), "{name}: {answer:?}");
    }
    let mut torn = post("/sessions", JSON, "{\"a\":\"..\"}").into_bytes();
    let end = torn.len();
    torn[end - 4..end - 2].copy_from_slice(b"\xff\xfe");
    assert_eq!(gateway.raw(torn).await.unwrap().code(), "bad_json", "not UTF-8");
    assert_eq!(gateway.aap().get("/meta").await.0, 200, "and the server is still there");
}

#[tokio::test]
async fn tool_arguments_nested_too_deeply_are_refused() {
    let gateway = gateway(&[count("")], |_| {}).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", true)]).await;
    let deep = (0..80).fold(json!(1), |inner, _| json!([inner]));
    let answer = aap.play(&session, call_once("c1", "count", json!({"deep": deep}))).await;
    let said = result_of(messages(&answer), "c1").as_str().unwrap();
    assert!(said.starts_with("Invalid arguments:") && said.contains("64 levels"), "{said}");
    assert_eq!(runs(&gateway), 0);
}

#[tokio::test]
async fn placeholder_of_malformed_arguments_is_refused_as_not_json() {
    let gateway = gateway(&[count("input = { type = \"object\", required = [\"a\"] }")], |_| {}).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", true)]).await;
    let answer = aap.play(&session, call_once("c1", "count", json!({"unreadable_arguments": "{\"a\": on"}))).await;
    let said = result_of(messages(&answer), "c1").as_str().unwrap();
    let expected =
        "Invalid arguments: they are not a JSON object, so the call did not run; call again with one JSON object";
    assert_eq!(said, expected);
    assert_eq!(runs(&gateway), 0);
}

#[tokio::test]
async fn oversized_request_head_is_refused() {
    let gateway = gateway(&[], |_| {}).start().await;
    let many = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect::<String>();
    let huge = format!("X-Huge: {}\r\n", "x".repeat(100_000));
    for (name, more) in [("many headers", many), ("a huge header", huge)] {
        let answer = gateway.raw(head("GET /aap/meta", &more)).await.unwrap();
        assert_eq!(answer.status, 431, "{name}: {answer:?}");
    }
    let long = gateway.raw(head(&format!("GET /aap/{}", "x".repeat(10_000)), "")).await.unwrap();
    assert_eq!((long.status, long.code().as_str()), (404, "not_found"));
    let endless = gateway.raw(head(&format!("GET /aap/{}", "x".repeat(100_000)), "")).await.unwrap();
    assert!((400..500).contains(&endless.status), "{endless:?}");
    assert_eq!(gateway.raw("\u{1}\u{2}\u{3} nonsense\r\n\r\n").await.unwrap().status, 400);
    assert_eq!(gateway.aap().get("/meta").await.0, 200, "and the server is still there");
}

/// Takes a real second: the time limit of a request head is enforced by the connection itself.
#[tokio::test]
async fn unfinished_request_head_times_out() {
    let gateway = gateway(&[], |limits| limits.header_seconds = 1).start().await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    stream.write_all(b"GET /aap/meta HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    let answer = RawHttpResponse::read(stream).await;
    assert!(answer.is_none_or(|answer| answer.status == 408), "the connection is closed");
}

#[tokio::test]
async fn body_without_json_content_type_is_refused() {
    let gateway = gateway(&[], |_| {}).start().await;
    let body = json!({"agent": {"name": DESK}}).to_string();
    for media in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: application/jsonp\r\n",
        "Content-Type: text/json-ish; application/json\r\n",
    ] {
        let answer = gateway.raw(post("/sessions", media, &body)).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"), "{media}");
    }
    for media in ["Content-Type: application/json; charset=utf-8\r\n", "Content-Type: Application/JSON\r\n"] {
        assert_eq!(gateway.raw(post("/sessions", media, &body)).await.unwrap().status, 201, "{media}");
    }
    assert_eq!(gateway.aap().get("/sessions").await.1["sessions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn calls_over_the_concurrency_limit_of_a_tool_are_queued() {
    // A second concurrent call would find the folder and fail.
    let alone = tool(
        "alone",
        "mkdir busy || exit 9; mkfifo \"$NAME\".gate; cat \"$NAME\".gate; rmdir busy",
        "input = { type = \"object\", properties = { name = { type = \"string\" } }, required = [\"name\"] }",
    )
    .replace("'''] }", "'''], env = { NAME = \"{{ args.name }}\" } }");
    let gateway = gateway(&[alone], |limits| limits.calls_per_tool = 1).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("alone", true)]).await;
    let script = json!([
        [call("c1", "alone", json!({"name": "a"})), call("c2", "alone", json!({"name": "b"}))],
        [{"text": "done"}],
    ]);
    let turn = tokio::spawn({
        let (aap, session) = (aap.clone(), session.clone());
        async move { aap.play(&session, script).await }
    });
    // The second call begins only after the first, which waits for the test, has ended.
    let running = eventually("one of them runs", async || {
        ["a", "b"].into_iter().find(|name| gateway.file(DESK, &format!("{name}.gate")).exists())
    })
    .await;
    for name in [running, if running == "a" { "b" } else { "a" }] {
        release(&gateway, &format!("{name}.gate"), "at last").await;
    }
    let answer = turn.await.unwrap();
    assert_eq!(result_of(messages(&answer), "c1"), "at last");
    assert_eq!(result_of(messages(&answer), "c2"), "at last");
}

#[tokio::test]
async fn queued_call_past_its_deadline_is_never_started() {
    let clock = ManualClock::new();
    let gateway =
        gateway(&[held("timeout_ms = 60000")], |limits| limits.calls_per_tool = 1).clock(&clock).start().await;
    let engine = gateway.engine();
    let (caller, served) = (Caller::new(Principal::Local), engine.agents().agent(DESK).unwrap());
    let (cancel, trace) = (CancellationToken::new(), TraceIds::default());
    let call = |id: &str, seconds: u64| ToolCallRequest {
        caller: &caller,
        protocol: Protocol::Skill,
        published: &served,
        id: CallId::parse(id).unwrap(),
        tool: ToolName::parse("held").unwrap(),
        arguments: Map::new(),
        offered: true,
        client: ClientDecision::NotAsked,
        turn: None,
        target: None,
        pending_insert: None,
        trace: &trace,
        on_start: None,
        deadline: engine.now().after(Duration::from_secs(seconds)),
        cancel: &cancel,
    };
    let first = engine.calls().call(call("first", 600));
    let rest = async {
        held_pid(&gateway).await;
        let waits = async {
            clock.pass(Duration::from_secs(5)).await;
        };
        let (second, ()) = tokio::join!(engine.calls().call(call("second", 5)), waits);
        release(&gateway, "held.gate", "done").await;
        second
    };
    let (first, second) = tokio::join!(first, rest);
    let code = |called| match called {
        ToolCallOutcome::Ended(ended) => ended.result.err().map(|failure| failure.code),
        ToolCallOutcome::AskClient => panic!("a call without a client asked one"),
    };
    assert_eq!((code(first.unwrap()), code(second.unwrap())), (None, Some(ErrorCode::ToolBusy)));
    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 2);
    assert_eq!(
        (audit[0].call.as_str(), &audit[0].outcome, audit[0].started_at),
        ("second", &AuditOutcome::NotRun, None)
    );
    assert_eq!(audit[0].decision, AuditDecision::Allowed { by: vec!["policy".into()] });
    assert_eq!((audit[1].call.as_str(), &audit[1].outcome), ("first", &AuditOutcome::Completed));
}

#[tokio::test]
async fn turn_over_the_step_limit_is_ended() {
    let gateway = gateway(&[count("")], |limits| limits.turn_steps = 3).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("count", true)]).await;
    let answer = aap.play(&session, json!([[call("c1", "count", json!({}))]])).await;
    assert_eq!((&answer["stopReason"], &answer["error"]["code"]), (&json!("error"), &json!("too_many_steps")));
    assert_eq!(runs(&gateway), 3);
    let history = aap.history(&session).await;
    assert_eq!(history.len(), 1 + 3 * 2, "finished steps stay in the history");
    assert_eq!(&history[1..], messages(&answer), "the turn returned the same messages");
    assert_eq!(aap.say(&session, "hello").await["stopReason"], "end_turn");
}

#[tokio::test]
async fn turn_over_its_time_limit_is_ended() {
    let clock = ManualClock::new();
    let gateway = gateway(&[echo()], |limits| limits.turn_seconds = 60).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true)]).await;
    let script =
        json!([[call("c1", "echo", json!({}))], [{"text": "and now "}, {"sleep": 300_000}, {"text": "never said"}]]);
    let mut stream = aap.stream(&session, "delta", script).await;
    stream.up_to("text_delta").await;
    clock.pass(Duration::from_secs(60)).await;
    let stop = stream.rest().await.pop().unwrap();
    assert_eq!((&stop.data["stopReason"], &stop.data["error"]["code"]), (&json!("error"), &json!("turn_deadline")));
    let history = aap.history(&session).await;
    assert_eq!(history.len(), 3, "text that was never finished is dropped: {history:?}");
    assert_eq!(result_of(&history, "c1"), "{}");
    assert_eq!(aap.say(&session, "hello").await["stopReason"], "end_turn");
}

#[tokio::test]
async fn tool_over_its_time_limit_is_stopped_and_the_turn_continues() {
    let clock = ManualClock::new();
    let gateway = gateway(&[held("timeout_ms = 5000")], |_| {}).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("held", true)]).await;
    let turn = aap.play(&session, call_once("c1", "held", json!({})));
    let time = async {
        let pid = held_pid(&gateway).await;
        clock.pass(Duration::from_secs(5)).await;
        pid
    };
    let (answer, pid) = tokio::join!(turn, time);
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(result_of(messages(&answer), "c1"), "Tool execution failed: it took longer than its time limit");
    gone(pid).await;
}

#[tokio::test]
async fn deadline_of_a_turn_stops_its_running_tools() {
    let clock = ManualClock::new();
    let gateway =
        gateway(&[held("timeout_ms = 600000")], |limits| limits.turn_seconds = 60).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("held", true)]).await;
    let turn = aap.play(&session, call_once("c1", "held", json!({})));
    let time = async {
        let pid = held_pid(&gateway).await;
        clock.pass(Duration::from_secs(60)).await;
        pid
    };
    let (answer, pid) = tokio::join!(turn, time);
    assert_eq!((&answer["stopReason"], &answer["error"]["code"]), (&json!("error"), &json!("turn_deadline")));
    gone(pid).await;
    assert_eq!(gateway.audit().await[0].outcome, AuditOutcome::Failed { code: ErrorCode::ToolTimeout });
}

#[tokio::test]
async fn idle_stream_sends_a_keep_alive_every_fifteen_seconds() {
    let clock = ManualClock::new();
    let gateway = gateway(&[], |_| {}).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let script = json!([[{"text": "hm "}, {"sleep": 40_000}, {"text": "yes"}]]);
    let mut stream = aap.stream(&session, "delta", script).await;
    stream.up_to("text_delta").await;
    for _ in 0..2 {
        clock.pass(Duration::from_secs(15)).await;
        let comment = stream.block().await.unwrap();
        assert!(comment.starts_with(':') && comment.ends_with("\n\n"), "{comment:?}");
    }
    clock.pass(Duration::from_secs(10)).await;
    let told: Vec<_> = stream.rest().await.into_iter().map(|event| event.event).collect();
    assert_eq!(told, ["text_delta", "turn_stop"]);
}

#[tokio::test]
async fn turn_with_brain_output_over_the_size_limit_is_ended() {
    let gateway = gateway(&[], |_| {}).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let answer = aap.play(&session, json!([[{"deltas": 80, "delta": "x".repeat(1_000_000)}]])).await;
    assert_eq!((&answer["stopReason"], &answer["error"]["code"]), (&json!("error"), &json!("turn_too_large")));
    assert_eq!(aap.say(&session, "hello").await["stopReason"], "end_turn");
}
