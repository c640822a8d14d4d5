//! Undeclared capabilities are refused. These checks need an agent without the capability and are skipped if every
//! agent declares all.

use serde_json::{Value, json};

use super::script::{client_tool, user};
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, skip};

checks![
    capability_history_undeclared_is_404,
    capability_stream_undeclared_is_400,
    capability_client_tools_undeclared_is_400,
    capability_image_undeclared_is_400,
];

/// First agent that does not declare the capability; skips the check if there is none.
fn without<'a>(api: &'a AapServerUnderTest, path: &str) -> Result<&'a str, CheckStopReason> {
    let lacking = api.agents().iter().find(|agent| agent["capabilities"].pointer(path).is_none());
    let name = lacking.and_then(|agent| agent["name"].as_str());
    name.ok_or_else(|| skip(format!("every agent declares capabilities{path}")))
}

async fn session_of(api: &AapServerUnderTest, agent: &str) -> Result<String, CheckStopReason> {
    api.create(&json!({ "agent": { "name": agent } })).await
}

async fn capability_history_undeclared_is_404(api: &AapServerUnderTest) -> CheckVerdict {
    let mut tried = false;
    for kind in ["compacted", "full"] {
        let Ok(agent) = without(api, &format!("/history/{kind}")) else { continue };
        let session = session_of(api, agent).await?;
        api.get(&format!("/sessions/{session}/history?type={kind}")).await?.status(404)?;
        tried = true;
    }
    if tried { Ok(()) } else { Err(skip("every agent declares both histories")) }
}

async fn capability_stream_undeclared_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    let mut tried = false;
    for mode in ["delta", "message"] {
        let Ok(agent) = without(api, &format!("/stream/{mode}")) else { continue };
        let session = session_of(api, agent).await?;
        let body = json!({ "messages": [user("hello")], "stream": mode });
        api.post_turn(&session, &body).await?.refused(400)?;
        tried = true;
    }
    if tried { Ok(()) } else { Err(skip("every agent declares both streams")) }
}

async fn capability_client_tools_undeclared_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    let agent = without(api, "/application/tools")?;
    let tools = json!([client_tool("pick")]);
    let body = json!({ "agent": { "name": agent }, "tools": tools });
    api.post("/sessions", &body).await?.refused(400)?;
    let session = session_of(api, agent).await?;
    let body = json!({ "messages": [user("hello")], "tools": tools });
    api.post_turn(&session, &body).await?.refused(400)
}

async fn capability_image_undeclared_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    let mut tried = false;
    for (feature, url) in
        [("http", "https://images.example/room.png"), ("data", "data:image/gif;base64,R0lGODlhAQABAAAAACw=")]
    {
        let Ok(agent) = without(api, &format!("/image/{feature}")) else { continue };
        let session = session_of(api, agent).await?;
        let content: Value = json!([{ "type": "image", "url": url }]);
        let body = json!({ "messages": [{ "role": "user", "content": content }] });
        api.post_turn(&session, &body).await?.refused(400)?;
        tried = true;
    }
    if tried { Ok(()) } else { Err(skip("every agent takes both kinds of image")) }
}
