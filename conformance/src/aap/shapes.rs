//! JSON bodies with missing or wrong fields: refused with 400 without any change.

use serde_json::{Value, json};

use super::script::{client_tool, grant, result, user};
use super::wire::{AapServerUnderTest, SCRIPT};
use crate::verdict::{CheckVerdict, equal};

checks![
    shape_agent_missing,
    shape_agent_unknown,
    shape_server_tool_unknown,
    shape_server_tools_malformed,
    shape_client_tool_named_like_enabled_tool,
    shape_client_tool_named_like_disabled_tool,
    shape_client_tool_twice,
    shape_client_tool_malformed,
    shape_seed_malformed,
    shape_messages_missing,
    shape_messages_empty,
    shape_messages_mixed,
    shape_messages_several_users,
    shape_messages_wrong_roles,
    shape_messages_malformed,
    shape_stream_mode_unknown,
];

async fn creation_refused(api: &AapServerUnderTest, body: &Value) -> CheckVerdict {
    api.post("/sessions", body).await?.refused(400)
}

/// Checks that the turn is refused with and without streaming, and that session and history are unchanged.
async fn turn_refused(api: &AapServerUnderTest, body: &Value) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let before = api.read_session(&session).await?;
    api.post_turn(&session, body).await?.refused(400)?;
    if body.get("stream").is_none() && body.is_object() {
        let mut streamed = body.clone();
        streamed["stream"] = json!("delta");
        api.post_turn(&session, &streamed).await?.refused(400)?;
    }
    equal("session", &before, &api.read_session(&session).await?)?;
    equal("history", Vec::<Value>::new(), api.history(&session, "full").await?)
}

async fn shape_agent_missing(api: &AapServerUnderTest) -> CheckVerdict {
    for body in [
        json!({}),
        json!({ "agent": null }),
        json!({ "agent": {} }),
        json!({ "agent": SCRIPT }),
        json!({ "agent": { "name": 7 } }),
        json!({ "agent": { "name": "" } }),
    ] {
        creation_refused(api, &body).await?;
    }
    Ok(())
}

async fn shape_agent_unknown(api: &AapServerUnderTest) -> CheckVerdict {
    creation_refused(api, &json!({ "agent": { "name": "nobody-of-this-name" } })).await
}

async fn shape_server_tool_unknown(api: &AapServerUnderTest) -> CheckVerdict {
    let tools = json!([{ "name": "add" }, { "name": "nobody" }]);
    creation_refused(api, &json!({ "agent": { "name": SCRIPT, "tools": tools } })).await?;
    turn_refused(api, &json!({ "messages": [user("hello")], "agent": { "tools": tools } })).await
}

async fn shape_server_tools_malformed(api: &AapServerUnderTest) -> CheckVerdict {
    for tools in [
        json!("add"),
        json!(["add"]),
        json!([{}]),
        json!([{ "name": 7 }]),
        json!([{ "name": "add", "trust": "yes" }]),
        json!({ "name": "add" }),
    ] {
        creation_refused(api, &json!({ "agent": { "name": SCRIPT, "tools": tools } })).await?;
        turn_refused(api, &json!({ "messages": [user("hello")], "agent": { "tools": tools } })).await?;
    }
    Ok(())
}

async fn shape_client_tool_named_like_enabled_tool(api: &AapServerUnderTest) -> CheckVerdict {
    let (agent, tools) = (json!([{ "name": "add", "trust": true }]), json!([client_tool("add")]));
    let body = json!({ "agent": { "name": SCRIPT, "tools": agent }, "tools": tools });
    creation_refused(api, &body).await?;
    let body = json!({ "messages": [user("hello")], "agent": { "tools": agent }, "tools": tools });
    turn_refused(api, &body).await
}

async fn shape_client_tool_named_like_disabled_tool(api: &AapServerUnderTest) -> CheckVerdict {
    let session = json!({ "agent": { "name": SCRIPT }, "tools": [client_tool("add")] });
    api.post("/sessions", &session).await?.status(201)?;
    Ok(())
}

async fn shape_client_tool_twice(api: &AapServerUnderTest) -> CheckVerdict {
    let tools = json!([client_tool("pick"), client_tool("pick")]);
    creation_refused(api, &json!({ "agent": { "name": SCRIPT }, "tools": tools })).await?;
    turn_refused(api, &json!({ "messages": [user("hello")], "tools": tools })).await
}

