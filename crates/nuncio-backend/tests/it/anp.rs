//! Tools that are ANP methods of other agents.

use std::sync::{Arc, Mutex};

use nuncio_anp::client::{AgentSignerLookup, KeySigner, RequestSigner};
use nuncio_core::ids::AgentName;
use nuncio_engine::ports::Clock;
use nuncio_identity::{Did, SigningKey};
use serde_json::{Value, json};

use crate::test_http_server::{self, ReceivedRequest};
use crate::test_runners::{RunnersFixture, ZeroEntropy, failure_text, tool, unavailable_text};

/// Starts a host with one agent that has the method `find`; also returns the received requests.
async fn host(status: &'static str, answer: fn(&Value) -> Value) -> (String, Arc<Mutex<Vec<ReceivedRequest>>>) {
    let received: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
    let log = Arc::clone(&received);
    let address = test_http_server::serve_whole(move |request| {
        log.lock().unwrap().push(request.clone());
        let origin = format!("http://{}", request.header("host").unwrap());
        let json = "content-type: application/json\r\n";
        match request.line() {
            "GET /ad.json HTTP/1.1" => test_http_server::answer("200 OK", json, &description(&origin).to_string()),
            "POST /rpc HTTP/1.1" => {
                let asked: Value = serde_json::from_str(&request.body).unwrap();
                let mut body = answer(&asked);
                body["jsonrpc"] = json!("2.0");
                body["id"] = asked["id"].clone();
                test_http_server::answer(status, json, &body.to_string())
            }
            _ => test_http_server::answer("404 Not Found", "", ""),
        }
    })
    .await;
    (format!("http://{address}/ad.json"), received)
}

fn description(origin: &str) -> Value {
    let schema = json!({"type": "string"});
    json!({
        "protocolType": "ANP", "protocolVersion": "1.0.0", "type": "AgentDescription", "name": "Finder",
        "description": "Finds.", "securityDefinitions": {"s": {"scheme": "didwba", "in": "header", "name": "Authorization"}},
        "security": "s",
        "capabilities": [{"id": "cap.find", "name": "Find", "description": "Finds lost things.", "intentTags": ["find"]}],
        "interfaces": [{"id": "interface.find", "type": "StructuredInterface", "protocol": "openrpc", "content": {
            "openrpc": "1.3.2", "info": {"title": "t", "version": "1"}, "servers": [{"url": format!("{origin}/rpc")}],
            "methods": [{"name": "find", "description": "d", "params": [{"name": "q", "required": true, "schema": schema}],
                "result": {"name": "r", "schema": {}}}],
        }}],
    })
}

#[derive(Debug)]
struct LocalDidSigner(Arc<dyn Clock>);

impl AgentSignerLookup for LocalDidSigner {
    fn signer(&self, agent: &AgentName) -> Option<Arc<dyn RequestSigner>> {
        let did = Did::parse(&format!("did:wba:own.example:{agent}")).unwrap();
        Some(Arc::new(KeySigner::new(did, SigningKey::from_seed(&[3; 32]), Arc::clone(&self.0), Arc::new(ZeroEntropy))))
    }
}

#[tokio::test]
async fn anp_method_runs_as_tool_and_is_signed_once_signers_are_set() {
    let (url, received) = host("200 OK", |asked| json!({"result": {"found": asked["params"]["q"]}})).await;
    let workshop = RunnersFixture::new();
    let agent = workshop.resolve(&tool("find", &format!("{{ anp = {url:?} }}"))).await.unwrap();
    let output = workshop.run(&agent, "find", json!({"q": "x"})).await.unwrap();
    assert_eq!(output.structured, Some(json!({"found": "x"})));
    workshop.runners.set_signers(Arc::new(LocalDidSigner(Arc::clone(&workshop.clock) as _)));
    workshop.run(&agent, "find", json!({"q": "y"})).await.unwrap();
    let calls: Vec<_> = received.lock().unwrap().iter().filter(|it| it.line().starts_with("POST")).cloned().collect();
    assert_eq!(calls[0].header("signature-input"), None, "no signer is set yet");
    let input = calls[1].header("signature-input").unwrap();
    assert!(input.contains("keyid=\"did:wba:own.example:hotel#key-1\""), "{input}");
}

