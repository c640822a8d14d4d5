//! Denied tool calls: the brain receives the specified text and continues.

use serde_json::json;

use super::script::{SUM, add, deny, echo, grant, lookup};
use super::tools::{array, has_result};
use super::turn::STREAMED;
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckVerdict, contains, equal, lacks};

checks![denial_reaches_the_brain, denial_with_reason, denial_text, denial_sends_tool_result, denial_beside_grant];

async fn denial_reaches_the_brain(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add" }] })).await?;
    api.run_script(&session, &[vec![add("c1")], vec![echo("results")]]).await?;
    let answer = api.ask(&session, &json!({ "messages": [deny("c1", None)] })).await?;
    equal("stopReason", "end_turn", answer.stop())?;
    equal("results the brain sees", 1, array(&answer.text())?.len())?;
    lacks("what the brain sees", SUM, &answer.text())
}

async fn denial_with_reason(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add" }] })).await?;
    api.run_script(&session, &[vec![add("c1")], vec![echo("results")]]).await?;
    let answer = api.ask(&session, &json!({ "messages": [deny("c1", Some("too costly"))] })).await?;
    contains("what the brain sees", "too costly", &answer.text())
}

async fn denial_text(api: &AapServerUnderTest) -> CheckVerdict {
    for (reason, expected) in [(None, "Tool call denied"), (Some("too costly"), "Tool call denied: too costly")] {
        let session = api.session(json!({ "tools": [{ "name": "add" }] })).await?;
        api.run_script(&session, &[vec![add("c1")], vec![echo("results")]]).await?;
        let answer = api.ask(&session, &json!({ "messages": [deny("c1", reason)] })).await?;
        let seen = array(&answer.text())?;
        equal("what the brain sees", Some(expected.to_owned()), seen.first().map(super::script::flat))?;
        let history = api.history(&session, "full").await?;
        let stored = history.iter().find(|message| message["toolCallId"] == "c1");
        equal("stored", Some(expected.to_owned()), stored.map(|m| super::script::flat(&m["content"])))?;
    }
    Ok(())
}

async fn denial_sends_tool_result(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(json!({ "tools": [{ "name": "add" }] })).await?;
        api.play(&session, mode, &[vec![add("c1")], vec![echo("results")]]).await?;
        let turn = api.turn(&session, mode, vec![deny("c1", Some("not now"))]).await?;
        equal("second event", Some(&"tool_result"), turn.names().get(1))?;
        has_result(&turn, "c1", "Tool call denied: not now")?;
        equal("stopReason", "end_turn", turn.stop())?;
    }
    Ok(())
}

async fn denial_beside_grant(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add" }, { "name": "lookup" }] })).await?;
    let steps = [vec![add("c1"), lookup("blue", "c2")], vec![echo("results")]];
    api.play(&session, "message", &steps).await?;
    let turn = api.turn(&session, "message", vec![deny("c1", None), grant("c2")]).await?;
    has_result(&turn, "c1", "Tool call denied")?;
    has_result(&turn, "c2", "value-of-blue")?;
    lacks("what the brain sees", SUM, &turn.text())
}
