//! Turns: responses, stop reasons and failures of the brain.

use serde_json::{Value, json};

use super::script::{BrainScriptStep, add, echo, script, stop, text, throw, user};
use super::turn::STREAMED;
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckVerdict, ensure, equal, short};

checks![
    turn_default_is_none,
    turn_none_shape,
    turn_makes_agent_messages_only,
    turn_stop_reasons_are_forwarded,
    turn_brain_failure_in_none,
    turn_brain_failure_streamed,
    turn_failure_has_a_message,
    turn_after_failure_works,
    turn_failure_keeps_its_input,
    turn_loop_is_bounded,
    turn_uses_the_history_of_the_server,
    turn_seed_reaches_the_brain,
    turn_takes_blocks,
    turn_takes_plain_text,
    turn_unknown_fields_tolerated,
];

async fn turn_default_is_none(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let answer = api.run_script(&session, &[vec![text("as one piece")]]).await?;
    equal("text", "as one piece", answer.text().as_str())
}

async fn turn_none_shape(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let message = user(&script(&[vec![text("hello")]]));
    let answer = api.ask(&session, &json!({ "messages": [message], "stream": "none" })).await?;
    equal("stopReason", "end_turn", answer.stop())?;
    equal("messages", 1, answer.messages.len())?;
    equal("text", "hello", answer.text().as_str())
}

async fn turn_makes_agent_messages_only(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": true }] })).await?;
    let answer = api.run_script(&session, &[vec![add("c1")], vec![text("done")]]).await?;
    let roles: Vec<&Value> = answer.messages.iter().map(|message| &message["role"]).collect();
    equal("roles", json!(["assistant", "tool", "assistant"]), json!(roles))
}

async fn turn_stop_reasons_are_forwarded(api: &AapServerUnderTest) -> CheckVerdict {
    for reason in ["end_turn", "max_tokens", "refusal"] {
        let steps = [vec![text("so far"), stop(reason)]];
        let session = api.session(json!({})).await?;
        equal("stopReason in none", reason, api.run_script(&session, &steps).await?.stop())?;
        for mode in STREAMED {
            let turn = api.play(&session, mode, &steps).await?;
            equal(&format!("stopReason in {mode}"), reason, turn.stop())?;
        }
    }
    Ok(())
}

async fn turn_brain_failure_in_none(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let answer = api.run_script(&session, &[vec![text("half a "), throw("lost the thread")]]).await?;
    equal("stopReason", "error", answer.stop())
}

async fn turn_brain_failure_streamed(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(json!({})).await?;
        // `StreamedTurn::new` requires that `turn_stop` is the last event.
        let turn = api.play(&session, mode, &[vec![text("half a "), throw("lost the thread")]]).await?;
        equal(&format!("stopReason in {mode}"), "error", turn.stop())?;
    }
    Ok(())
}

async fn turn_failure_has_a_message(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(json!({})).await?;
        let turn = api.play(&session, mode, &[vec![throw("lost the thread")]]).await?;
        has_error_message(&turn.stop_data())?;
    }
    Ok(())
}

async fn turn_after_failure_works(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(json!({})).await?;
        api.play(&session, mode, &[vec![throw("lost the thread")]]).await?;
        let turn = api.play(&session, mode, &[vec![text("found it")]]).await?;
        equal("stopReason", "end_turn", turn.stop())?;
        equal("text", "found it", turn.text().as_str())?;
    }
    Ok(())
}

async fn turn_failure_keeps_its_input(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": true }] })).await?;
    let message = user(&script(&[vec![add("c1")], vec![throw("lost the thread")]]));
    api.ask(&session, &json!({ "messages": [message.clone()] })).await?;
    let history = api.history(&session, "full").await?;
    let roles: Vec<&str> = history.iter().filter_map(|message| message["role"].as_str()).collect();
    equal("first message", Some(&message), history.first())?;
    // The finished step is kept; the protocol does not specify what remains of a failed step.
    ensure(roles.starts_with(&["user", "assistant", "tool"]), || {
        format!("expected user, assistant and tool to be kept, got {roles:?}")
    })
}

async fn turn_loop_is_bounded(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": true }] })).await?;
    let again = json!({ "tool": { "name": "add", "input": { "a": 1, "b": 1 } } });
    let turn = api.play(&session, "message", &[vec![again]]).await?;
    equal("stopReason", "error", turn.stop())?;
    has_error_message(&turn.stop_data())?;
    let turn = api.play(&session, "message", &[vec![text("free again")]]).await?;
    equal("text of the next turn", "free again", turn.text().as_str())
}

async fn turn_uses_the_history_of_the_server(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    api.run_script(&session, &[vec![text("first")]]).await?;
    let answer = api.run_script(&session, &[vec![echo("roles")]]).await?;
    equal("roles the brain sees", r#"["user","assistant","user"]"#, compact(&answer.text()).as_str())
}

async fn turn_seed_reaches_the_brain(api: &AapServerUnderTest) -> CheckVerdict {
    let seed = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "hello" },
        { "role": "assistant", "content": "hi" },
    ]);
    let session = api.session_with(json!({}), json!({ "messages": seed })).await?;
    let answer = api.run_script(&session, &[vec![echo("roles")]]).await?;
    let expected = r#"["system","user","assistant","user"]"#;
    equal("roles the brain sees", expected, compact(&answer.text()).as_str())
}

async fn turn_takes_blocks(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let content = json!([{ "type": "text", "text": script(&[vec![text("read it")]]) }]);
    let answer = api.ask(&session, &json!({ "messages": [{ "role": "user", "content": content }] })).await?;
    equal("text", "read it", answer.text().as_str())
}

async fn turn_takes_plain_text(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let answer = api.ask(&session, &json!({ "messages": [user("good evening")] })).await?;
    equal("text", "You said: good evening", answer.text().as_str())
}

async fn turn_unknown_fields_tolerated(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let steps: [BrainScriptStep; 1] = [vec![text("never mind")]];
    let message = json!({ "role": "user", "content": script(&steps), "x-device": "watch" });
    let body = json!({ "messages": [message], "agent": { "mood": "merry" }, "x-trace": 7 });
    equal("text", "never mind", api.ask(&session, &body).await?.text().as_str())
}

/// Checks that the end of a failed turn has an error: a string, or an object with a message.
fn has_error_message(end: &Value) -> CheckVerdict {
    let error = &end["error"];
    let words = error.as_str().or_else(|| error["message"].as_str()).unwrap_or_default();
    ensure(!words.trim().is_empty(), || {
        format!("expected an `error` that says what failed, got {}", short(&end.to_string()))
    })
}

/// JSON without white space, so that formatting does not matter.
fn compact(text: &str) -> String {
    serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |value| value.to_string())
}
