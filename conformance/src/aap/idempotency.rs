//! `Idempotency-Key`: a repeated request is executed once.

use serde_json::{Value, json};

use super::script::{add, echo, play, sleep, text};
use super::turn::{STREAMED, UnstreamedTurnResponse};
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, equal};

checks![
    idempotent_session,
    idempotent_session_in_parallel,
    idempotent_session_other_body_is_422,
    idempotent_turn,
    idempotent_turn_streamed,
    idempotent_turn_while_running,
    idempotent_turn_other_body_is_422,
    idempotent_without_key_runs_again,
];

const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// Unused idempotency key, made from a session id of the server.
async fn fresh_key(api: &AapServerUnderTest) -> Result<String, CheckStopReason> {
    Ok(format!("conformance-{}", api.any_session().await?))
}

async fn idempotent_session(api: &AapServerUnderTest) -> CheckVerdict {
    let key = fresh_key(api).await?;
    let body = json!({ "agent": { "name": api.any_agent()? } });
    let first = api.created(&api.post_with("/sessions", &body, &[(IDEMPOTENCY_HEADER, &key)]).await?)?;
    let second = api.created(&api.post_with("/sessions", &body, &[(IDEMPOTENCY_HEADER, &key)]).await?)?;
    equal("sessionId of the repetition", first, second)
}

async fn idempotent_session_in_parallel(api: &AapServerUnderTest) -> CheckVerdict {
    let key = fresh_key(api).await?;
    let body = json!({ "agent": { "name": api.any_agent()? } });
    let headers = [(IDEMPOTENCY_HEADER, key.as_str())];
    let again = (0..6).map(|_| api.post_with("/sessions", &body, &headers));
    let replies = futures_util::future::try_join_all(again).await?;
    let mut made = Vec::new();
    for reply in &replies {
        made.push(api.created(reply)?);
    }
    made.dedup();
    equal("sessions made", 1, made.len())
}

async fn idempotent_session_other_body_is_422(api: &AapServerUnderTest) -> CheckVerdict {
    let key = fresh_key(api).await?;
    let body = json!({ "agent": { "name": api.any_agent()? } });
    api.created(&api.post_with("/sessions", &body, &[(IDEMPOTENCY_HEADER, &key)]).await?)?;
    let other = json!({ "agent": { "name": api.any_agent()? }, "messages": [{ "role": "user", "content": "hi" }] });
    api.post_with("/sessions", &other, &[(IDEMPOTENCY_HEADER, &key)]).await?.refused(422)
}

/// Session and body of a turn that calls `add`.
async fn adding(api: &AapServerUnderTest, mode: &str) -> Result<(String, Value), CheckStopReason> {
    let session = api.session(json!({ "tools": [{ "name": "add", "trust": true }] })).await?;
    let steps = [vec![add("c1")], vec![text("done: "), echo("results")]];
    Ok((session, json!({ "messages": [play(&steps)], "stream": mode })))
}

/// Checks that the turn and its tool ran once.
async fn ran_once(api: &AapServerUnderTest, session: &str) -> CheckVerdict {
    let history = api.history(session, "full").await?;
    let roles: Vec<&str> = history.iter().filter_map(|message| message["role"].as_str()).collect();
    equal("roles in history", vec!["user", "assistant", "tool", "assistant"], roles)
}

async fn idempotent_turn(api: &AapServerUnderTest) -> CheckVerdict {
    let (session, body) = adding(api, "none").await?;
    let (path, key) = (format!("/sessions/{session}/turns"), fresh_key(api).await?);
    let first =
        UnstreamedTurnResponse::read(api.post_with(&path, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?.status(200)?)?;
    let second =
        UnstreamedTurnResponse::read(api.post_with(&path, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?.status(200)?)?;
    equal("answer to the repetition", &first.body, &second.body)?;
    ran_once(api, &session).await
}

async fn idempotent_turn_streamed(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let (session, body) = adding(api, mode).await?;
        let key = fresh_key(api).await?;
        let first = api.open(&session, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?.finish().await?;
        let second = api.open(&session, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?.finish().await?;
        let (first, second) = (first.bytes_after(0), second.bytes_after(0));
        let (first, second) = (String::from_utf8_lossy(&first), String::from_utf8_lossy(&second));
        equal(&format!("bytes of the repetition in {mode}"), first, second)?;
        ran_once(api, &session).await?;
    }
    Ok(())
}

async fn idempotent_turn_while_running(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let steps = [vec![text("one "), sleep(1500), text("two")]];
    let body = json!({ "messages": [play(&steps)], "stream": "delta" });
    let key = fresh_key(api).await?;
    let mut first = api.open(&session, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?;
    first.until("text_delta").await?;
    // The client repeats the request while the turn still runs.
    let second = api.open(&session, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?.finish().await?;
    let first = first.finish().await?;
    equal("events of the repetition", &first.events, &second.events)?;
    let history = api.history(&session, "full").await?;
    equal("messages in history", 2, history.len())
}

async fn idempotent_turn_other_body_is_422(api: &AapServerUnderTest) -> CheckVerdict {
    let (session, body) = adding(api, "none").await?;
    let (path, key) = (format!("/sessions/{session}/turns"), fresh_key(api).await?);
    api.post_with(&path, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?.status(200)?;
    let other = json!({ "messages": [play(&[vec![text("something else")]])] });
    api.post_with(&path, &other, &[(IDEMPOTENCY_HEADER, &key)]).await?.refused(422)?;
    ran_once(api, &session).await
}

async fn idempotent_without_key_runs_again(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let body = json!({ "messages": [play(&[vec![text("again")]])] });
    api.ask(&session, &body).await?;
    api.ask(&session, &body).await?;
    equal("messages in history", 4, api.history(&session, "full").await?.len())
}
