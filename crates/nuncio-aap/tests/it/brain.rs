//! Tests of the `aap` brain: a local gateway (`near`) forwards turns to a scripted agent on a second gateway (`far`).

use nuncio_testkit::{AapClient, Gateway, eventually};
use serde_json::{Value, json};

const FAR: &str = r#"
[agent]
name = "far"
version = "1.0.0"
description = "Plays scripts."

[brain]
kind = "script"

[[tool]]
name = "far_tool"
description = "Runs far away."
input = { type = "object" }
run = { command = ["sh", "-c", "echo far away"] }

[[tool]]
name = "own"
description = "Nobody's business."
input = { type = "object" }
expose = false
run = { command = ["echo", "hidden"] }
"#;

fn near(far: &Gateway, more: &str) -> String {
    format!(
        r#"
[agent]
name = "near"
version = "1.0.0"
description = "Thinks elsewhere."

[brain]
kind = "aap"
url = "{}/aap"
agent = "far"
{more}

[[tool]]
name = "near_tool"
description = "Runs here."
input = {{ type = "object" }}
run = {{ command = ["echo", "right here"] }}
"#,
        far.url()
    )
}

struct GatewayPair {
    far: Gateway,
    near: Gateway,
    aap: AapClient,
}

impl GatewayPair {
    async fn start() -> Self {
        let far = Gateway::builder().agent("far", FAR).start().await;
        let near = Gateway::builder().agent("near", &near(&far, "")).start().await;
        Self { aap: near.aap(), far, near }
    }

    async fn wait_until_far_sessions_are_deleted(&self) {
        let far = self.far.aap();
        eventually("the sessions there are deleted", async || {
            let (_, listed) = far.get("/sessions").await;
            listed["sessions"].as_array().unwrap().is_empty().then_some(())
        })
        .await;
    }
}

fn call(id: &str, name: &str) -> Value {
    json!({"tool": {"id": id, "name": name, "input": {"n": 1}}})
}

fn last_text(answer: &Value) -> String {
    let last = answer["messages"].as_array().unwrap().last().unwrap();
    last["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect()
}

#[tokio::test]
async fn remote_text_is_forwarded_and_remote_session_is_deleted() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    let events =
        pair.aap.stream(&session, "delta", json!([[{"thinking": "hm "}, {"text": "Grüß dich"}]])).await.rest().await;
    let names: Vec<_> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(names, ["turn_start", "thinking_delta", "text_delta", "text_delta", "turn_stop"]);
    assert_eq!(events[4].data["stopReason"], "end_turn");
    pair.wait_until_far_sessions_are_deleted().await;
}

#[tokio::test]
async fn complete_history_is_sent_to_remote_agent() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    pair.aap.say(&session, "first").await;
    let answer = pair.aap.play(&session, json!([[{"echo": "roles"}]])).await;
    assert_eq!(last_text(&answer), r#"["user","assistant","user"]"#);
}

#[tokio::test]
async fn remote_stop_reasons_and_failures_are_forwarded() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    for reason in ["max_tokens", "refusal"] {
        let answer = pair.aap.play(&session, json!([[{"text": "a"}, {"stop": reason}]])).await;
        assert_eq!(answer["stopReason"], reason);
    }
    let answer = pair.aap.play(&session, json!([[{"throw": "the model is tired"}]])).await;
    assert_eq!(answer["stopReason"], "error");
    assert_eq!(answer["error"]["code"], "brain_failed");
    assert!(answer["error"]["message"].as_str().unwrap().contains("the model is tired"), "{answer}");
    pair.wait_until_far_sessions_are_deleted().await;
}

#[tokio::test]
async fn local_tool_called_by_remote_agent_runs_and_is_audited_locally() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[("near_tool", true)]).await;
    let script = json!([[call("c1", "near_tool")], [call("c1", "near_tool")], [{"echo": "results"}]]);
    let answer = pair.aap.play(&session, script).await;
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    assert_eq!(last_text(&answer), r#"["right here","right here"]"#);
    assert_eq!(pair.near.audit().await.len(), 2);
    assert!(pair.far.audit().await.is_empty());
    pair.wait_until_far_sessions_are_deleted().await;
}

#[tokio::test]
async fn remote_tool_runs_only_after_local_client_grants_permission() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    let asked =
        pair.aap.play(&session, json!([[{"text": "let me"}, call("c1", "far_tool")], [{"echo": "results"}]])).await;
    assert_eq!(asked["stopReason"], "tool_use");
    assert!(pair.far.audit().await.is_empty());
    let yes = json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}]);
    let (status, answer) = pair.aap.turn(&session, yes).await;
    assert_eq!((status, &answer["stopReason"]), (200, &json!("end_turn")), "{answer}");
    assert_eq!(answer["messages"][0], json!({"role": "tool", "toolCallId": "c1", "content": "far away"}));
    assert_eq!(last_text(&answer), r#"["far away"]"#);
    assert_eq!(pair.far.audit().await.len(), 1);
    let history = pair.aap.history(&session).await;
    let roles: Vec<_> = history.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    pair.wait_until_far_sessions_are_deleted().await;
}

