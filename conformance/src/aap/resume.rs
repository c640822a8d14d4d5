//! `GET /sessions/:id/stream`: resuming a stream with the same bytes.

use reqwest::Method;
use serde_json::{Value, json};

use super::script::{BrainScriptStep, add, echo, play, sleep, text, thinking};
use super::turn::{STREAMED, StreamedTurn, TurnEventStream, raw};
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal, fail};

checks![
    resume_finished_from_every_event,
    resume_finished_from_the_start,
    resume_while_running,
    resume_by_many_readers,
    resume_unknown_id_is_400,
    resume_without_a_turn_is_404,
    resume_after_disconnect,
    resume_disconnected_turn_is_stored,
    resume_disconnected_none_turn_is_stored,
    resume_is_the_latest_turn,
];

fn everything() -> [BrainScriptStep; 2] {
    [vec![thinking("hm "), text("adding now "), add("c1")], vec![text("done "), echo("results")]]
}

fn trusted() -> Value {
    json!({ "tools": [{ "name": "add", "trust": true }] })
}

/// Opens the session's stream after the event `after`.
async fn reopen(
    api: &AapServerUnderTest,
    session: &str,
    after: Option<&str>,
) -> Result<TurnEventStream, CheckStopReason> {
    let mut request = api.request(Method::GET, &format!("/sessions/{session}/stream"));
    if let Some(id) = after {
        request = request.header("last-event-id", id);
    }
    let (asked, response) = api.send(request).await?;
    TurnEventStream::new(asked, response).await
}

/// Bytes of the session's stream after the event `after`. Status 204 means that nothing is left.
async fn bytes(api: &AapServerUnderTest, session: &str, after: Option<&str>) -> Result<Vec<u8>, CheckStopReason> {
    let mut request = api.request(Method::GET, &format!("/sessions/{session}/stream"));
    if let Some(id) = after {
        request = request.header("last-event-id", id);
    }
    let (asked, response) = api.send(request).await?;
    if response.status() == 204 {
        return Ok(Vec::new());
    }
    Ok(raw(&TurnEventStream::new(asked, response).await?.rest().await?.0))
}

fn same_bytes(what: &str, expected: &[u8], got: &[u8]) -> CheckVerdict {
    equal(what, String::from_utf8_lossy(expected), String::from_utf8_lossy(got))
}

fn id_of(turn: &StreamedTurn, index: usize) -> Result<&str, CheckStopReason> {
    let event = &turn.events[index];
    event.id.as_deref().ok_or_else(|| fail(format!("expected an `id:` on {}, got none", event.name)))
}

async fn resume_finished_from_every_event(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(trusted()).await?;
        let turn = api.play(&session, mode, &everything()).await?;
        for index in 0..turn.events.len() {
            let got = bytes(api, &session, Some(id_of(&turn, index)?)).await?;
            same_bytes(&format!("after event {index} in {mode}"), &turn.bytes_after(index + 1), &got)?;
        }
    }
    Ok(())
}

async fn resume_finished_from_the_start(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(trusted()).await?;
        let turn = api.play(&session, mode, &everything()).await?;
        let got = bytes(api, &session, None).await?;
        same_bytes(&format!("without Last-Event-ID in {mode}"), &turn.bytes_after(0), &got)?;
    }
    Ok(())
}

/// Starts a turn that pauses after its first words; returns its session and its stream, read up to the pause.
async fn paused(api: &AapServerUnderTest) -> Result<(String, TurnEventStream), CheckStopReason> {
    let session = api.session(json!({})).await?;
    let steps = [vec![text("one two "), sleep(1500), text("three four")]];
    let body = json!({ "messages": [play(&steps)], "stream": "delta" });
    let mut live = api.open(&session, &body, &[]).await?;
    live.until("text_delta").await?;
    Ok((session, live))
}

