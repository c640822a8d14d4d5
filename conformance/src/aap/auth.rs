//! Bearer keys and ownership of sessions.

use reqwest::Method;
use reqwest::header::AUTHORIZATION;
use serde_json::json;

use super::listing::every_session;
use super::script::user;
use super::wire::{AapServerUnderTest, HttpReply};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, skip};

checks![
    auth_bearer_everywhere,
    auth_missing_is_401,
    auth_wrong_is_401,
    auth_empty_bearer_ignored,
    auth_other_key_sees_nothing,
];

async fn auth_bearer_everywhere(api: &AapServerUnderTest) -> CheckVerdict {
    api.get("/meta").await?.status(200)?;
    let session = api.any_session().await?;
    api.get("/sessions").await?.status(200)?;
    api.get(&format!("/sessions/{session}")).await?.status(200)?;
    let turn = api.post_turn(&session, &json!({ "messages": [user("hello")] })).await?;
    turn.status(200)?;
    api.delete(&format!("/sessions/{session}")).await?.status(204)?;
    Ok(())
}

async fn auth_missing_is_401(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    for reply in on_every_route(&api.with_key(None), &session).await? {
        reply.refused(401)?;
    }
    api.read_session(&session).await.map(drop)
}

async fn auth_wrong_is_401(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    for reply in on_every_route(&api.with_key(Some("not-a-key-of-this-server")), &session).await? {
        reply.refused(401)?;
    }
    api.read_session(&session).await.map(drop)
}

async fn auth_empty_bearer_ignored(api: &AapServerUnderTest) -> CheckVerdict {
    // The reference client sends these header values even without a key.
    for value in ["Bearer", "Bearer "] {
        let request = api.anonymous(Method::GET, "/sessions").header(AUTHORIZATION, value);
        api.call(request).await?.status(200)?;
    }
    Ok(())
}

async fn auth_other_key_sees_nothing(api: &AapServerUnderTest) -> CheckVerdict {
    let key = api.target.other_key.as_deref().ok_or_else(|| skip("needs a second key"))?;
    let stranger = api.with_key(Some(key));
    let session = api.any_session().await?;
    for reply in on_every_route(&stranger, &session).await? {
        // Every key may list its own sessions.
        if !reply.asked.ends_with("/sessions") {
            reply.refused(404)?;
        }
    }
    let listed = every_session(&stranger).await?;
    let seen = listed.iter().any(|entry| entry["sessionId"] == session.as_str());
    ensure(!seen, || "expected a stranger's list without the session, got it listed".to_owned())?;
    api.read_session(&session).await.map(drop)
}

/// Requests every route that needs a key.
async fn on_every_route(api: &AapServerUnderTest, session: &str) -> Result<Vec<HttpReply>, CheckStopReason> {
    let turn = json!({ "messages": [user("hello")] });
    Ok(vec![
        api.get("/sessions").await?,
        api.get(&format!("/sessions/{session}")).await?,
        api.get(&format!("/sessions/{session}/history?type=full")).await?,
        api.post_turn(session, &turn).await?,
        api.get(&format!("/sessions/{session}/stream")).await?,
        api.post(&format!("/sessions/{session}/cancel"), &json!({})).await?,
        api.delete(&format!("/sessions/{session}")).await?,
    ])
}
