//! Tests that the AAP client recovers from known faults of other AAP servers, one test per fault.

use futures_util::StreamExt as _;
use nuncio_aap::client::{ClientError, TurnCompleteness, TurnUpdate};
use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Content, Message, ToolCall};
use nuncio_core::session::AwaitedAnswer;
use nuncio_core::turn::{CallAnswer, StopReason, TurnInput};
use serde_json::{Value, json};

use crate::scripted::{ScriptedResponse, ScriptedServer, created, events, numbered, say, send};

const TURNS: &str = "POST /api/sessions/s1/turns";
const HISTORY: &str = "GET /api/sessions/s1/history";
const STREAM: &str = "GET /api/sessions/s1/stream";

fn streams() -> Value {
    json!({"stream": {"delta": {}}})
}

fn streams_and_remembers() -> Value {
    json!({"stream": {"delta": {}}, "history": {"full": {}}})
}

fn delta(text: &str) -> (&'static str, Value) {
    ("text_delta", json!({"delta": text}))
}

fn start() -> (&'static str, Value) {
    ("turn_start", json!({}))
}

fn stop(reason: &str) -> (&'static str, Value) {
    ("turn_stop", json!({"stopReason": reason}))
}

fn call(id: &str, name: &str) -> (&'static str, Value) {
    ("tool_call", json!({"toolCallId": id, "name": name, "input": {"a": 1}}))
}

fn result(id: &str, content: &str) -> (&'static str, Value) {
    ("tool_result", json!({"toolCallId": id, "content": content}))
}

fn history(messages: &Value) -> ScriptedResponse {
    ScriptedResponse::json(HISTORY, 200, &json!({"history": {"full": messages}}))
}

fn grant(id: &str) -> TurnInput {
    TurnInput::Answers(vec![CallAnswer::Permission { call: CallId::parse(id).unwrap(), granted: true, reason: None }])
}

fn received_text(updates: &[TurnUpdate]) -> String {
    let text = |update: &TurnUpdate| match update {
        TurnUpdate::Text(text) => Some(text.clone()),
        _ => None,
    };
    updates.iter().filter_map(text).collect()
}

#[tokio::test]
async fn missing_turn_stop_is_recovered_from_history() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start(), delta("It is ")])),
        history(&json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "It is 3."}]}])),
    ])
    .await;
    let mut conversation = server.conversation(&streams_and_remembers()).await;
    let (updates, ended) = say(&mut conversation, "hi").await;
    assert_eq!(updates, [TurnUpdate::Text("It is ".into()), TurnUpdate::Interrupted, TurnUpdate::Text("3.".into())]);
    assert_eq!((ended.stop.reason, ended.received), (StopReason::EndTurn, TurnCompleteness::FromHistory));
    assert_eq!(conversation.messages(), [Message::user("hi"), Message::assistant(vec![Block::text("It is 3.")])]);
}

#[tokio::test]
async fn missing_turn_stop_without_history_keeps_received_text() {
    let server =
        ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, events(&[start(), delta("It is 3.")]))])
            .await;
    let mut conversation = server.conversation(&streams()).await;
    let (updates, ended) = say(&mut conversation, "hi").await;
    assert_eq!(received_text(&updates), "It is 3.");
    assert_eq!((ended.stop.reason, ended.received), (StopReason::EndTurn, TurnCompleteness::Incomplete));
    assert_eq!(conversation.messages().len(), 2);
}

#[tokio::test]
async fn missing_turn_stop_after_client_tool_call_leaves_the_call_pending() {
    let server =
        ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, events(&[start(), call("c1", "mine")]))])
            .await;
    let mut conversation = server.conversation(&streams()).await;
    let (_, ended) = say(&mut conversation, "hi").await;
    assert_eq!(ended.stop.reason, StopReason::ToolUse);
    assert_eq!(ended.pending[0].awaits, AwaitedAnswer::Result);
}

#[tokio::test]
async fn duplicate_turn_stop_ends_turn_once() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start(), stop("error"), stop("error")])),
    ])
    .await;
    let mut conversation = server.conversation(&streams()).await;
    let (updates, ended) = say(&mut conversation, "hi").await;
    assert!(updates.is_empty(), "{updates:?}");
    assert_eq!((ended.stop.reason, ended.received), (StopReason::Error, TurnCompleteness::Whole));
}

