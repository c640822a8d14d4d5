//! Creating, showing and deleting sessions.

use std::collections::HashSet;

use serde_json::json;

use super::script::{client_tool, echo, play, sleep, text, user};
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    session_created,
    session_ids_are_path_safe,
    session_shown,
    session_unknown_is_404,
    session_deleted_is_204,
    session_deleted_twice_is_404,
    session_deleted_is_gone,
    session_creation_never_runs_the_brain,
    session_shows_its_tools,
    session_tools_are_off_by_default,
    session_unknown_fields_tolerated,
    session_deleted_while_running,
];

/// Well-formed id of a session that does not exist.
const UNKNOWN_SESSION: &str = "no-such-session-0000000000000000";

async fn session_created(api: &AapServerUnderTest) -> CheckVerdict {
    api.any_session().await.map(drop)
}

async fn session_ids_are_path_safe(api: &AapServerUnderTest) -> CheckVerdict {
    let mut seen = HashSet::new();
    for _ in 0..10 {
        let id = api.any_session().await?;
        let safe = id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        ensure(safe, || format!("expected an id of [A-Za-z0-9_-], got {id:?}"))?;
        ensure(seen.insert(id.clone()), || format!("expected ids of their own, got {id} twice"))?;
    }
    Ok(())
}

async fn session_shown(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let shown = api.read_session(&session).await?;
    equal("sessionId", &json!(session), &shown["sessionId"])?;
    equal("agent.name", &json!(api.any_agent()?), &shown["agent"]["name"])
}

async fn session_unknown_is_404(api: &AapServerUnderTest) -> CheckVerdict {
    let turn = json!({ "messages": [user("hello")] });
    api.get(&format!("/sessions/{UNKNOWN_SESSION}")).await?.status(404)?;
    api.delete(&format!("/sessions/{UNKNOWN_SESSION}")).await?.status(404)?;
    api.get(&format!("/sessions/{UNKNOWN_SESSION}/history?type=full")).await?.status(404)?;
    api.post_turn(UNKNOWN_SESSION, &turn).await?.status(404)?;
    Ok(())
}

async fn session_deleted_is_204(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let reply = api.delete(&format!("/sessions/{session}")).await?;
    equal("body", "", reply.status(204)?.text().as_str())
}

async fn session_deleted_twice_is_404(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    api.delete(&format!("/sessions/{session}")).await?.status(204)?;
    api.delete(&format!("/sessions/{session}")).await?.status(404)?;
    api.delete(&format!("/sessions/{session}")).await?.status(404)?;
    Ok(())
}

async fn session_deleted_is_gone(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    api.delete(&format!("/sessions/{session}")).await?.status(204)?;
    api.get(&format!("/sessions/{session}")).await?.status(404)?;
    for kind in ["compacted", "full"] {
        api.get(&format!("/sessions/{session}/history?type={kind}")).await?.status(404)?;
    }
    let turn = json!({ "messages": [user("hello")] });
    api.post_turn(&session, &turn).await?.status(404)?;
    Ok(())
}

async fn session_creation_never_runs_the_brain(api: &AapServerUnderTest) -> CheckVerdict {
    let seed = vec![json!({ "role": "system", "content": "Be brief." }), play(&[vec![text("spoken")]])];
    let session = api.session_with(json!({}), json!({ "messages": seed })).await?;
    equal("full history", &seed, &api.history(&session, "full").await?)
}

async fn session_shows_its_tools(api: &AapServerUnderTest) -> CheckVerdict {
    let refs = json!([{ "name": "add", "trust": true }, { "name": "lookup" }]);
    let tools = json!([client_tool("pick")]);
    let session = api.session_with(json!({ "tools": refs }), json!({ "tools": tools })).await?;
    let shown = api.read_session(&session).await?;
    equal("tools", &tools, &shown["tools"])?;
    equal("first of agent.tools", &refs[0], &shown["agent"]["tools"][0])?;
    // Untrusted is the default, so the field may be absent or false.
    let second = &shown["agent"]["tools"][1];
    ensure(second["name"] == "lookup" && second["trust"] != true, || {
        format!("expected an untrusted `lookup` in agent.tools, got {second}")
    })
}

async fn session_tools_are_off_by_default(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let answer = api.run_script(&session, &[vec![echo("tools")]]).await?;
    equal("tools offered", "[]", answer.text().as_str())
}

async fn session_unknown_fields_tolerated(api: &AapServerUnderTest) -> CheckVerdict {
    let agent = json!({ "name": api.any_agent()?, "mood": "merry" });
    api.create(&json!({ "agent": agent, "x-trace": { "id": 1 } })).await.map(drop)
}

async fn session_deleted_while_running(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let steps = [vec![text("before "), sleep(3000), text("after")]];
    let body = json!({ "messages": [play(&steps)], "stream": "delta" });
    let mut live = api.open(&session, &body, &[]).await?;
    live.until("text_delta").await?;
    api.delete(&format!("/sessions/{session}")).await?.status(204)?;
    api.get(&format!("/sessions/{session}")).await?.status(404)?;
    // The protocol does not specify the last event, only that the stream ends.
    let _ = live.rest().await;
    api.get(&format!("/sessions/{session}")).await?.status(404)?;
    Ok(())
}
