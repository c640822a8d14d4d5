//! Tools and options that a turn changes for the rest of its session.

use serde_json::{Value, json};

use super::script::{SUM, add, client_tool, echo, play, text, throw};
use super::tools::array;
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, contains, ensure, equal};

checks![
    override_server_tools_persist,
    override_client_tools_persist,
    override_empty_lists_clear,
    override_absent_keeps,
    override_options_merge_by_key,
    override_survives_failed_turn,
    override_never_renames_the_agent,
];

async fn override_server_tools_persist(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "tools": [{ "name": "lookup" }] })).await?;
    let trusted = json!([{ "name": "add", "trust": true }]);
    let steps = [vec![add("c1")], vec![echo("results")]];
    let body = json!({ "messages": [play(&steps)], "agent": { "tools": trusted } });
    contains("first turn", SUM, &api.ask(&session, &body).await?.text())?;
    equal("tools offered next", vec![json!("add")], offered(api, &session).await?)?;
    equal("agent.tools shown", &trusted, &api.read_session(&session).await?["agent"]["tools"])
}

async fn override_client_tools_persist(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session_with(json!({}), json!({ "tools": [client_tool("pick")] })).await?;
    let tools = json!([client_tool("choose")]);
    let body = json!({ "messages": [play(&[vec![echo("tools")]])], "tools": tools });
    equal("tools offered", vec![json!("choose")], array(&api.ask(&session, &body).await?.text())?)?;
    equal("tools offered next", vec![json!("choose")], offered(api, &session).await?)?;
    equal("tools shown", &tools, &api.read_session(&session).await?["tools"])
}

async fn override_empty_lists_clear(api: &AapServerUnderTest) -> CheckVerdict {
    let agent = json!({ "tools": [{ "name": "add" }] });
    let session = api.session_with(agent, json!({ "tools": [client_tool("pick")] })).await?;
    let body = json!({ "messages": [play(&[vec![echo("tools")]])], "agent": { "tools": [] }, "tools": [] });
    equal("tools offered", Vec::<Value>::new(), array(&api.ask(&session, &body).await?.text())?)?;
    equal("tools offered next", Vec::<Value>::new(), offered(api, &session).await?)
}

async fn override_absent_keeps(api: &AapServerUnderTest) -> CheckVerdict {
    let agent = json!({ "tools": [{ "name": "add" }], "options": { "language": "de" } });
    let session = api.session_with(agent, json!({ "tools": [client_tool("pick")] })).await?;
    let before = api.read_session(&session).await?;
    let body = json!({ "messages": [play(&[vec![text("hello")]])], "agent": {} });
    api.ask(&session, &body).await?;
    equal("session", &before, &api.read_session(&session).await?)
}

async fn override_options_merge_by_key(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "options": { "language": "de", "model": "small" } })).await?;
    let body = json!({
        "messages": [play(&[vec![text("hello")]])],
        "agent": { "options": { "model": "large" } },
    });
    api.ask(&session, &body).await?;
    let options = &api.read_session(&session).await?["agent"]["options"];
    equal("language, which was not sent", &json!("de"), &options["language"])?;
    equal("model, which was sent", &json!("large"), &options["model"])
}

async fn override_survives_failed_turn(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let body = json!({
        "messages": [play(&[vec![throw("lost the thread")]])],
        "agent": { "tools": [{ "name": "add" }], "options": { "language": "fr" } },
    });
    api.ask(&session, &body).await?;
    equal("tools offered next", vec![json!("add")], offered(api, &session).await?)?;
    let shown = api.read_session(&session).await?;
    equal("language", &json!("fr"), &shown["agent"]["options"]["language"])
}

async fn override_never_renames_the_agent(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let body = json!({
        "messages": [play(&[vec![text("hello")]])],
        "agent": { "name": "somebody-else" },
    });
    // Ignoring the other agent name and refusing it are both valid.
    let reply = api.post_turn(&session, &body).await?;
    ensure(matches!(reply.code, 200 | 400), || format!("expected 200 or 400, got {}", reply.code))?;
    equal("agent.name", &json!("script"), &api.read_session(&session).await?["agent"]["name"])
}

async fn offered(api: &AapServerUnderTest, session: &str) -> Result<Vec<Value>, CheckStopReason> {
    array(&api.run_script(session, &[vec![echo("tools")]]).await?.text())
}
