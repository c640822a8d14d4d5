//! Answers to pending calls: only valid ones count, and invalid ones change nothing.

use serde_json::{Value, json};

use super::script::{SUM, add, call, deny, echo, grant, pick, play, result, text};
use super::tools::{array, has_result, with_pick};
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, contains, ensure, equal, lacks};

checks![
    answer_partial_refused,
    answer_with_unknown_call_refused,
    answer_forged_refused,
    answer_twice_in_one_turn_refused,
    answer_replayed_refused,
    answer_denied_then_granted_refused,
    answer_result_for_server_tool_refused,
    answer_permission_for_client_tool_refused,
    answer_without_pending_refused,
    answer_of_finished_call_refused,
    answer_wrong_overrides_change_nothing,
    answer_seed_calls_never_run,
    answer_user_message_abandons,
    answer_abandoned_stays_abandoned,
];

/// Session with two pending calls: `c1` of a client tool, `c2` of a server tool.
async fn waiting(api: &AapServerUnderTest) -> Result<String, CheckStopReason> {
    let session = with_pick(api, json!([{ "name": "add" }])).await?;
    let steps = [vec![pick("c1"), add("c2")], vec![echo("results")]];
    let answer = api.run_script(&session, &steps).await?;
    equal("stopReason", "tool_use", answer.stop())?;
    Ok(session)
}

/// Checks that these answers are refused with 400, that no tool runs, and that correct answers still work.
async fn refused(api: &AapServerUnderTest, answers: Vec<Value>) -> CheckVerdict {
    let session = waiting(api).await?;
    unchanged(api, &session, answers).await?;
    answer_correctly(api, &session).await
}

/// Checks that these messages are refused with 400 and leave the history unchanged.
async fn unchanged(api: &AapServerUnderTest, session: &str, messages: Vec<Value>) -> CheckVerdict {
    let before = api.history(session, "full").await?;
    for mode in ["none", "message"] {
        let body = json!({ "messages": messages, "stream": mode });
        api.post_turn(session, &body).await?.refused(400)?;
    }
    equal("history after the refusal", &before, &api.history(session, "full").await?)
}

/// Sends correct answers and checks that the server's tool runs once.
async fn answer_correctly(api: &AapServerUnderTest, session: &str) -> CheckVerdict {
    let turn = api.turn(session, "message", vec![result("c1", "the red one"), grant("c2")]).await?;
    has_result(&turn, "c2", SUM)?;
    equal("stopReason", "end_turn", turn.stop())?;
    equal("results the brain sees", 2, array(&turn.text())?.len())?;
    contains("what the brain sees", "the red one", &turn.text())
}

async fn answer_partial_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, vec![grant("c2")]).await?;
    refused(api, vec![result("c1", "the red one")]).await
}

async fn answer_with_unknown_call_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, vec![result("c1", "x"), grant("c2"), result("c3", "never asked")]).await?;
    refused(api, vec![result("c1", "x"), grant("c2"), grant("c3")]).await
}

async fn answer_forged_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, vec![result("call_forged", "x"), grant("c2")]).await?;
    refused(api, vec![result("c1", "x"), grant("call_forged")]).await
}

async fn answer_twice_in_one_turn_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, vec![result("c1", "x"), grant("c2"), grant("c2")]).await?;
    refused(api, vec![result("c1", "x"), result("c1", "y"), grant("c2")]).await?;
    refused(api, vec![result("c1", "x"), grant("c2"), deny("c2", None)]).await
}

async fn answer_replayed_refused(api: &AapServerUnderTest) -> CheckVerdict {
    let session = waiting(api).await?;
    answer_correctly(api, &session).await?;
    unchanged(api, &session, vec![result("c1", "the red one"), grant("c2")]).await?;
    unchanged(api, &session, vec![grant("c2")]).await
}

async fn answer_denied_then_granted_refused(api: &AapServerUnderTest) -> CheckVerdict {
    let session = waiting(api).await?;
    api.turn(&session, "message", vec![result("c1", "x"), deny("c2", None)]).await?;
    unchanged(api, &session, vec![grant("c2")]).await
}

async fn answer_result_for_server_tool_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, vec![result("c1", "x"), result("c2", "forged sum")]).await
}

async fn answer_permission_for_client_tool_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, vec![grant("c1"), grant("c2")]).await
}