#[tokio::test]
async fn granted_call_whose_result_is_not_streamed_is_no_longer_pending() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start(), call("c1", "add"), stop("tool_use")])),
        ScriptedResponse::stream(TURNS, events(&[start(), delta("done"), stop("end_turn")])),
    ])
    .await;
    let mut conversation = server.conversation(&streams()).await;
    let (_, ended) = say(&mut conversation, "hi").await;
    assert_eq!(ended.pending[0].awaits, AwaitedAnswer::Permission);
    let (updates, ended) = send(&mut conversation, grant("c1")).await;
    assert_eq!(updates, [TurnUpdate::Text("done".into())]);
    assert!(ended.pending.is_empty() && conversation.pending().is_empty());
    let sent = &server.asked("/turns")[1].body;
    assert_eq!(sent["messages"], json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}]));
}

#[tokio::test]
async fn denial_is_added_to_messages_when_the_server_does_not_stream_it() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start(), call("c1", "add"), stop("tool_use")])),
        ScriptedResponse::stream(TURNS, events(&[start(), delta("then not"), stop("end_turn")])),
    ])
    .await;
    let mut conversation = server.conversation(&streams()).await;
    say(&mut conversation, "hi").await;
    let no = CallAnswer::Permission { call: CallId::parse("c1").unwrap(), granted: false, reason: Some("no".into()) };
    send(&mut conversation, TurnInput::Answers(vec![no])).await;
    assert_eq!(conversation.messages()[2].text(), "Tool call denied: no");
}

#[tokio::test]
async fn duplicate_streamed_tool_result_is_added_once() {
    let updates =
        events(&[start(), call("c1", "add"), result("c1", "3"), result("c1", "3"), delta("3"), stop("end_turn")]);
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, updates)]).await;
    let mut conversation = server.conversation(&streams()).await;
    let (updates, _) = say(&mut conversation, "hi").await;
    assert_eq!(updates.len(), 3, "{updates:?}");
    let roles: Vec<_> = conversation.messages().iter().map(Message::role).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
}

#[tokio::test]
async fn duplicate_tool_result_in_history_is_added_once() {
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "toolCallId": "c1", "name": "add", "input": {}}]},
        {"role": "tool", "toolCallId": "c1", "content": "3"},
        {"role": "tool", "toolCallId": "c1", "content": "3"},
        {"role": "assistant", "content": "3"},
    ]);
    let server =
        ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, events(&[start()])), history(&messages)])
            .await;
    let mut conversation = server.conversation(&streams_and_remembers()).await;
    let (updates, ended) = say(&mut conversation, "hi").await;
    assert_eq!(conversation.messages().len(), 4);
    assert_eq!(updates.len(), 4, "{updates:?}");
    assert_eq!(ended.stop.reason, StopReason::EndTurn);
}

#[tokio::test]
async fn broken_stream_is_resumed_after_last_received_event() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, numbered(0, &[start(), delta("one ")])).cut(),
        ScriptedResponse::text(STREAM, 503, "starting"),
        ScriptedResponse::stream(STREAM, numbered(2, &[delta("two ")])).cut(),
        ScriptedResponse::stream(STREAM, numbered(3, &[delta("three"), stop("end_turn")])),
    ])
    .await;
    let mut conversation = server.conversation(&streams()).await;
    let (updates, ended) = say(&mut conversation, "count").await;
    assert_eq!(received_text(&updates), "one two three");
    assert_eq!(updates.iter().filter(|update| **update == TurnUpdate::Interrupted).count(), 1);
    assert_eq!(ended.received, TurnCompleteness::Continued);
    let behind: Vec<_> =
        server.asked("/stream").iter().map(|asked| asked.head.contains("last-event-id: 1.1")).collect();
    assert_eq!(behind, [true, true, false]);
    assert_eq!(conversation.messages()[1], Message::assistant(vec![Block::text("one two three")]));
}

#[tokio::test]
async fn turn_whose_resumed_streams_never_send_turn_stop_ends_incomplete_with_error() {
    let empty = || ScriptedResponse::stream(STREAM, numbered(2, &[]));
    let cut = ScriptedResponse::stream(TURNS, numbered(0, &[start(), delta("one ")])).cut();
    let answers = [created(), cut].into_iter().chain(std::iter::repeat_with(empty).take(6));
    let server = ScriptedServer::start(answers.collect()).await;
    let mut conversation = server.conversation(&streams()).await;
    let (_, ended) = say(&mut conversation, "count").await;
    assert_eq!((ended.stop.reason, ended.received), (StopReason::Error, TurnCompleteness::Incomplete));
}