#[tokio::test]
async fn denial_of_a_remote_tool_call_reaches_the_remote_agent_with_its_reason() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    pair.aap.play(&session, json!([[call("c1", "far_tool")], [{"echo": "results"}]])).await;
    let no = json!([{"role": "tool_permission", "toolCallId": "c1", "granted": false, "reason": "not today"}]);
    let (_, answer) = pair.aap.turn(&session, no).await;
    assert_eq!(last_text(&answer), r#"["Tool call denied: not today"]"#);
    let records = pair.far.audit().await;
    assert_eq!(records.len(), 1, "the refusal is on record there");
}

#[tokio::test]
async fn local_remote_and_client_tool_calls_of_one_step_all_return_results() {
    let pair = GatewayPair::start().await;
    let tools = json!([{"name": "mine", "description": "", "parameters": {"type": "object"}}]);
    let request = json!({"agent": {"name": "near", "tools": [{"name": "near_tool", "trust": true}]}, "tools": tools});
    let session = pair.aap.session_with(request).await;
    let step = json!([call("c1", "far_tool"), call("c2", "mine"), call("c3", "near_tool"), call("c4", "own")]);
    let asked = pair.aap.play(&session, json!([step, [{"echo": "results"}]])).await;
    assert_eq!(asked["stopReason"], "tool_use", "{asked}");
    let answers = json!([
        {"role": "tool", "toolCallId": "c2", "content": "mine"},
        {"role": "tool_permission", "toolCallId": "c1", "granted": true},
    ]);
    let (_, answer) = pair.aap.turn(&session, answers).await;
    let mut results: Vec<String> = serde_json::from_str(&last_text(&answer)).unwrap();
    results.sort();
    assert_eq!(results, ["far away", "hidden", "mine", "right here"]);
}

#[tokio::test]
async fn local_tool_replaces_a_remote_tool_of_the_same_name() {
    let far = Gateway::builder().agent("far", FAR).start().await;
    let agent = near(&far, "").replace("near_tool", "far_tool");
    let near = Gateway::builder().agent("near", &agent).start().await;
    let aap = near.aap();
    let session = aap.session("near", &[("far_tool", true)]).await;
    let answer = aap.play(&session, json!([[call("c1", "far_tool")], [{"echo": "results"}]])).await;
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    assert_eq!(last_text(&answer), r#"["right here"]"#);
    assert!(far.audit().await.is_empty());
}

#[tokio::test]
async fn new_user_message_abandons_pending_remote_tool_call() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    pair.aap.play(&session, json!([[call("c1", "far_tool")]])).await;
    let answer = pair.aap.say(&session, "never mind").await;
    assert_eq!(last_text(&answer), "You said: never mind");
    assert!(pair.far.audit().await.is_empty());
    pair.wait_until_far_sessions_are_deleted().await;
}

#[tokio::test]
async fn permission_given_after_gateway_restart_does_not_run_the_remote_tool() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    pair.aap.play(&session, json!([[call("c1", "far_tool")], [{"echo": "results"}]])).await;
    let data = pair.near.stop().await;
    let again = Gateway::builder().agent("near", &near(&pair.far, "")).data(data).start().await;
    let yes = json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}]);
    let (status, answer) = again.aap().turn(&session, yes).await;
    assert_eq!(status, 200);
    assert!(answer["messages"][0]["content"].as_str().unwrap().contains("not run"), "{answer}");
    assert_eq!(answer["stopReason"], "end_turn");
    assert!(pair.far.audit().await.is_empty());
}

#[tokio::test]
async fn cancelling_local_turn_deletes_remote_session() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    let mut stream = pair.aap.stream(&session, "delta", json!([[{"text": "so far "}, {"sleep": 600_000}]])).await;
    stream.up_to("text_delta").await;
    assert_eq!(pair.aap.cancel(&session).await["cancelled"], true);
    pair.wait_until_far_sessions_are_deleted().await;
}

#[tokio::test]
async fn unreachable_remote_server_fails_turn_with_its_address_in_the_error() {
    let pair = GatewayPair::start().await;
    let session = pair.aap.session("near", &[]).await;
    pair.far.stop().await;
    let answer = pair.aap.say(&session, "anyone?").await;
    assert_eq!(answer["error"]["code"], "brain_failed");
    assert!(answer["error"]["message"].as_str().unwrap().contains("127.0.0.1"), "{answer}");
}

#[tokio::test]
async fn remote_api_key_is_read_from_secrets_and_missing_key_fails_with_401() {
    let far = Gateway::builder().agent("far", FAR).start().await;
    let holder = far.key(&[]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &holder.secret).unwrap();
    let more = format!("key = \"far\"\n\n[secrets]\nfar = {{ file = {:?} }}\n", file.path());
    let near_gateway = Gateway::builder().agent("near", &near(&far, &more)).start().await;
    let aap = near_gateway.aap();
    let session = aap.session("near", &[]).await;
    assert_eq!(last_text(&aap.say(&session, "hello").await), "You said: hello");
    let without = Gateway::builder().agent("near", &near(&far, "")).start().await;
    let session = without.aap().session("near", &[]).await;
    let answer = without.aap().say(&session, "hello").await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("401"), "{answer}");
}