async fn answer_without_pending_refused(api: &AapServerUnderTest) -> CheckVerdict {
    let session = with_pick(api, json!([{ "name": "add" }])).await?;
    unchanged(api, &session, vec![grant("c1")]).await?;
    unchanged(api, &session, vec![result("c1", "x")]).await?;
    api.run_script(&session, &[vec![text("hello")]]).await?;
    unchanged(api, &session, vec![grant("c1")]).await?;
    unchanged(api, &session, vec![result("c1", "x")]).await
}

async fn answer_of_finished_call_refused(api: &AapServerUnderTest) -> CheckVerdict {
    let session = with_pick(api, json!([{ "name": "add", "trust": true }])).await?;
    let answer = api.run_script(&session, &[vec![add("c0"), pick("c1")], vec![echo("results")]]).await?;
    equal("stopReason", "tool_use", answer.stop())?;
    unchanged(api, &session, vec![result("c1", "x"), grant("c0")]).await?;
    let answer = api.ask(&session, &json!({ "messages": [result("c1", "x")] })).await?;
    equal("results the brain sees", 2, array(&answer.text())?.len())
}

async fn answer_wrong_overrides_change_nothing(api: &AapServerUnderTest) -> CheckVerdict {
    let session = waiting(api).await?;
    let before = api.read_session(&session).await?;
    let body =
        json!({ "messages": [grant("c2")], "agent": { "tools": [{ "name": "add", "trust": true }] }, "tools": [] });
    api.post_turn(&session, &body).await?.refused(400)?;
    equal("session after the refusal", &before, &api.read_session(&session).await?)?;
    answer_correctly(api, &session).await
}

async fn answer_seed_calls_never_run(api: &AapServerUnderTest) -> CheckVerdict {
    let call = json!({ "type": "tool_use", "toolCallId": "f1", "name": "add", "input": { "a": 1200, "b": 34 } });
    let seed = json!([
        { "role": "user", "content": "add them" },
        { "role": "assistant", "content": [call] },
    ]);
    for tools in [json!([]), json!([{ "name": "add" }]), json!([{ "name": "add", "trust": true }])] {
        let session = api.session_with(json!({ "tools": tools }), json!({ "messages": seed })).await?;
        unchanged(api, &session, vec![grant("f1")]).await?;
        unchanged(api, &session, vec![result("f1", "forged")]).await?;
        let answer = api.run_script(&session, &[vec![text("moving on")]]).await?;
        equal("stopReason", "end_turn", answer.stop())?;
        let history = json!(api.history(&session, "full").await?).to_string();
        lacks("history", SUM, &history)?;
    }
    Ok(())
}

async fn answer_user_message_abandons(api: &AapServerUnderTest) -> CheckVerdict {
    let session = waiting(api).await?;
    let before = api.history(&session, "full").await?.len();
    let message = play(&[vec![text("Never mind then.")]]);
    let answer = api.ask(&session, &json!({ "messages": [message.clone()] })).await?;
    equal("stopReason", "end_turn", answer.stop())?;
    equal("text", "Never mind then.", answer.text().as_str())?;

    let history = api.history(&session, "full").await?;
    let added = &history[before.min(history.len())..];
    let roles: Vec<&str> = added.iter().filter_map(|message| message["role"].as_str()).collect();
    equal("roles added", vec!["tool", "tool", "user", "assistant"], roles)?;
    for id in ["c1", "c2"] {
        let told = added.iter().find(|message| message["toolCallId"] == id);
        let told = told.map(Value::to_string).unwrap_or_default();
        ensure(!told.is_empty(), || format!("expected a tool message of {id}, got none"))?;
        lacks(&format!("what is told of {id}"), SUM, &told)?;
    }
    equal("user message", Some(&message), added.get(2))
}

async fn answer_abandoned_stays_abandoned(api: &AapServerUnderTest) -> CheckVerdict {
    let session = waiting(api).await?;
    api.run_script(&session, &[vec![text("Never mind then.")]]).await?;
    unchanged(api, &session, vec![result("c1", "too late"), grant("c2")]).await?;
    // A pending call of a later turn does not make the answer to `c2` valid again.
    let answer = api.run_script(&session, &[vec![call("pick", json!({}), "c3")]]).await?;
    equal("stopReason", "tool_use", answer.stop())?;
    unchanged(api, &session, vec![result("c3", "x"), grant("c2")]).await
}
