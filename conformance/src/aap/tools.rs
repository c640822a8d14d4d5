//! Server tools and client tools: who runs them, and who receives their results.

use serde_json::{Value, json};

use super::script::{SUM, add, call, client_tool, echo, grant, lookup, pick, result, text, thinking};
use super::turn::StreamedTurn;
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, contains, ensure, equal, fail, lacks};

checks![
    tool_trusted_runs_inline,
    tool_trusted_never_stops_with_tool_use,
    tool_untrusted_asks_first,
    tool_granted_runs,
    tool_grant_comes_first_in_none,
    tool_trust_defaults_to_false,
    tool_client_round_trip,
    tool_client_gets_no_tool_result,
    tool_mixed_parallel_calls,
    tool_calls_before_results,
    tool_unknown_is_answered,
    tool_disabled_never_runs,
    tool_failure_is_a_result,
    tool_disabled_not_offered,
    tool_enabled_offered,
];

async fn tool_trusted_runs_inline(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": true }] })).await?;
    let turn = api.play(&session, "message", &[vec![add("c1")], vec![echo("results")]]).await?;
    equal("events", vec!["turn_start", "tool_call", "tool_result", "text", "turn_stop"], turn.names())?;
    let call = &turn.events[1].data;
    equal("toolCallId", Some(&json!("c1")), call.get("toolCallId"))?;
    equal("name", Some(&json!("add")), call.get("name"))?;
    equal("input", Some(&json!({ "a": 1200, "b": 34 })), call.get("input"))?;
    has_result(&turn, "c1", SUM)?;
    contains("what the brain sees", SUM, &turn.text())
}

async fn tool_trusted_never_stops_with_tool_use(api: &AapServerUnderTest) -> CheckVerdict {
    let tools = json!([{ "name": "add", "trust": true }, { "name": "lookup", "trust": true }]);
    let session = api.session(json!({ "tools": tools })).await?;
    let steps = [vec![add("c1"), lookup("k", "c2")], vec![add("c3")], vec![text("done")]];
    let answer = api.run_script(&session, &steps).await?;
    equal("stopReason", "end_turn", answer.stop())?;
    let roles: Vec<&str> = answer.messages.iter().filter_map(|m| m["role"].as_str()).collect();
    equal("roles", vec!["assistant", "tool", "tool", "assistant", "tool", "assistant"], roles)
}

async fn tool_untrusted_asks_first(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": false }] })).await?;
    let turn = api.play(&session, "message", &[vec![text("May I?"), add("c1")]]).await?;
    equal("events", vec!["turn_start", "text", "tool_call", "turn_stop"], turn.names())?;
    equal("stopReason", "tool_use", turn.stop())?;
    let history = api.history(&session, "full").await?;
    let ran = history.iter().any(|message| message["role"] == "tool");
    ensure(!ran, || "expected no tool message before the grant, got one".to_owned())
}

async fn tool_granted_runs(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in super::turn::STREAMED {
        let session = api.session(json!({ "tools": [{ "name": "add" }] })).await?;
        api.play(&session, mode, &[vec![add("c1")], vec![echo("results")]]).await?;
        let turn = api.turn(&session, mode, vec![grant("c1")]).await?;
        equal("second event", Some(&"tool_result"), turn.names().get(1))?;
        has_result(&turn, "c1", SUM)?;
        equal("stopReason", "end_turn", turn.stop())?;
        contains("what the brain sees", SUM, &turn.text())?;
    }
    Ok(())
}

async fn tool_grant_comes_first_in_none(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add" }] })).await?;
    let asked = api.run_script(&session, &[vec![add("c1")], vec![text("done")]]).await?;
    equal("stopReason", "tool_use", asked.stop())?;
    let answer = api.ask(&session, &json!({ "messages": [grant("c1")] })).await?;
    let first = answer.messages.first().cloned().unwrap_or_default();
    equal("role of the first message", &json!("tool"), &first["role"])?;
    equal("its call", &json!("c1"), &first["toolCallId"])?;
    contains("its content", SUM, &first["content"].to_string())?;
    equal("text", "done", answer.text().as_str())
}

async fn tool_trust_defaults_to_false(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add" }] })).await?;
    let answer = api.run_script(&session, &[vec![add("c1")]]).await?;
    equal("stopReason", "tool_use", answer.stop())
}

async fn tool_client_round_trip(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in super::turn::STREAMED {
        let session = with_pick(api, json!([])).await?;
        let turn = api.play(&session, mode, &[vec![pick("c1")], vec![echo("results")]]).await?;
        equal("events", vec!["turn_start", "tool_call", "turn_stop"], turn.names())?;
        equal("stopReason", "tool_use", turn.stop())?;
        let turn = api.turn(&session, mode, vec![result("c1", "the red one")]).await?;
        equal("stopReason", "end_turn", turn.stop())?;
        contains("what the brain sees", "the red one", &turn.text())?;
    }
    Ok(())
}

async fn tool_client_gets_no_tool_result(api: &AapServerUnderTest) -> CheckVerdict {
    let session = with_pick(api, json!([])).await?;
    api.play(&session, "message", &[vec![pick("c1")], vec![text("thanks")]]).await?;
    let turn = api.turn(&session, "message", vec![result("c1", "the red one")]).await?;
    equal("events", vec!["turn_start", "text", "turn_stop"], turn.names())
}

