//! `GET /sessions/:id/history`: the full history, and the part that the brain sees.

use serde_json::{Value, json};

use super::script::{add, deny, echo, grant, pick, play, result, text, thinking};
use super::tools::{array, with_pick};
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    history_has_only_the_requested_kind,
    history_compacted_is_not_empty,
    history_full_is_exact,
    history_full_holds_the_seed,
    history_full_equals_the_response,
    history_keeps_unknown_fields,
    history_permission_never_stored,
    history_shows_pending_calls,
    history_type_missing_or_unknown_is_400,
    history_compacted_equals_what_the_brain_sees,
];

async fn history_has_only_the_requested_kind(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    api.run_script(&session, &[vec![text("hello")]]).await?;
    for kind in ["compacted", "full"] {
        let reply = api.get(&format!("/sessions/{session}/history?type={kind}")).await?;
        let body = reply.status(200)?.json()?;
        let keys: Vec<&String> = body["history"].as_object().map(|o| o.keys().collect()).unwrap_or_default();
        equal("keys of history", vec![kind], keys)?;
        ensure(body["history"][kind].is_array(), || format!("expected an array, got {}", body["history"][kind]))?;
    }
    Ok(())
}

async fn history_compacted_is_not_empty(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    api.run_script(&session, &[vec![text("first")]]).await?;
    let kept = api.history(&session, "compacted").await?;
    ensure(!kept.is_empty(), || "expected something to continue from, got nothing".to_owned())
}

async fn history_full_is_exact(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let as_text = play(&[vec![thinking("hm "), text("one")]]);
    let script = super::script::script(&[vec![text("two")]]);
    let as_blocks = json!({ "role": "user", "content": [{ "type": "text", "text": script }] });
    api.ask(&session, &json!({ "messages": [as_text.clone()] })).await?;
    api.ask(&session, &json!({ "messages": [as_blocks.clone()] })).await?;
    let history = api.history(&session, "full").await?;
    let roles: Vec<&str> = history.iter().filter_map(|message| message["role"].as_str()).collect();
    equal("roles", vec!["user", "assistant", "user", "assistant"], roles)?;
    equal("text stays text", &as_text, &history[0])?;
    equal("blocks stay blocks", &as_blocks, &history[2])
}

async fn history_full_holds_the_seed(api: &AapServerUnderTest) -> CheckVerdict {
    let seed = vec![
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "user", "content": "hello" }),
        json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": "hm" },
            { "type": "tool_use", "toolCallId": "s1", "name": "elsewhere", "input": { "q": [1, 2.5, null] } }] }),
        json!({ "role": "tool", "toolCallId": "s1", "content": "found" }),
        json!({ "role": "assistant", "content": "hi" }),
    ];
    let session = api.session_with(json!({}), json!({ "messages": seed })).await?;
    equal("before a turn", &seed, &api.history(&session, "full").await?)?;
    api.run_script(&session, &[vec![text("more")]]).await?;
    let history = api.history(&session, "full").await?;
    equal("messages", seed.len() + 2, history.len())?;
    equal("after a turn", &seed[..], &history[..seed.len()])
}

async fn history_full_equals_the_response(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": true }] })).await?;
    let steps = [vec![thinking("hm"), text("adding"), add("c1")], vec![text("done")]];
    let answer = api.run_script(&session, &steps).await?;
    let history = api.history(&session, "full").await?;
    equal("history", answer.messages.as_slice(), history.get(1..).unwrap_or_default())
}

async fn history_keeps_unknown_fields(api: &AapServerUnderTest) -> CheckVerdict {
    let seeded = json!({ "role": "user", "content": "hello", "x-note": { "by": "us", "n": 1 } });
    let session = api.session_with(json!({}), json!({ "messages": [seeded] })).await?;
    let mut message = play(&[vec![text("hello")]]);
    message["x-device"] = json!("watch");
    api.ask(&session, &json!({ "messages": [message.clone()] })).await?;
    let history = api.history(&session, "full").await?;
    equal("seeded message", Some(&seeded), history.first())?;
    equal("sent message", Some(&message), history.get(1))
}

async fn history_permission_never_stored(api: &AapServerUnderTest) -> CheckVerdict {
    let session = with_pick(api, json!([{ "name": "add" }, { "name": "lookup" }])).await?;
    let step = vec![add("c1"), super::script::lookup("k", "c2"), pick("c3")];
    api.run_script(&session, &[step, vec![text("done")]]).await?;
    let answers = json!([grant("c1"), deny("c2", Some("no")), result("c3", "x")]);
    api.ask(&session, &json!({ "messages": answers })).await?;
    for kind in ["compacted", "full"] {
        let history = api.history(&session, kind).await?;
        let roles: Vec<&str> = history.iter().filter_map(|message| message["role"].as_str()).collect();
        ensure(!roles.contains(&"tool_permission"), || {
            format!("expected no tool_permission in {kind}, got {roles:?}")
        })?;
        let mut answered: Vec<&Value> =
            history.iter().filter(|m| m["role"] == "tool").map(|m| &m["toolCallId"]).collect();
        answered.sort_by_key(ToString::to_string);
        equal("calls answered, each once", vec!["c1", "c2", "c3"], answered)?;
    }
    Ok(())
}

async fn history_shows_pending_calls(api: &AapServerUnderTest) -> CheckVerdict {
    let session = with_pick(api, json!([])).await?;
    api.run_script(&session, &[vec![text("your turn"), pick("c1")]]).await?;
    let history = api.history(&session, "full").await?;
    let last = history.last().cloned().unwrap_or_default();
    equal("role of the last message", &json!("assistant"), &last["role"])?;
    let call = json!({ "type": "tool_use", "toolCallId": "c1", "name": "pick", "input": { "from": "a hat" } });
    equal("its last block", Some(&call), last["content"].as_array().and_then(|blocks| blocks.last()))
}

async fn history_type_missing_or_unknown_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    for query in ["", "?type=", "?type=everything", "?kind=full"] {
        api.get(&format!("/sessions/{session}/history{query}")).await?.refused(400)?;
    }
    Ok(())
}

async fn history_compacted_equals_what_the_brain_sees(api: &AapServerUnderTest) -> CheckVerdict {
    let seed = json!([{ "role": "system", "content": "Be brief." }]);
    let session = api.session_with(json!({}), json!({ "messages": seed })).await?;
    api.run_script(&session, &[vec![text("first")]]).await?;
    let answer = api.run_script(&session, &[vec![echo("roles")]]).await?;
    let mut roles: Vec<Value> =
        api.history(&session, "compacted").await?.iter().map(|message| message["role"].clone()).collect();
    // The brain saw every message except its own last one.
    roles.pop();
    equal("roles", roles, array(&answer.text())?)
}