fn last_id(live: &TurnEventStream) -> Result<String, CheckStopReason> {
    let id = live.events.last().and_then(|event| event.id.clone());
    id.ok_or_else(|| fail("expected an `id:` on every event, got none"))
}

async fn resume_while_running(api: &AapServerUnderTest) -> CheckVerdict {
    let (session, live) = paused(api).await?;
    let (after, seen) = (last_id(&live)?, live.events.len());
    let second = reopen(api, &session, Some(&after)).await?;
    let (second, _) = second.rest().await?;
    let turn = live.finish().await?;
    same_bytes("the second reader", &turn.bytes_after(seen), &raw(&second))
}

async fn resume_by_many_readers(api: &AapServerUnderTest) -> CheckVerdict {
    let (session, live) = paused(api).await?;
    let after = live.events[0].id.clone().ok_or_else(|| fail("expected an `id:` on turn_start, got none"))?;
    let readers = (0..5).map(|_| bytes(api, &session, Some(&after)));
    let read = futures_util::future::try_join_all(readers).await?;
    let turn = live.finish().await?;
    for got in read {
        same_bytes("one of five readers", &turn.bytes_after(1), &got)?;
    }
    Ok(())
}

async fn resume_unknown_id_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    api.play(&session, "delta", &[vec![text("hello")]]).await?;
    for id in ["not-an-id", "999999", "-1", "1-999999", "999999-1", "\u{e9}"] {
        let path = format!("/sessions/{session}/stream");
        let request = api.request(Method::GET, &path).header("last-event-id", id);
        api.call(request).await?.refused(400)?;
    }
    Ok(())
}

async fn resume_without_a_turn_is_404(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    api.get(&format!("/sessions/{session}/stream")).await?.refused(404)
}

async fn resume_after_disconnect(api: &AapServerUnderTest) -> CheckVerdict {
    let (session, live) = paused(api).await?;
    let after = last_id(&live)?;
    let before = StreamedTurn { events: live.events.clone(), comments: 0 }.text();
    drop(live);
    let (rest, _) = reopen(api, &session, Some(&after)).await?.rest().await?;
    let rest = StreamedTurn { events: rest, comments: 0 };
    equal("stopReason", "end_turn", rest.stop())?;
    equal("text", "one two three four".to_owned(), before + &rest.text())
}

async fn resume_disconnected_turn_is_stored(api: &AapServerUnderTest) -> CheckVerdict {
    let (session, live) = paused(api).await?;
    drop(live);
    stored(api, &session, "one two three four").await
}

async fn resume_disconnected_none_turn_is_stored(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let steps = [vec![text("one two "), sleep(1000), text("three four")]];
    let body = json!({ "messages": [play(&steps)] });
    let path = format!("/sessions/{session}/turns");
    let request = api.posting(&path, &body, &[]).timeout(std::time::Duration::from_millis(300));
    let given_up = request.send().await.is_err_and(|error| error.is_timeout());
    ensure(given_up, || "expected the answer after the client gave up, got it before".to_owned())?;
    stored(api, &session, "one two three four").await
}

/// Waits until the session's last message is the agent's, then checks its text. The time limit of the check ends the
/// wait.
async fn stored(api: &AapServerUnderTest, session: &str, expected: &str) -> CheckVerdict {
    loop {
        let history = api.history(session, "full").await?;
        let last = history.last().cloned().unwrap_or_default();
        if last["role"] == "assistant" {
            return equal("stored text", expected, super::script::flat(&last["content"]).as_str());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn resume_is_the_latest_turn(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    api.play(&session, "delta", &[vec![text("first")]]).await?;
    let second = api.play(&session, "delta", &[vec![text("second")]]).await?;
    let got = bytes(api, &session, None).await?;
    same_bytes("without Last-Event-ID", &second.bytes_after(0), &got)?;
    let got = bytes(api, &session, Some(id_of(&second, 0)?)).await?;
    same_bytes("after turn_start", &second.bytes_after(1), &got)
}