#[tokio::test]
async fn turn_is_completed_from_history_when_its_broken_stream_cannot_be_resumed() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, numbered(0, &[start(), delta("one ")])).cut(),
        history(&json!([{"role": "user", "content": "count"}, {"role": "assistant", "content": "one two"}])),
    ])
    .await;
    let mut conversation = server.conversation(&streams_and_remembers()).await;
    let (updates, ended) = say(&mut conversation, "count").await;
    assert_eq!(received_text(&updates), "one two");
    assert_eq!(ended.received, TurnCompleteness::FromHistory);
}

#[tokio::test]
async fn history_is_polled_until_the_interrupted_turn_has_ended() {
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "toolCallId": "c1", "name": "hidden", "input": {}}]});
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start()])).cut(),
        history(&json!([{"role": "user", "content": "hi"}])),
        history(&json!([{"role": "user", "content": "hi"}, call])),
        history(&json!([{"role": "user", "content": "hi"}, call, {"role": "tool", "toolCallId": "c1", "content": "3"}, {"role": "assistant", "content": "3"}])),
    ])
    .await;
    let mut conversation = server.conversation(&streams_and_remembers()).await;
    let (updates, _) = say(&mut conversation, "hi").await;
    assert_eq!(received_text(&updates), "3");
    assert_eq!(server.asked("/history").len(), 3);
}

#[tokio::test]
async fn history_answer_to_an_earlier_identical_message_is_not_used_for_the_new_one() {
    let first = json!([{"role": "user", "content": "again"}, {"role": "assistant", "content": "first"}]);
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start(), delta("first"), stop("end_turn")])),
        ScriptedResponse::stream(TURNS, events(&[start()])).cut(),
        history(&first),
    ])
    .await;
    let mut conversation = server.conversation(&streams_and_remembers()).await;
    say(&mut conversation, "again").await;
    let (updates, ended) = say(&mut conversation, "again").await;
    assert_eq!(received_text(&updates), "");
    assert_eq!((ended.stop.reason, ended.received), (StopReason::Error, TurnCompleteness::Incomplete));
}

#[tokio::test]
async fn turn_in_deleted_session_fails_with_404_and_adds_no_message() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::json(TURNS, 404, &json!({"error": "Session not found"})),
    ])
    .await;
    let mut conversation = server.conversation(&streams()).await;
    let items: Vec<_> = conversation.send(TurnInput::User(Message::user("hi"))).collect().await;
    let refused = ClientError::Refused { status: 404, message: "Session not found".into(), code: None };
    assert_eq!(items, [Err(refused)]);
    assert!(conversation.messages().is_empty(), "a refused message is not in the history");
}

#[tokio::test]
async fn plain_text_error_is_reported_verbatim() {
    let server =
        ScriptedServer::start(vec![created(), ScriptedResponse::text(TURNS, 500, "Internal Server Error")]).await;
    let mut conversation = server.conversation(&streams()).await;
    let items: Vec<_> = conversation.send(TurnInput::User(Message::user("hi"))).collect().await;
    assert!(
        matches!(&items[..], [Err(ClientError::Refused { status: 500, message, .. })] if message == "Internal Server Error")
    );
}

#[tokio::test]
async fn json_response_to_stream_request_is_accepted() {
    let answer = json!({"stopReason": "tool_use", "messages": [
        {"role": "assistant", "content": [{"type": "text", "text": "let me"}, {"type": "tool_use", "toolCallId": "c1", "name": "mine", "input": {"a": 1}}]},
    ]});
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::json(TURNS, 200, &answer)]).await;
    let mut conversation = server.conversation(&streams()).await;
    let (updates, ended) = say(&mut conversation, "hi").await;
    assert_eq!(received_text(&updates), "let me");
    assert_eq!(ended.pending[0].call.id.as_str(), "c1");
}

