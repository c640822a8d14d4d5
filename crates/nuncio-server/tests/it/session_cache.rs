//! A brain always gets the history that the store has. The server keeps recent conversations in memory; callers see no
//! difference.

use nuncio_testkit::{AapClient, Gateway, Method};
use serde_json::{Value, json};

use crate::agents::{DESK, call, call_once, desk, echo, held, held_pid, messages};

async fn start() -> Gateway {
    Gateway::builder().agent(DESK, &desk(&[echo(), held("")])).start().await
}

async fn stored(aap: &AapClient, session: &str) -> Vec<String> {
    let history = aap.history(session).await;
    let roles = history.iter().map(|message| message["role"].as_str().unwrap().to_owned());
    roles.chain(["user".to_owned()]).collect()
}

/// The roles of the history as the brain sees it in its next turn.
async fn seen(aap: &AapClient, session: &str) -> Vec<String> {
    let answer = aap.play(session, json!([[{"echo": "roles"}]])).await;
    let text = messages(&answer)[0]["content"][0]["text"].as_str().unwrap();
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}"))
}

async fn assert_alike(aap: &AapClient, session: &str, after: &str) {
    let stored = stored(aap, session).await;
    assert_eq!(seen(aap, session).await, stored, "after {after}");
    // The turn that read the history added messages itself, so the history is compared once more.
    assert_eq!(seen(aap, session).await.len(), stored.len() + 2, "after {after}, and a turn");
}

#[tokio::test]
async fn cached_history_equals_the_store_after_every_kind_of_turn() {
    let gateway = start().await;
    let aap = gateway.aap();
    let begun_with = json!([{"role": "system", "content": "be kind"}, {"role": "assistant", "content": "hello"}]);
    let session = aap
        .session_with(json!({
            "agent": {"name": DESK, "tools": [{"name": "echo", "trust": true}, {"name": "held", "trust": true}]},
            "tools": [{"name": "mine", "description": "", "parameters": {}}],
            "messages": begun_with,
        }))
        .await;
    assert_alike(&aap, &session, "the beginning").await;
    aap.say(&session, "hello").await;
    assert_alike(&aap, &session, "a plain turn").await;
    aap.play(&session, call_once("c1", "echo", json!({}))).await;
    assert_alike(&aap, &session, "a call").await;
    aap.play(&session, json!([[{"text": "half a"}, {"throw": "broken"}]])).await;
    assert_alike(&aap, &session, "a failure").await;

    let script = json!([[call("c2", "mine", json!({})), call("c3", "echo", json!({}))], [{"text": "done"}]]);
    let waiting = aap.play(&session, script).await;
    assert_eq!(waiting["stopReason"], "tool_use", "{waiting}");
    let wrong = json!([{"role": "tool", "toolCallId": "c9", "content": "which?"}]);
    assert_eq!(aap.turn(&session, wrong).await.0, 400);
    let (status, answer) = aap.turn(&session, json!([{"role": "tool", "toolCallId": "c2", "content": "mine"}])).await;
    assert_eq!(status, 200, "{answer}");
    assert_alike(&aap, &session, "an answer").await;

    aap.play(&session, json!([[call("c4", "mine", json!({}))]])).await;
    let mut expected = stored(&aap, &session).await;
    expected.insert(expected.len() - 1, "tool".to_owned());
    assert_eq!(seen(&aap, &session).await, expected, "an unanswered call gets a result that says so");
    assert_alike(&aap, &session, "an unanswered call").await;

    let stream = aap.stream(&session, "delta", json!([[call("c5", "held", json!({}))], [{"text": "done"}]])).await;
    held_pid(&gateway).await;
    aap.cancel(&session).await;
    stream.rest().await;
    assert_alike(&aap, &session, "a cancelled call").await;
}

#[tokio::test]
async fn cached_settings_and_pending_calls_are_those_of_the_last_turn() {
    let gateway = start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    aap.say(&session, "hello").await;
    let tools = json!([{"name": "echo", "trust": true}]);
    let said = json!([{"role": "user", "content": json!({"script": [[{"echo": "tools"}]]}).to_string()}]);
    let path = format!("/sessions/{session}/turns");
    let (_, answer) = aap.post(&path, json!({"agent": {"tools": tools}, "messages": said})).await;
    assert_eq!(messages(&answer)[0]["content"][0]["text"], r#"["echo"]"#);
    let (_, answer) = aap.turn(&session, said).await;
    assert_eq!(messages(&answer)[0]["content"][0]["text"], r#"["echo"]"#, "they stay");
    let (_, answer) = aap.turn(&session, json!([{"role": "tool", "toolCallId": "c1", "content": ""}])).await;
    assert_eq!(answer["error"]["code"].as_str().or(answer["code"].as_str()), Some("bad_answer"), "{answer}");
}

#[tokio::test]
async fn deleted_session_takes_no_further_turn() {
    let gateway = start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    aap.say(&session, "hello").await;
    assert_eq!(aap.delete(&format!("/sessions/{session}")).await.0, 204);
    assert_eq!(aap.turn(&session, json!([{"role": "user", "content": "still there?"}])).await.0, 404);
}

#[tokio::test]
async fn session_deleted_during_a_turn_takes_no_further_turn() {
    let gateway = start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    aap.say(&session, "hello").await;
    let mut stream = aap.stream(&session, "delta", json!([[{"text": "one "}, {"sleep": 600_000}]])).await;
    stream.up_to("text_delta").await;
    assert_eq!(aap.delete(&format!("/sessions/{session}")).await.0, 204);
    stream.rest().await;
    assert_eq!(aap.turn(&session, json!([{"role": "user", "content": "still there?"}])).await.0, 404);
}

#[tokio::test]
async fn cached_session_is_not_found_for_other_callers() {
    let gateway = start().await;
    let (ada, eve) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let session = ada.aap.session(DESK, &[]).await;
    ada.aap.say(&session, "a secret").await;
    assert_eq!(eve.aap.turn(&session, json!([{"role": "user", "content": "hello"}])).await.0, 404);
    assert_alike(&ada.aap, &session, "a stranger's visit").await;
}

#[tokio::test]
async fn brain_sees_the_same_history_as_the_store_after_a_crash() {
    let agent = desk(&[held("")]);
    let gateway = Gateway::builder().agent(DESK, &agent).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("held", true)]).await;
    aap.say(&session, "hello").await;
    let turn = tokio::spawn({
        let (aap, session) = (aap.clone(), session.clone());
        async move { aap.play(&session, call_once("c1", "held", json!({}))).await }
    });
    held_pid(&gateway).await;
    let data = gateway.data_as_after_a_crash();
    turn.abort();
    let next = Gateway::builder().agent(DESK, &agent).data(data).start().await;
    let roles = stored(&next.aap(), &session).await;
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "tool", "user"]);
    assert_alike(&next.aap(), &session, "a crash").await;
}

#[tokio::test]
async fn repeated_turn_request_returns_the_same_answer_and_adds_no_messages() {
    let gateway = start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let body = json!({"messages": [{"role": "user", "content": "once"}]});
    let send = async || -> Value {
        let request = aap.request(Method::POST, &format!("/sessions/{session}/turns")).json(&body);
        request.header("Idempotency-Key", "k").send().await.unwrap().json().await.unwrap()
    };
    let first = send().await;
    assert_eq!(send().await, first);
    assert_alike(&aap, &session, "a repetition").await;
    assert_eq!(send().await, first);
    assert_alike(&aap, &session, "a late repetition").await;
}
