//! Concurrent requests: one turn per session, and isolation of sessions.

use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::script::{call, echo, play, sleep, text};
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, contains, ensure, equal, fail};

checks![
    concurrency_second_turn_is_409,
    concurrency_one_of_many_wins,
    concurrency_sessions_do_not_mix,
    concurrency_busy_session_is_readable,
];

async fn concurrency_second_turn_is_409(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let first = json!({ "messages": [play(&[vec![text("one "), sleep(1500), text("two")]])], "stream": "delta" });
    let mut live = api.open(&session, &first, &[]).await?;
    live.until("text_delta").await?;
    for mode in ["none", "delta", "message"] {
        let second = json!({ "messages": [play(&[vec![text("me too")]])], "stream": mode });
        api.post_turn(&session, &second).await?.refused(409)?;
    }
    let turn = live.finish().await?;
    equal("text of the first turn", "one two", turn.text().as_str())?;
    equal("messages in history", 2, api.history(&session, "full").await?.len())?;
    let answer = api.run_script(&session, &[vec![text("my turn now")]]).await?;
    equal("text of the next turn", "my turn now", answer.text().as_str())
}

async fn concurrency_one_of_many_wins(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let body = json!({ "messages": [play(&[vec![sleep(700), text("won")]])] });
    let replies = try_join_all((0..8).map(|_| api.post_turn(&session, &body))).await?;
    let won = replies.iter().filter(|reply| reply.code == 200).count();
    for reply in replies.iter().filter(|reply| reply.code != 200) {
        reply.refused(409)?;
    }
    ensure(won >= 1, || "expected a turn to run, got 409 for all".to_owned())?;
    equal("messages in history", won * 2, api.history(&session, "full").await?.len())
}

async fn concurrency_sessions_do_not_mix(api: &AapServerUnderTest) -> CheckVerdict {
    try_join_all((0..20).map(|n| run_one_session_of_twenty(api, n))).await.map(drop)
}

/// Runs a session that outputs and looks up only its own number `n`.
async fn run_one_session_of_twenty(api: &AapServerUnderTest, n: usize) -> Result<(), CheckStopReason> {
    let session = api.session(json!({ "tools": [{ "name": "lookup", "trust": true }] })).await?;
    let mine = format!("mine-{n}-of-twenty");
    let lookup = call("lookup", json!({ "key": mine }), "c1");
    let steps = [vec![text(format!("I am {n}. ")), sleep(50), lookup], vec![echo("results")]];
    let turn = api.play(&session, "delta", &steps).await?;
    contains("text", &format!("I am {n}. "), &turn.text())?;
    contains("text", &format!("value-of-{mine}"), &turn.text())?;
    let history = Value::Array(api.history(&session, "full").await?).to_string();
    for other in (0..20).filter(|other| *other != n) {
        let foreign = format!("mine-{other}-of-twenty");
        if turn.text().contains(&foreign) || history.contains(&foreign) {
            return Err(fail(format!("expected session {n} alone, got words of session {other}")));
        }
    }
    Ok(())
}

async fn concurrency_busy_session_is_readable(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let body = json!({ "messages": [play(&[vec![text("one "), sleep(1500), text("two")]])], "stream": "delta" });
    let mut live = api.open(&session, &body, &[]).await?;
    live.until("text_delta").await?;
    api.read_session(&session).await?;
    let history = api.history(&session, "full").await?;
    equal("history while the turn runs", Some(&body["messages"][0]), history.first())?;
    live.finish().await.map(drop)
}