#[tokio::test]
async fn anp_tool_with_intent_calls_the_method_that_serves_the_intent() {
    let (url, _) = host("200 OK", |asked| json!({"result": [asked["method"], asked["params"]["q"]]})).await;
    let workshop = RunnersFixture::new();
    let run = format!("{{ anp = {url:?}, intent = \"find lost things\" }}");
    let agent = workshop.resolve(&tool("lost_property", &run)).await.unwrap();
    let output = workshop.run(&agent, "lost_property", json!({"q": "hat"})).await.unwrap();
    assert_eq!(output.structured, Some(json!(["find", "hat"])));
    let run = format!("{{ anp = {url:?}, intent = \"book a flight\" }}");
    let agent = workshop.resolve(&tool("lost_property", &run)).await.unwrap();
    let why = failure_text(workshop.run(&agent, "lost_property", json!({"q": "hat"})).await);
    assert!(why.starts_with("not_agreed: "), "{why}");
}

#[tokio::test]
async fn anp_tool_errors_distinguish_bad_arguments_failure_and_unavailable_agent() {
    let (url, received) = host("200 OK", |_| json!({"error": {"code": -32000, "message": "no luck"}})).await;
    let workshop = RunnersFixture::new();
    let agent = workshop.resolve(&tool("find", &format!("{{ anp = {url:?} }}"))).await.unwrap();
    let why = failure_text(workshop.run(&agent, "find", json!({"town": "x"})).await);
    assert!(why.starts_with("bad_arguments: "), "{why}");
    assert!(received.lock().unwrap().iter().all(|it| !it.line().starts_with("POST")), "the other agent was not called");
    let why = failure_text(workshop.run(&agent, "find", json!({"q": "x"})).await);
    assert!(why.starts_with("failed: ") && why.contains("no luck"), "{why}");

    let (url, _) = host("503 Busy", |_| json!({})).await;
    let agent = workshop.resolve(&tool("find", &format!("{{ anp = {url:?} }}"))).await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "find", json!({"q": "x"})).await);
    assert!(why.starts_with("answered: ") && why.contains("503"), "{why}");
    let gone = { tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
    let agent = workshop.resolve(&tool("find", &format!("{{ anp = \"http://{gone}/ad.json\" }}"))).await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "find", json!({"q": "x"})).await);
    assert!(why.starts_with("unreachable: "), "{why}");
}

#[tokio::test]
async fn method_not_found_reloads_a_cached_agent_description_once() {
    let (url, received) = host("200 OK", |_| json!({"error": {"code": -32601, "message": "gone"}})).await;
    let workshop = RunnersFixture::new();
    let agent = workshop.resolve(&tool("find", &format!("{{ anp = {url:?} }}"))).await.unwrap();
    let hits = |line: &str| received.lock().unwrap().iter().filter(|it| it.line().starts_with(line)).count();
    failure_text(workshop.run(&agent, "find", json!({"q": "x"})).await);
    assert_eq!((hits("GET /ad.json"), hits("POST")), (1, 1), "it was read just now");
    failure_text(workshop.run(&agent, "find", json!({"q": "x"})).await);
    assert_eq!((hits("GET /ad.json"), hits("POST")), (2, 3), "the cached description is fetched again");
}

#[tokio::test]
async fn anp_tool_with_invalid_did_is_refused_before_serving() {
    let workshop = RunnersFixture::new();
    for target in ["did:wba:UPPER.example:a", "did:wba:127.0.0.1:a"] {
        let why = workshop.resolve(&tool("find", &format!("{{ anp = {target:?} }}"))).await.unwrap_err();
        assert!(why.contains("is neither an agent nor a host"), "{why}");
    }
}
