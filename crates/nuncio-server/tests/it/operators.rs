//! Probes and metrics, and who may read the metrics.

use nuncio_testkit::{Gateway, RawHttpResponse, eventually};
use serde_json::json;

use crate::agents::{DESK, call, call_once, desk, echo, held, held_pid, release, tool};

/// Sends a `GET` request to a path outside AAP.
async fn get(gateway: &Gateway, path: &str, key: Option<&str>) -> RawHttpResponse {
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{key}\r\n");
    gateway.raw(request).await.unwrap()
}

async fn scrape(gateway: &Gateway) -> String {
    let answer = get(gateway, "/metrics", None).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// The value of a metric series, by its name and all its labels.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

async fn reaches(gateway: &Gateway, series: &str, wanted: f64) {
    eventually(series, async || (value(&scrape(gateway).await, series) == Some(wanted)).then_some(())).await;
}

#[tokio::test]
async fn turns_calls_and_commits_are_counted() {
    let agent = desk(&[echo(), tool("fails", "exit 3", "")]);
    let gateway = Gateway::builder().agent(DESK, &agent).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true), ("fails", true)]).await;
    let calls = [call("c1", "echo", json!({})), call("c2", "fails", json!({})), call("c3", "invented", json!({}))];
    aap.play(&session, json!([calls, [{"text": "done"}]])).await;
    aap.play(&session, json!([[{"stop": "refusal"}]])).await;

    let text = scrape(&gateway).await;
    let calls = |tool: &str, outcome: &str, code: &str| {
        let labels = format!(r#"agent="desk",tool="{tool}",protocol="aap",outcome="{outcome}",code="{code}""#);
        value(&text, &format!("nuncio_tool_calls_total{{{labels}}}"))
    };
    assert_eq!(value(&text, r#"nuncio_turns_started_total{agent="desk"}"#), Some(2.0), "{text}");
    assert_eq!(value(&text, r#"nuncio_turns_ended_total{agent="desk",stop="end_turn"}"#), Some(1.0));
    assert_eq!(value(&text, r#"nuncio_turns_ended_total{agent="desk",stop="refusal"}"#), Some(1.0));
    assert_eq!(value(&text, r#"nuncio_turn_duration_seconds_count{agent="desk"}"#), Some(2.0));
    assert_eq!(calls("echo", "completed", ""), Some(1.0));
    assert_eq!(calls("fails", "failed", "tool_failed"), Some(1.0));
    assert_eq!(
        calls("unknown", "refused", "tool_not_found"),
        Some(1.0),
        "an invented tool name is not used as a label"
    );
    assert!(!text.contains("invented"), "{text}");
    assert_eq!(value(&text, r#"nuncio_tool_call_duration_seconds_count{agent="desk",tool="echo"}"#), Some(1.0));
    assert!(value(&text, "nuncio_store_commit_seconds_count").unwrap() >= 6.0);
    assert_eq!(
        value(&text, "nuncio_store_commit_seconds_count"),
        value(&text, "nuncio_store_commit_callers_count"),
        "each transaction counts in both metrics"
    );
    assert_eq!(value(&text, "nuncio_store_queue"), Some(0.0));
    assert_eq!(value(&text, r#"nuncio_build_info{version="0.1.0"}"#), Some(1.0));
    if cfg!(all(target_os = "linux", not(nuncio_portable))) {
        assert!(value(&text, "process_resident_memory_bytes").unwrap() > 1e6);
        assert!(value(&text, "process_cpu_seconds_total").is_some() && value(&text, "process_open_fds").is_some());
    }
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn metrics_show_running_turns_open_streams_and_pending_approvals() {
    let agent = desk(&[held(""), tool("sign", "true", "human_authorization = true")]);
    let gateway = Gateway::builder().agent(DESK, &agent).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("held", true), ("sign", true)]).await;
    let stream = aap.stream(&session, "delta", call_once("c1", "held", json!({}))).await;
    held_pid(&gateway).await;
    let text = scrape(&gateway).await;
    assert_eq!(value(&text, "nuncio_turns_running"), Some(1.0), "{text}");
    assert_eq!(value(&text, "nuncio_streams_open"), Some(1.0));
    drop(stream);
    reaches(&gateway, "nuncio_streams_open", 0.0).await;
    assert_eq!(value(&scrape(&gateway).await, "nuncio_turns_running"), Some(1.0), "a turn continues without readers");
    release(&gateway, "held.gate", "free").await;
    reaches(&gateway, "nuncio_turns_running", 0.0).await;

    let _stream = aap.stream(&session, "delta", call_once("c2", "sign", json!({}))).await;
    reaches(&gateway, "nuncio_approvals_pending", 1.0).await;
    aap.cancel(&session).await;
    reaches(&gateway, "nuncio_approvals_pending", 0.0).await;
    reaches(&gateway, r#"nuncio_turns_ended_total{agent="desk",stop="cancelled"}"#, 1.0).await;
}

#[tokio::test]
async fn request_metrics_are_labelled_by_route_not_path() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    aap.get(&format!("/sessions/{session}")).await;
    aap.get("/sessions/nobody").await;
    for stray in ["/secret-path", "/aap/secret-path", "/aap"] {
        assert_eq!(get(&gateway, stray, None).await.status, 404, "{stray}");
    }
    gateway.raw("BREW /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let text = scrape(&gateway).await;
    let requests = |route: &str, method: &str, status: &str| {
        let labels = format!(r#"route="{route}",method="{method}",status="{status}""#);
        value(&text, &format!("nuncio_http_requests_total{{{labels}}}"))
    };
    assert_eq!(requests("/aap/sessions", "POST", "2xx"), Some(1.0), "{text}");
    assert_eq!(requests("/aap/sessions/{id}", "GET", "2xx"), Some(1.0));
    assert_eq!(requests("/aap/sessions/{id}", "GET", "4xx"), Some(1.0));
    assert_eq!(requests("other", "GET", "4xx"), Some(3.0), "{text}");
    assert_eq!(requests("/healthz", "other", "4xx"), Some(1.0));
    assert_eq!(value(&text, r#"nuncio_http_request_duration_seconds_count{route="/aap/sessions/{id}"}"#), Some(2.0));
    assert!(!text.contains(&session) && !text.contains("secret-path") && !text.contains("BREW"), "{text}");
}

#[tokio::test]
async fn metrics_need_a_key_once_a_key_exists() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    assert_eq!(get(&gateway, "/metrics", None).await.status, 200, "the metrics are open to this machine");
    let key = gateway.key(&["metrics:read"]).await;
    for wrong in [None, Some("wrong")] {
        let answer = get(&gateway, "/metrics", wrong).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"));
        assert!(answer.header("www-authenticate").is_some());
    }
    let answer = get(&gateway, "/metrics", Some(&key.secret)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    for open in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(get(&gateway, open, None).await.status, 200, "{open}");
    }
}

#[tokio::test]
async fn open_server_shows_metrics_without_a_key_only_if_enabled() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).open_to_anyone().start().await;
    assert_eq!(get(&gateway, "/metrics", None).await.status, 401);
    let key = gateway.key(&["metrics:read"]).await;
    assert_eq!(get(&gateway, "/metrics", Some(&key.secret)).await.status, 200);

    let told = Gateway::builder().agent(DESK, &desk(&[])).open_to_anyone().settings(|all| all.metrics.open = true);
    assert_eq!(get(&told.start().await, "/metrics", None).await.status, 200);
}

#[tokio::test]
async fn health_probes_are_answered_even_over_the_rate_limit() {
    let gateway =
        Gateway::builder().agent(DESK, &desk(&[])).open_to_anyone().settings(|all| all.limits.requests_per_minute = 2);
    let gateway = gateway.start().await;
    let mut strangers = Vec::new();
    for _ in 0..4 {
        strangers.push(get(&gateway, "/aap/meta", None).await.status);
    }
    assert!(strangers.contains(&429), "{strangers:?}");
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(get(&gateway, probe, None).await.status, 200, "{probe}");
    }
}
