//! A stream that is resumed while its turn still runs continues with exactly the bytes of an uninterrupted stream.
//! `nuncio-aap` tests the same for finished turns.

use std::time::Duration;

use nuncio_core::event::TurnEventLog;
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_testkit::{EventStream, Gateway, ManualClock, Method, ReceivedSseEvent};
use serde_json::{Value, json};

use crate::agents::{DESK, call, desk, echo};

const PAUSE: Duration = Duration::from_secs(7);

/// A script with every kind of output, with pauses inside blocks, between blocks and between steps.
fn script() -> Value {
    let pause = json!({"sleep": 7000});
    json!([
        [
            {"thinking": "hm 让我看看 \u{1F914} "}, pause, {"thinking": "ja"},
            {"text": "Grüße, \"Welt\"\n\tund so weiter "}, pause,
            call("c1", "echo", json!({"ü": "\n\n"})), call("c2", "echo", json!({})), call("c3", "none", json!({})),
        ],
        [pause, {"deltas": 40, "delta": "ж".repeat(700)}, pause, {"text": "\u{feff}end\r\n"}],
    ])
}

const PAUSES: usize = 4;

/// Reads a stream to its end in its own task.
fn read(stream: EventStream) -> tokio::task::JoinHandle<String> {
    tokio::spawn(stream.rest_raw())
}

fn behind(whole: &str, id: &str) -> String {
    let events = ReceivedSseEvent::parse(whole);
    let number = |id: &str| id.split_once('.').unwrap().1.parse::<usize>().unwrap();
    events.into_iter().filter(|event| number(&event.id) > number(id)).map(|event| event.raw).collect()
}

/// Starts the turn and, at every pause, resumes its stream in both modes after each of the latest events and every
/// fifth of the earlier ones.
async fn taken_up_everywhere(mode: &str) {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true)]).await;
    let local = Caller::new(Principal::Local);
    let first = read(aap.stream(&session, mode, script()).await);
    let mut taken_up = Vec::new();
    for _ in 0..PAUSES {
        clock.wait_for_sleeper(PAUSE).await;
        let turn = gateway.engine().conversations().turn(&local, &session, None).await.unwrap();
        let written = turn.read(TurnEventLog::len);
        // All of the latest events, and a few of those before earlier pauses.
        for event in (0..written).filter(|event| event % 5 == 0 || written - event < 12) {
            let id = format!("1.{event}");
            for mode in ["delta", "message"] {
                taken_up.push((mode, id.clone(), read(aap.resume(&session, mode, Some(&id)).await)));
            }
        }
        clock.advance(PAUSE);
    }
    let first = first.await.unwrap();
    let by_piece = aap.resume(&session, "delta", None).await.rest_raw().await;
    let by_block = aap.resume(&session, "message", None).await.rest_raw().await;
    let whole = |mode: &str| if mode == "delta" { &by_piece } else { &by_block };
    assert_eq!(&first, whole(mode), "the first reader received the whole stream");
    assert!(
        ReceivedSseEvent::parse(&by_piece).len() > 50 && by_piece.len() > 2 * 16 * 1024,
        "the stream is longer than one write"
    );
    for (mode, id, rest) in taken_up {
        assert_eq!(rest.await.unwrap(), behind(whole(mode), &id), "{mode} behind {id}");
    }
    // The same holds after the turn and after a restart.
    let data = gateway.stop().await;
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).data(data).start().await;
    let aap = gateway.aap();
    for mode in ["delta", "message"] {
        assert_eq!(&aap.resume(&session, mode, None).await.rest_raw().await, whole(mode));
        for event in ReceivedSseEvent::parse(whole(mode)) {
            let rest = aap.resume(&session, mode, Some(&event.id)).await.rest_raw().await;
            assert_eq!(rest, behind(whole(mode), &event.id), "{mode} behind {}", event.id);
        }
    }
}

#[tokio::test]
async fn delta_stream_can_be_resumed_after_any_event() {
    taken_up_everywhere("delta").await;
}

#[tokio::test]
async fn message_stream_can_be_resumed_after_any_event() {
    taken_up_everywhere("message").await;
}

#[tokio::test]
async fn turn_that_was_not_streamed_can_be_streamed_afterwards() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true)]).await;
    let answer = aap.play(&session, json!([[call("c1", "echo", json!({}))], [{"text": "two words"}]])).await;
    let response = aap.request(Method::GET, &format!("/sessions/{session}/stream")).send().await.unwrap();
    let events = EventStream::new(response).rest().await;
    let names: Vec<_> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(names, ["turn_start", "tool_call", "tool_result", "text_delta", "text_delta", "turn_stop"]);
    assert_eq!(events[5].data["turnId"], answer["turnId"]);
}

#[tokio::test]
async fn stream_resumes_the_turn_of_the_event_id_or_the_last_turn_without_one() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    aap.say(&session, "one").await;
    aap.say(&session, "two").await;
    let text = |events: Vec<ReceivedSseEvent>| -> String {
        events.iter().filter_map(|event| event.data["delta"].as_str()).collect()
    };
    assert_eq!(text(aap.resume(&session, "delta", Some("1.0")).await.rest().await), "You said: one");
    assert_eq!(text(aap.resume(&session, "delta", Some("2.0")).await.rest().await), "You said: two");
    assert_eq!(
        text(aap.resume(&session, "delta", None).await.rest().await),
        "You said: two",
        "the last one by default"
    );
}

#[tokio::test]
async fn malformed_or_unknown_event_id_is_refused_and_id_past_the_end_gets_turn_stop() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let ask = async |id: &str| {
        let request = aap.request(Method::GET, &format!("/sessions/{session}/stream")).header("Last-Event-ID", id);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        (status, body["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(ask("1.0").await, (404, "turn_not_found".to_owned()), "no turn yet");
    aap.say(&session, "hello").await;
    for wrong in ["", "1", "x", "1.x", "-1.0", "1.0.0", "1.99999999999999999999999"] {
        assert_eq!(ask(wrong).await, (400, "bad_event_id".to_owned()), "{wrong:?}");
    }
    for missing in ["0.0", "2.0", "18446744073709551615.0"] {
        assert_eq!(ask(missing).await, (404, "turn_not_found".to_owned()), "{missing}");
    }
    for past in ["1.1000", "1.18446744073709551615"] {
        let told = aap.resume(&session, "delta", Some(past)).await.rest().await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].event, "turn_stop");
    }
}

#[tokio::test]
async fn running_turn_resumed_past_its_last_event_gets_turn_stop() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).clock(&clock).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let first = read(aap.stream(&session, "delta", json!([[{"sleep": 7000}, {"text": "hi"}]])).await);
    clock.wait_for_sleeper(PAUSE).await;
    let past = aap.resume(&session, "delta", Some("1.1000")).await;
    clock.advance(PAUSE);
    first.await.unwrap();
    let told = past.rest().await;
    assert_eq!(told.last().map(|event| event.event.as_str()), Some("turn_stop"), "{told:?}");
}
