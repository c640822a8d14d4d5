//! Tools that are skills of other hosts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_engine::ports::Runner as _;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::test_http_server::{self, ReceivedRequest};
use crate::test_runners::{RunnersFixture, failure_text, tool, unavailable_text};

/// Test host with one skill, `a/b`, that records the requests it receives.
struct TestSkillHost {
    origin: String,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    stopped: Arc<Notify>,
}

impl TestSkillHost {
    /// Starts a host whose skill requires `auth` and whose status responses come from `status`.
    async fn start(auth: Value, status: fn(usize) -> Value) -> Self {
        let received: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (log, stopped) = (Arc::clone(&received), Arc::new(Notify::new()));
        let bell = Arc::clone(&stopped);
        let address = test_http_server::serve_whole(move |request| {
            let origin = format!("http://{}", request.header("host").unwrap());
            let looks =
                log.lock().unwrap().iter().filter(|one: &&ReceivedRequest| one.line().contains("/status/")).count();
            log.lock().unwrap().push(request.clone());
            let answer = |status: &str, body: Value| {
                test_http_server::answer(status, "content-type: application/json\r\n", &body.to_string())
            };
            match request.line() {
                "GET /.well-known/skill-sharing HTTP/1.1" => answer("200 OK", index(&origin)),
                "GET /b.json HTTP/1.1" => answer("200 OK", descriptor(&origin, &auth)),
                "POST /call HTTP/1.1" => answer("202 Accepted", state("accepted")),
                "GET /status/e-1 HTTP/1.1" => answer("200 OK", status(looks)),
                "DELETE /status/e-1 HTTP/1.1" => {
                    bell.notify_one();
                    answer("202 Accepted", state("running"))
                }
                _ => test_http_server::answer("404 Not Found", "", ""),
            }
        })
        .await;
        Self { origin: address.to_string(), received, stopped }
    }

    fn got(&self, line: &str) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().iter().filter(|one| one.line().starts_with(line)).cloned().collect()
    }
}

fn index(origin: &str) -> Value {
    json!({"protocol": {"version": "1.0.0"}, "provider": {"name": "p"}, "skills": [{
        "id": "a/b", "name": "n", "capability_type": "api", "description": "d",
        "descriptor_url": format!("{origin}/b.json"), "access": "public", "version": "1.0.0",
    }]})
}

fn descriptor(origin: &str, auth: &Value) -> Value {
    json!({
        "protocol": {"version": "1.0.0"}, "id": "a/b", "name": "n", "version": "1.0.0", "capability_type": "api",
        "description": "d", "provider": {"name": "p"}, "access": "public", "auth": auth,
        "endpoint": {"url": format!("{origin}/call"), "method": "POST",
            "status_url": format!("{origin}/status/{{execution_id}}")},
        "inputs": [{"name": "city", "type": "string", "description": "d", "required": true}],
        "output": {"content_type": "application/json", "schema": {"type": "object"}},
    })
}

fn state(status: &str) -> Value {
    let mut answer = json!({"execution_id": "e-1", "status": status, "skill_id": "a/b",
        "timestamps": {"created_at": "2026-11-15T11:00:00Z", "updated_at": "2026-11-15T11:00:00Z"}});
    match status {
        "completed" => answer["output"] = json!({"sky": "blue"}),
        "failed" => answer["error"] = json!({"code": "EXECUTION_FAILED", "message": "no sky, hunter22"}),
        _ => {}
    }
    answer
}

