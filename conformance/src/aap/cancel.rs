//! `POST /sessions/:id/cancel`.

use serde_json::{Value, json};

use super::script::{play, sleep, text};
use super::turn::{STREAMED, UnstreamedTurnResponse};
use super::wire::{AapServerUnderTest, HttpReply};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal};

checks![
    cancel_ends_a_streamed_turn,
    cancel_ends_a_none_turn,
    cancel_leaves_the_session_usable,
    cancel_without_a_turn_is_refused,
    cancel_unknown_session_is_404,
];

/// A delay longer than any check may take, in milliseconds.
const LONG_DELAY_MS: u32 = 600_000;

async fn cancel(api: &AapServerUnderTest, session: &str) -> Result<HttpReply, CheckStopReason> {
    let reply = api.post(&format!("/sessions/{session}/cancel"), &json!({})).await?;
    ensure((200..300).contains(&reply.code), || {
        format!("{}: expected success, got {} {}", reply.asked, reply.code, reply.text())
    })?;
    Ok(reply)
}

fn cancelled(stop: &str, end: &Value) -> CheckVerdict {
    equal("stopReason", "end_turn", stop)?;
    equal("cancelled", &json!(true), &end["cancelled"])
}

async fn cancel_ends_a_streamed_turn(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(json!({})).await?;
        let body = json!({ "messages": [play(&[vec![sleep(LONG_DELAY_MS), text("never")]])], "stream": mode });
        let mut live = api.open(&session, &body, &[]).await?;
        live.until("turn_start").await?;
        cancel(api, &session).await?;
        let turn = live.finish().await?;
        cancelled(turn.stop(), &turn.stop_data())?;
        equal("text", "", turn.text().as_str())?;
    }
    Ok(())
}

async fn cancel_ends_a_none_turn(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let body = json!({ "messages": [play(&[vec![sleep(LONG_DELAY_MS), text("never")]])] });
    let turn = api.post_turn(&session, &body);
    let cancel = async {
        // The turn may not have begun yet, so the cancel request is repeated.
        loop {
            let reply = api.post(&format!("/sessions/{session}/cancel"), &json!({})).await?;
            if (200..300).contains(&reply.code) {
                return Ok::<_, CheckStopReason>(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let (reply, ()) = futures_util::future::try_join(turn, cancel).await?;
    let answer = UnstreamedTurnResponse::read(reply.status(200)?)?;
    cancelled(answer.stop(), &answer.body)
}

async fn cancel_leaves_the_session_usable(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let body = json!({ "messages": [play(&[vec![text("begun "), sleep(LONG_DELAY_MS)]])], "stream": "delta" });
    let mut live = api.open(&session, &body, &[]).await?;
    live.until("text_delta").await?;
    cancel(api, &session).await?;
    live.finish().await?;
    let history = api.history(&session, "full").await?;
    equal("first message", Some(&body["messages"][0]), history.first())?;
    let answer = api.run_script(&session, &[vec![text("here I am")]]).await?;
    equal("text of the next turn", "here I am", answer.text().as_str())
}

async fn cancel_without_a_turn_is_refused(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let reply = api.post(&format!("/sessions/{session}/cancel"), &json!({})).await?;
    ensure(matches!(reply.code, 404 | 409), || {
        format!("{}: expected 404 or 409, got {} {}", reply.asked, reply.code, reply.text())
    })?;
    reply.error_body()
}

async fn cancel_unknown_session_is_404(api: &AapServerUnderTest) -> CheckVerdict {
    api.post("/sessions/nobody/cancel", &json!({})).await?.refused(404)
}
