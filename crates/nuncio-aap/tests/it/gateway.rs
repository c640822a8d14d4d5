//! Tests of the AAP client against a real gateway.

use futures_util::StreamExt as _;
use nuncio_aap::client::{AapConversation, HistoryKind, NewSession, TurnCompleteness, TurnEvent, TurnUpdate};
use nuncio_core::message::Message;
use nuncio_core::session::AwaitedAnswer;
use nuncio_core::turn::{CallAnswer, StopReason, StreamMode, TurnInput};
use nuncio_testkit::Gateway;
use serde_json::{Value, json};

use crate::scripted::{client, say, send};

const AGENT: &str = r#"
[agent]
name = "script"
version = "1.0.0"
description = "Plays scripts."

[brain]
kind = "script"

[[tool]]
name = "echo"
description = "Says it back."
input = { type = "object" }
run = { command = ["echo", "there"] }
"#;

async fn gateway() -> Gateway {
    Gateway::builder().agent("script", AGENT).start().await
}

fn play(script: &Value) -> String {
    json!({"script": script}).to_string()
}

async fn conversation(gateway: &Gateway) -> AapConversation {
    let client = client(&format!("{}/aap", gateway.url()));
    let agent = client.meta().await.unwrap().agent("script").unwrap().clone();
    let mut new = NewSession::default();
    new.agent = serde_json::from_value(json!({"name": "script", "tools": [{"name": "echo"}]})).unwrap();
    new.tools = serde_json::from_value(json!([{"name": "mine", "description": "", "parameters": {}}])).unwrap();
    AapConversation::begin(client, agent, new).await.unwrap()
}

#[tokio::test]
async fn client_and_server_histories_have_the_same_messages_after_tool_calls() {
    let gateway = gateway().await;
    let mut conversation = conversation(&gateway).await;
    let script = json!([
        [{"thinking": "hm "}, {"text": "let me see"}, {"tool": {"id": "c1", "name": "echo", "input": {}}}, {"tool": {"id": "c2", "name": "mine", "input": {}}}],
        [{"echo": "results"}],
    ]);
    let (_, ended) = say(&mut conversation, &play(&script)).await;
    assert_eq!(ended.stop.reason, StopReason::ToolUse);
    assert_eq!(ended.pending.len(), 2);
    let answers = ended.pending.into_iter().map(|pending| match pending.awaits {
        AwaitedAnswer::Permission => CallAnswer::Permission { call: pending.call.id, granted: true, reason: None },
        AwaitedAnswer::Result => {
            CallAnswer::Result { call: pending.call.id, content: "mine too".into(), extra: serde_json::Map::new() }
        }
    });
    let (updates, ended) = send(&mut conversation, TurnInput::Answers(answers.collect())).await;
    assert_eq!((ended.stop.reason, ended.received), (StopReason::EndTurn, TurnCompleteness::Whole));
    assert!(updates.iter().any(|update| matches!(update, TurnUpdate::Result { call, .. } if call.as_str() == "c1")));
    let theirs = conversation.client().history(conversation.session(), HistoryKind::Full).await.unwrap();
    let sorted = |messages: &[Message]| {
        let mut texts: Vec<_> = messages.iter().map(|message| format!("{message:?}")).collect();
        texts.sort();
        texts
    };
    assert_eq!(sorted(conversation.messages()), sorted(&theirs));
}

#[tokio::test]
async fn turn_can_be_cancelled_and_session_deleted() {
    let gateway = gateway().await;
    let mut conversation = conversation(&gateway).await;
    let (client, session) = (conversation.client().clone(), conversation.session().to_owned());
    let mut exchange =
        conversation.send(TurnInput::User(Message::user(play(&json!([[{"text": "so far "}, {"sleep": 600_000}]])))));
    assert_eq!(exchange.next().await, Some(Ok(TurnUpdate::Started)));
    assert_eq!(exchange.next().await, Some(Ok(TurnUpdate::Text("so ".into()))));
    client.cancel(&session).await.unwrap();
    let Some(Ok(TurnUpdate::Ended(ended))) = exchange.collect::<Vec<_>>().await.pop() else { panic!() };
    assert!(ended.stop.cancelled);
    conversation.delete().await.unwrap();
    assert!(client.session(&session).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn stream_resumed_after_any_event_returns_the_remaining_events() {
    let gateway = gateway().await;
    let mut conversation = conversation(&gateway).await;
    say(&mut conversation, &play(&json!([[{"text": "a b c d"}]]))).await;
    let (client, session) = (conversation.client(), conversation.session());
    let whole: Vec<_> = client.resume(session, None).await.unwrap().map(Result::unwrap).collect().await;
    assert!(matches!(whole.last().unwrap().event, TurnEvent::TurnStop(_)));
    for at in 0..whole.len() {
        let rest: Vec<_> =
            client.resume(session, whole[at].id.as_deref()).await.unwrap().map(Result::unwrap).collect().await;
        assert_eq!(rest, whole[at + 1..]);
    }
}

#[tokio::test]
async fn tool_trusted_after_session_start_runs_in_next_turn_without_permission_request() {
    let gateway = gateway().await;
    let mut conversation = conversation(&gateway).await;
    conversation.trust("echo");
    let script = json!([[{"tool": {"id": "c1", "name": "echo", "input": {}}}], [{"text": "done"}]]);
    let (_, ended) = say(&mut conversation, &play(&script)).await;
    assert_eq!(ended.stop.reason, StopReason::EndTurn);
}

#[tokio::test]
async fn every_stream_mode_yields_the_same_text_and_a_turn_stop() {
    let gateway = gateway().await;
    for mode in [StreamMode::Delta, StreamMode::Message, StreamMode::None] {
        let conversation = conversation(&gateway).await;
        let body =
            nuncio_aap::client::TurnBody::new(&TurnInput::User(Message::user(play(&json!([[{"text": "a b"}]])))), mode);
        let stream = conversation.client().turn(conversation.session(), &body).await.unwrap();
        let events: Vec<_> = stream.map(|updates| updates.unwrap().event).collect().await;
        let text: String = events
            .iter()
            .filter_map(|event| match event {
                TurnEvent::TextDelta(text) | TurnEvent::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "a b", "{mode:?}");
        assert!(matches!(events.last(), Some(TurnEvent::TurnStop(_))));
    }
}