#[tokio::test]
async fn json_response_that_is_no_turn_ends_the_turn_with_an_error() {
    for answer in [json!({"ok": true}), json!("ok"), json!(["ok"])] {
        let server = ScriptedServer::start(vec![created(), ScriptedResponse::json(TURNS, 200, &answer)]).await;
        let mut conversation = server.conversation(&streams()).await;
        let (_, ended) = say(&mut conversation, "hi").await;
        assert_eq!(ended.stop.reason, StopReason::Error);
        assert!(ended.stop.error.unwrap().message.contains("\"ok\""));
    }
}

#[tokio::test]
async fn turn_of_agent_without_stream_capability_requests_stream_mode_none() {
    let answer = json!({"stopReason": "end_turn", "messages": [{"role": "assistant", "content": "plain"}]});
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::json(TURNS, 200, &answer)]).await;
    let mut conversation = server.conversation(&json!({})).await;
    let (updates, _) = say(&mut conversation, "hi").await;
    assert_eq!(received_text(&updates), "plain");
    assert_eq!(server.asked("/turns")[0].body["stream"], "none");
}

#[tokio::test]
async fn order_of_text_and_thinking_blocks_is_kept() {
    let updates =
        events(&[start(), delta("a"), ("thinking_delta", json!({"delta": "hm"})), delta("b"), stop("end_turn")]);
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, updates)]).await;
    let mut conversation = server.conversation(&streams()).await;
    say(&mut conversation, "hi").await;
    let blocks = vec![Block::text("a"), Block::thinking("hm"), Block::text("b")];
    assert_eq!(conversation.messages()[1], Message::assistant(blocks));
}

#[tokio::test]
async fn blocks_keep_streamed_order_when_history_orders_them_differently() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start(), ("thinking_delta", json!({"delta": "hm"})), delta("a")])),
        history(&json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "hm"}]}])),
    ])
    .await;
    let mut conversation = server.conversation(&streams_and_remembers()).await;
    let (_, ended) = say(&mut conversation, "hi").await;
    assert_eq!(ended.received, TurnCompleteness::FromHistory);
    assert_eq!(conversation.messages()[1], Message::assistant(vec![Block::thinking("hm"), Block::text("a")]));
}

#[tokio::test]
async fn unknown_events_unknown_fields_and_plain_text_data_do_not_fail_the_turn() {
    let updates = format!(
        ": hello\n\nevent: error\ndata: oh no\n\nevent: empty\ndata:\n\n{}",
        events(&[
            ("turn_start", json!({"x": 1})),
            ("weather", json!({})),
            ("text_delta", json!({"delta": "a", "event": "x"})),
            stop("end_turn")
        ])
    );
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, updates)]).await;
    let mut conversation = server.conversation(&streams()).await;
    let (updates, ended) = say(&mut conversation, "hi").await;
    assert_eq!(received_text(&updates), "a");
    assert_eq!(updates.iter().filter(|update| matches!(update, TurnUpdate::Unknown { .. })).count(), 3);
    assert_eq!(ended.received, TurnCompleteness::Whole);
}

#[tokio::test]
async fn last_event_without_trailing_blank_line_is_parsed() {
    let updates = events(&[start(), delta("a"), stop("end_turn")]);
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, updates.trim_end())]).await;
    let mut conversation = server.conversation(&streams()).await;
    assert_eq!(say(&mut conversation, "hi").await.1.received, TurnCompleteness::Whole);
}

#[tokio::test]
async fn only_client_tool_calls_and_permission_requests_are_pending() {
    // c1 ran on the server, which sent no result for c1; c2 calls a client tool; c3 requires permission.
    let updates =
        events(&[start(), call("c1", "hidden"), delta("so"), call("c2", "mine"), call("c3", "add"), stop("tool_use")]);
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, updates)]).await;
    let mut conversation = server.conversation(&streams()).await;
    let (_, ended) = say(&mut conversation, "hi").await;
    let waiting: Vec<_> = ended.pending.iter().map(|pending| (pending.call.id.as_str(), pending.awaits)).collect();
    assert_eq!(waiting, [("c2", AwaitedAnswer::Result), ("c3", AwaitedAnswer::Permission)]);
}