async fn shape_client_tool_malformed(api: &AapServerUnderTest) -> CheckVerdict {
    let parameters = json!({ "type": "object" });
    for tools in [
        json!("pick"),
        json!(["pick"]),
        json!([{}]),
        json!([{ "name": "pick", "parameters": parameters }]),
        json!([{ "name": "pick", "description": "Picks" }]),
        json!([{ "description": "Picks", "parameters": parameters }]),
        json!([{ "name": "", "description": "Picks", "parameters": parameters }]),
        json!([{ "name": "pick", "description": 7, "parameters": parameters }]),
        json!([{ "name": "pick", "description": "Picks", "parameters": "object" }]),
    ] {
        creation_refused(api, &json!({ "agent": { "name": SCRIPT }, "tools": tools })).await?;
        turn_refused(api, &json!({ "messages": [user("hello")], "tools": tools })).await?;
    }
    Ok(())
}

async fn shape_seed_malformed(api: &AapServerUnderTest) -> CheckVerdict {
    for message in [
        json!("hello"),
        json!({ "role": "user" }),
        json!({ "content": "hello" }),
        json!({ "role": "narrator", "content": "hello" }),
        json!({ "role": "system", "content": [{ "type": "text", "text": "Be brief." }] }),
        json!({ "role": "tool", "content": "no call named" }),
        grant("c1"),
    ] {
        creation_refused(api, &json!({ "agent": { "name": SCRIPT }, "messages": [message] })).await?;
    }
    creation_refused(api, &json!({ "agent": { "name": SCRIPT }, "messages": "hello" })).await
}

async fn shape_messages_missing(api: &AapServerUnderTest) -> CheckVerdict {
    for body in [json!({}), json!({ "messages": null }), json!({ "messages": "hello" }), json!({ "messages": {} })] {
        turn_refused(api, &body).await?;
    }
    Ok(())
}

async fn shape_messages_empty(api: &AapServerUnderTest) -> CheckVerdict {
    turn_refused(api, &json!({ "messages": [] })).await
}

async fn shape_messages_mixed(api: &AapServerUnderTest) -> CheckVerdict {
    turn_refused(api, &json!({ "messages": [user("hello"), result("c1", "x")] })).await?;
    turn_refused(api, &json!({ "messages": [grant("c1"), user("hello")] })).await
}

async fn shape_messages_several_users(api: &AapServerUnderTest) -> CheckVerdict {
    turn_refused(api, &json!({ "messages": [user("hello"), user("again")] })).await
}

async fn shape_messages_wrong_roles(api: &AapServerUnderTest) -> CheckVerdict {
    for role in ["assistant", "system", "narrator", ""] {
        turn_refused(api, &json!({ "messages": [{ "role": role, "content": "hello" }] })).await?;
    }
    Ok(())
}

async fn shape_messages_malformed(api: &AapServerUnderTest) -> CheckVerdict {
    for message in [
        json!("hello"),
        json!(null),
        json!({ "content": "hello" }),
        json!({ "role": "user" }),
        json!({ "role": "user", "content": 7 }),
        json!({ "role": "user", "content": null }),
        json!({ "role": "user", "content": ["hello"] }),
        json!({ "role": "user", "content": [{ "text": "no type" }] }),
        json!({ "role": "user", "content": [{ "type": "text" }] }),
        json!({ "role": "user", "content": [{ "type": "hologram", "url": "https://x.example" }] }),
        json!({ "role": "tool", "content": "no call named" }),
        json!({ "role": "tool", "toolCallId": "c1" }),
        json!({ "role": "tool_permission", "toolCallId": "c1" }),
        json!({ "role": "tool_permission", "toolCallId": "c1", "granted": "yes" }),
        json!({ "role": "tool_permission", "granted": true }),
    ] {
        turn_refused(api, &json!({ "messages": [message] })).await?;
    }
    Ok(())
}

async fn shape_stream_mode_unknown(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in [json!("sse"), json!(""), json!(true), json!(["delta"])] {
        turn_refused(api, &json!({ "messages": [user("hello")], "stream": mode })).await?;
    }
    Ok(())
}