/// Runs the tool and advances the clock while the skill runs.
async fn forecast(workshop: &RunnersFixture, run: &str, trace: &[(&'static str, &str)]) -> Result<Value, String> {
    let file = format!("{}[secrets]\nkey = {{ file = \"key\" }}\n", tool("forecast", run));
    std::fs::write(workshop.folder.path().join("key"), "hunter22\n").unwrap();
    let agent = workshop.resolve(&file).await?;
    let mut call = workshop.call(&agent, "forecast", json!({"city": "Rome"}));
    call.trace.extend(trace.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let running = workshop.runners.run(call);
    tokio::pin!(running);
    loop {
        tokio::select! {
            outcome = &mut running => {
                return outcome.map(|output| output.structured.unwrap()).map_err(|error| error.to_string());
            }
            () = tokio::time::sleep(Duration::from_millis(1)) => workshop.clock.advance(Duration::from_millis(5)),
        }
    }
}

#[tokio::test]
async fn remote_skill_runs_as_tool_with_credential_trace_and_idempotency_key() {
    let key = json!({"type": "api_key", "header": "X-Key"});
    let host = TestSkillHost::start(key, |_| state("completed")).await;
    let workshop = RunnersFixture::new();
    let run = format!("{{ skill = {{ target = \"a/b@{}\", api_key = \"{{{{ secrets.key }}}}\" }} }}", host.origin);
    let trace = [("trace_id", "t-1"), ("execution_id", "exe_1"), ("attempt", "2")];
    assert_eq!(forecast(&workshop, &run, &trace).await.unwrap(), json!({"sky": "blue"}));
    let sent = &host.got("POST /call")[0];
    let body: Value = serde_json::from_str(&sent.body).unwrap();
    assert_eq!((&body["inputs"], &body["context"]["trace_id"]), (&json!({"city": "Rome"}), &json!("t-1")));
    assert!(body["context"]["timeout_ms"].as_u64().is_some_and(|left| (1..=60_000).contains(&left)), "{body}");
    assert_eq!(sent.header("idempotency-key"), Some("exe_1-2-call-1"));
    assert_eq!(sent.header("traceparent"), Some("00-1-2-01"));
    assert_eq!(sent.header("x-key"), Some("hunter22"));
}

#[tokio::test]
async fn failed_skill_error_contains_no_secret() {
    let host = TestSkillHost::start(json!({"type": "none"}), |_| state("failed")).await;
    let workshop = RunnersFixture::new();
    let run =
        format!("{{ skill = {{ target = \"http://{}/b.json\", api_key = \"{{{{ secrets.key }}}}\" }} }}", host.origin);
    let why = forecast(&workshop, &run, &[]).await.unwrap_err();
    assert_eq!(why, "EXECUTION_FAILED: no sky, [secret]");
}

#[tokio::test]
async fn skill_tool_errors_distinguish_bad_arguments_from_unreachable_host() {
    let host = TestSkillHost::start(json!({"type": "none"}), |_| state("completed")).await;
    let workshop = RunnersFixture::new();
    let run = format!("{{ skill = \"a/b@{}\" }}", host.origin);
    let agent = workshop.resolve(&tool("forecast", &run)).await.unwrap();
    let why = failure_text(workshop.run(&agent, "forecast", json!({"town": "Rome"})).await);
    assert!(why.starts_with("VALIDATION_ERROR: ") && why.contains("/inputs/city"), "{why}");
    assert!(host.got("POST /call").is_empty());

    let gone = { tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
    let agent = workshop.resolve(&tool("forecast", &format!("{{ skill = \"a/b@{gone}\" }}"))).await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "forecast", json!({"city": "Rome"})).await);
    assert!(why.starts_with("ENDPOINT_UNREACHABLE: "), "{why}");
}

#[tokio::test]
async fn dropped_call_cancels_the_remote_skill_execution() {
    let host = TestSkillHost::start(json!({"type": "none"}), |_| state("running")).await;
    let workshop = RunnersFixture::new();
    let run = format!("{{ skill = \"a/b@{}\" }}", host.origin);
    let agent = workshop.resolve(&tool("forecast", &run)).await.unwrap();
    let call = workshop.call(&agent, "forecast", json!({"city": "Rome"}));
    {
        let running = workshop.runners.run(call);
        tokio::pin!(running);
        while host.got("GET /status/").is_empty() {
            tokio::select! {
                outcome = &mut running => panic!("it ended: {outcome:?}"),
                () = tokio::time::sleep(Duration::from_millis(1)) => workshop.clock.advance(Duration::from_millis(5)),
            }
        }
    }
    host.stopped.notified().await;
    assert_eq!(host.got("DELETE /status/e-1").len(), 1);
}