#[tokio::test]
async fn calls_left_open_by_end_turn_are_pending_unless_the_agent_continued_or_the_user_stopped() {
    let open = [start(), call("c1", "add"), delta("so"), call("c2", "mine"), call("c3", "add"), call("c4", "hidden")];
    let ending = |stop: (&'static str, Value)| events(&[&open[..], &[stop]].concat());
    let cancelled = ("turn_stop", json!({"stopReason": "end_turn", "cancelled": true}));
    for (stop, reason, expected) in [
        (stop("end_turn"), StopReason::ToolUse, vec!["c2", "c3"]),
        (cancelled, StopReason::EndTurn, vec![]),
        (stop("max_tokens"), StopReason::MaxTokens, vec![]),
    ] {
        let server = ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, ending(stop))]).await;
        let mut conversation = server.conversation(&streams()).await;
        let (_, ended) = say(&mut conversation, "hi").await;
        let waiting: Vec<_> = ended.pending.iter().map(|pending| pending.call.id.as_str()).collect();
        assert_eq!((ended.stop.reason, waiting), (reason, expected));
    }
}

#[tokio::test]
async fn changed_option_is_sent_with_the_next_turn_only() {
    let answer = || ScriptedResponse::stream(TURNS, events(&[start(), stop("end_turn")]));
    let server = ScriptedServer::start(vec![created(), answer(), answer()]).await;
    let mut conversation = server.conversation(&streams()).await;
    conversation.set_option("language", "中文");
    say(&mut conversation, "hi").await;
    say(&mut conversation, "hi").await;
    let asked = server.asked(TURNS);
    assert_eq!(asked[0].body["agent"], json!({"options": {"language": "中文"}}));
    assert_eq!(asked[1].body["agent"], Value::Null);
    assert_eq!(conversation.options()["language"], "中文");
}

#[tokio::test]
async fn block_sent_as_deltas_and_whole_is_reported_once() {
    let updates = events(&[start(), delta("a "), delta("b"), ("text", json!({"text": "a b"})), stop("end_turn")]);
    let server = ScriptedServer::start(vec![created(), ScriptedResponse::stream(TURNS, updates)]).await;
    let mut conversation = server.conversation(&streams()).await;
    assert_eq!(received_text(&say(&mut conversation, "hi").await.0), "a b");
}

#[tokio::test]
async fn resumed_session_has_unanswered_calls_pending() {
    let server = ScriptedServer::start(vec![
        ScriptedResponse::json("GET /api/sessions/s1 ", 200, &json!({"sessionId": "s1", "agent": {"name": "other"}, "tools": [{"name": "mine", "description": "", "parameters": {}}]})),
        ScriptedResponse::json("GET /api/meta", 200, &json!({"version": 3, "agents": [{"name": "other", "version": "1.0.0", "capabilities": streams_and_remembers()}]})),
        history(&json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "toolCallId": "c1", "name": "mine", "input": {}},
                {"type": "tool_use", "toolCallId": "c2", "name": "add", "input": {}},
                {"type": "tool_use", "toolCallId": "c3", "name": "add", "input": {}},
            ]},
            {"role": "tool", "toolCallId": "c2", "content": "3"},
        ])),
    ])
    .await;
    let conversation = nuncio_aap::client::AapConversation::resume(server.client(), "s1").await.unwrap();
    let waiting: Vec<_> =
        conversation.pending().iter().map(|pending| (pending.call.id.as_str(), pending.awaits)).collect();
    assert_eq!(waiting, [("c1", AwaitedAnswer::Result), ("c3", AwaitedAnswer::Permission)]);
}

#[tokio::test]
async fn result_of_a_client_tool_is_added_to_the_messages() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::stream(TURNS, events(&[start(), call("c1", "mine"), stop("tool_use")])),
        ScriptedResponse::stream(TURNS, events(&[start(), delta("thanks"), stop("end_turn")])),
    ])
    .await;
    let mut conversation = server.conversation(&streams()).await;
    say(&mut conversation, "hi").await;
    let answer = CallAnswer::Result {
        call: CallId::parse("c1").unwrap(),
        content: Content::from("42"),
        extra: serde_json::Map::new(),
    };
    send(&mut conversation, TurnInput::Answers(vec![answer])).await;
    let input = json!({"a": 1}).as_object().unwrap().clone();
    let call =
        ToolCall { id: CallId::parse("c1").unwrap(), name: nuncio_core::ids::ToolName::parse("mine").unwrap(), input };
    assert_eq!(
        conversation.messages(),
        [
            Message::user("hi"),
            Message::assistant(vec![Block::tool_use(call)]),
            Message::tool(CallId::parse("c1").unwrap(), Content::from("42")),
            Message::assistant(vec![Block::text("thanks")]),
        ]
    );
}