async fn tool_mixed_parallel_calls(api: &AapServerUnderTest) -> CheckVerdict {
    let tools = json!([{ "name": "add", "trust": true }, { "name": "lookup", "trust": false }]);
    let session = with_pick(api, tools).await?;
    let four = vec![pick("c1"), pick("c2"), add("c3"), lookup("blue", "c4")];
    let turn = api.play(&session, "message", &[four, vec![echo("results")]]).await?;
    let expected = vec!["turn_start", "tool_call", "tool_call", "tool_call", "tool_call", "tool_result", "turn_stop"];
    equal("events of the first turn", expected, turn.names())?;
    has_result(&turn, "c3", SUM)?;
    equal("stopReason", "tool_use", turn.stop())?;

    let answers = vec![result("c1", "first"), result("c2", "second"), grant("c4")];
    let turn = api.turn(&session, "message", answers).await?;
    equal("events of the second turn", vec!["turn_start", "tool_result", "text", "turn_stop"], turn.names())?;
    has_result(&turn, "c4", "value-of-blue")?;
    equal("stopReason", "end_turn", turn.stop())?;
    let seen = turn.text();
    equal("results the brain sees", 4, array(&seen)?.len())?;
    for part in ["first", "second", SUM, "value-of-blue"] {
        contains("what the brain sees", part, &seen)?;
    }
    Ok(())
}

async fn tool_calls_before_results(api: &AapServerUnderTest) -> CheckVerdict {
    let tools = json!([{ "name": "add", "trust": true }, { "name": "lookup", "trust": true }]);
    for mode in super::turn::STREAMED {
        let session = api.session(json!({ "tools": tools })).await?;
        let step = vec![add("c1"), thinking("and"), lookup("k", "c2"), call("nobody", json!({}), "c3"), add("c4")];
        let turn = api.play(&session, mode, &[step, vec![text("done")]]).await?;
        let names = turn.names();
        let last_call = names.iter().rposition(|name| *name == "tool_call");
        let first_result = names.iter().position(|name| *name == "tool_result");
        ensure(first_result.is_some() && last_call < first_result, || {
            format!("expected every tool_call before the first tool_result, got {names:?}")
        })?;
        equal("calls", 4, names.iter().filter(|name| **name == "tool_call").count())?;
    }
    Ok(())
}

async fn tool_unknown_is_answered(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let steps = [vec![call("nobody", json!({}), "c1")], vec![echo("results")]];
    let turn = api.play(&session, "message", &steps).await?;
    equal("stopReason", "end_turn", turn.stop())?;
    equal("results the brain sees", 1, array(&turn.text())?.len())
}

async fn tool_disabled_never_runs(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "lookup", "trust": true }] })).await?;
    let turn = api.play(&session, "message", &[vec![add("c1")], vec![echo("results")]]).await?;
    equal("stopReason", "end_turn", turn.stop())?;
    lacks("what the brain sees", SUM, &turn.text())?;
    equal("results the brain sees", 1, array(&turn.text())?.len())
}

async fn tool_failure_is_a_result(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": true }] })).await?;
    let bad = call("add", json!({ "a": "not a number" }), "c1");
    let turn = api.play(&session, "message", &[vec![bad], vec![echo("results")]]).await?;
    equal("stopReason", "end_turn", turn.stop())?;
    equal("tool results sent", 1, turn.results().len())?;
    equal("results the brain sees", 1, array(&turn.text())?.len())
}

async fn tool_disabled_not_offered(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "lookup" }] })).await?;
    let answer = api.run_script(&session, &[vec![echo("tools")]]).await?;
    equal("tools offered", vec![json!("lookup")], array(&answer.text())?)
}

async fn tool_enabled_offered(api: &AapServerUnderTest) -> CheckVerdict {
    let tools = json!([{ "name": "add" }, { "name": "lookup", "trust": true }]);
    let session = with_pick(api, tools).await?;
    let answer = api.run_script(&session, &[vec![echo("tools")]]).await?;
    let mut offered = array(&answer.text())?;
    offered.sort_by_key(Value::to_string);
    equal("tools offered", vec![json!("add"), json!("lookup"), json!("pick")], offered)
}

/// Session with the client tool `pick` and these server tools.
pub(super) async fn with_pick(api: &AapServerUnderTest, tools: Value) -> Result<String, CheckStopReason> {
    api.session_with(json!({ "tools": tools }), json!({ "tools": [client_tool("pick")] })).await
}

/// Checks that exactly one result of the call was sent and that it contains `part`.
pub(super) fn has_result(turn: &StreamedTurn, id: &str, part: &str) -> CheckVerdict {
    let results = turn.results();
    let of_call: Vec<&String> = results.iter().filter(|(call, _)| *call == id).map(|(_, text)| text).collect();
    match of_call.as_slice() {
        [text] => contains(&format!("tool_result of {id}"), part, text),
        _ => Err(fail(format!("expected one tool_result of {id}, got {results:?}"))),
    }
}

/// Parses the output of the script item `echo`.
pub(super) fn array(text: &str) -> Result<Vec<Value>, CheckStopReason> {
    serde_json::from_str(text).map_err(|_| fail(format!("expected the brain to say a JSON array, got {text:?}")))
}
