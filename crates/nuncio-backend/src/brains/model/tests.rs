//! What is asked and what is heard, without a network.

use nuncio_core::agent::Provider;
use nuncio_core::sse::{SseDecoder, SseLimits};
use nuncio_core::turn::{StopReason, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::anthropic::AnthropicReading;
use super::openai::OpenAiReading;
use super::reading::{Finish, Heard, Reading, Stumble};

mod requests;

/// What came of an answer.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Pieces of one kind joined: how they are cut is the network's affair.
    heard: Vec<Heard>,
    finish: Option<Finish>,
    stumble: Option<Stumble>,
}

fn hear<'a>(mut reading: Box<dyn Reading>, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut decoder = SseDecoder::new(SseLimits::default());
    let (mut pieces, mut stumble) = (Vec::new(), None);
    for chunk in chunks {
        decoder.feed(chunk).unwrap();
        while let Some(event) = decoder.next_event()
            && stumble.is_none()
        {
            stumble = reading.event(&event.data, &mut pieces).err();
        }
    }
    let mut heard: Vec<Heard> = Vec::new();
    for piece in pieces {
        match (heard.last_mut(), piece) {
            (Some(Heard::Text(before)), Heard::Text(text)) | (Some(Heard::Thinking(before)), Heard::Thinking(text)) => {
                before.push_str(&text);
            }
            (_, Heard::Text(text) | Heard::Thinking(text)) if text.is_empty() => {}
            (_, piece) => heard.push(piece),
        }
    }
    Outcome { heard, finish: reading.finish(), stumble }
}

fn openai() -> Box<dyn Reading> {
    Box::new(OpenAiReading::default())
}

fn anthropic() -> Box<dyn Reading> {
    Box::new(AnthropicReading::default())
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "written with json! at every call")]
fn delta(delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// Thinking, text beyond ASCII, two calls in pieces side by side, one without arguments, a count.
fn openai_stream() -> String {
    let call = |call: Value| delta(json!({"tool_calls": [call]}));
    let mut text = ": hello\n\n".to_owned();
    text.push_str(&stream(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "Hm, 想"})),
        delta(json!({"reasoning_content": "想…"})),
        delta(json!({"content": "Grüß "})),
        delta(json!({"content": "Gott 🏨!"})),
        call(json!({"index": 0, "id": "call_a", "type": "function", "function": {"name": "find", "arguments": ""}})),
        call(json!({"index": 0, "function": {"arguments": "{\"q\":\"房"}})),
        call(
            json!({"index": 1, "id": "call_b", "type": "function", "function": {"name": "book", "arguments": "{\"n"}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "间\"}"}})),
        call(json!({"index": 1, "function": {"arguments": "\":2}"}})),
        call(json!({"index": 2, "id": "call_c", "function": {"name": "now"}})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}}),
    ]));
    text.push_str("data: [DONE]\n\n");
    text
}

/// The same, as Anthropic says it.
fn anthropic_stream() -> String {
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [],
            "usage": {"input_tokens": 2, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 0, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm, 想想…"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Grüß "}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Gott 🏨!"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "call_a", "name": "find", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"q\":\"房"}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "间\"}"}}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "call_b", "name": "book", "input": {}}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"n\":2}"}}),
        json!({"type": "content_block_start", "index": 4, "content_block": {"type": "tool_use", "id": "call_c", "name": "now", "input": {}}}),
        json!({"type": "content_block_start", "index": 5, "content_block": {"type": "new_in_2027", "x": 1}}),
        json!({"type": "new_event_in_2027"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 34}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| format!("event: {}\r\ndata: {event}\r\n\r\n", event["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

fn expected(outcome: &Outcome) {
    let said: Vec<_> = outcome.heard.iter().filter(|piece| !matches!(piece, Heard::Signature(_))).collect();
    assert_eq!(said, [&Heard::Thinking("Hm, 想想…".into()), &Heard::Text("Grüß Gott 🏨!".into())]);
    let finish = outcome.finish.as_ref().unwrap();
    assert_eq!((finish.stop, finish.usage), (StopReason::ToolUse, Some(Usage { input_tokens: 12, output_tokens: 34 })));
    let calls: Vec<_> = finish
        .calls
        .iter()
        .map(|call| {
            (call.id.as_ref().unwrap().as_str(), call.name.as_str(), Value::Object(call.input.clone().unwrap()))
        })
        .collect();
    assert_eq!(
        calls,
        [("call_a", "find", json!({"q": "房间"})), ("call_b", "book", json!({"n": 2})), ("call_c", "now", json!({}))]
    );
}

#[test]
fn both_interfaces_say_the_same() {
    expected(&hear(openai(), [openai_stream().as_bytes()]));
    let outcome = hear(anthropic(), [anthropic_stream().as_bytes()]);
    expected(&outcome);
    assert_eq!(outcome.heard[1], Heard::Signature("c2ln".into()));
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    for (reading, text) in [(openai as fn() -> Box<dyn Reading>, openai_stream()), (anthropic, anthropic_stream())] {
        let bytes = text.as_bytes();
        let whole = hear(reading(), [bytes]);
        for cut in 0..=bytes.len() {
            assert_eq!(hear(reading(), [&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(hear(reading(), bytes.chunks(1)), whole);
    }
}

proptest! {
    #[test]
    fn any_chunking_is_heard_alike(sizes in prop::collection::vec(1..200_usize, 1..200)) {
        for (reading, text) in [(openai as fn() -> Box<dyn Reading>, openai_stream()), (anthropic, anthropic_stream())] {
            let mut rest = text.as_bytes();
            let mut chunks = Vec::new();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(hear(reading(), chunks), hear(reading(), [text.as_bytes()]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Whatever a server sends, the worst that comes of it is a complaint.
    #[test]
    fn nothing_a_server_sends_is_too_much(events in prop::collection::vec("\\PC{0,60}|\\{\"choices\":\\[\\{\"delta\":\\PC{0,40}|\\{\"type\":\"\\PC{0,20}\".*\\}", 0..20)) {
        for mut reading in [openai(), anthropic()] {
            for event in &events {
                let _ = reading.event(event, &mut Vec::new());
            }
            reading.finish();
        }
    }
}

#[test]
fn why_it_stopped_is_told_in_our_words() {
    for (reason, stop) in [
        ("stop", StopReason::EndTurn),
        ("eos", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("model_length", StopReason::MaxTokens),
        ("tool_calls", StopReason::ToolUse),
        ("function_call", StopReason::ToolUse),
        ("content_filter", StopReason::Refusal),
    ] {
        let outcome = hear(openai(), [stream(&[finish(reason)]).as_bytes()]);
        assert_eq!(outcome.finish.unwrap().stop, stop, "{reason}");
    }
    for (reason, stop) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("pause_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("tool_use", StopReason::ToolUse),
        ("refusal", StopReason::Refusal),
    ] {
        let event = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
        assert_eq!(hear(anthropic(), [stream(&[event]).as_bytes()]).finish.unwrap().stop, stop, "{reason}");
    }
}

#[test]
fn an_answer_that_does_not_say_it_is_finished_is_not() {
    let cut = stream(&[delta(json!({"content": "half an"}))]);
    assert_eq!(hear(openai(), [cut.as_bytes()]).finish, None);
    let silent = format!("{cut}data: [DONE]\n\n");
    assert_eq!(hear(openai(), [silent.as_bytes()]).finish, None);
    let begun = json!({"type": "message_start", "message": {}});
    assert_eq!(hear(anthropic(), [stream(&[begun, json!({"type": "message_stop"})]).as_bytes()]).finish, None);
}

#[test]
fn the_ways_of_other_servers_are_understood() {
    // Mistral's lists, OpenRouter's name for thinking beside the other, a refusal, a second choice.
    let pieces =
        json!([{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}, {"type": "text", "text": "b"}]);
    let events = [
        delta(json!({"content": pieces})),
        delta(json!({"reasoning": "c", "reasoning_content": "c", "content": null})),
        delta(json!({"reasoning": "d", "reasoning_content": null})),
        delta(json!({"refusal": "No."})),
        json!({"choices": [{"index": 1, "delta": {"content": "not asked for"}, "finish_reason": "length"}]}),
        json!({"choices": null, "usage": null, "error": null}),
        json!({"object": "something else"}),
        finish("stop"),
    ];
    let outcome = hear(openai(), [stream(&events).as_bytes()]);
    let (thinking, text) = (|text: &str| Heard::Thinking(text.into()), |text: &str| Heard::Text(text.into()));
    assert_eq!(outcome.heard, [thinking("a"), text("b"), thinking("cd"), text("No.")]);
    assert_eq!((outcome.finish.unwrap().stop, outcome.stumble), (StopReason::Refusal, None));

    // Arguments as an object, and what Gemini wants back.
    let signed = json!({"google": {"thought_signature": "s"}});
    let call =
        json!({"index": 0, "id": "x", "extra_content": signed, "function": {"name": "f", "arguments": {"a": 1}}});
    let events = [delta(json!({"tool_calls": [call]})), finish("stop")];
    let finish = hear(openai(), [stream(&events).as_bytes()]).finish.unwrap();
    assert_eq!(finish.stop, StopReason::ToolUse);
    assert_eq!(Value::Object(finish.calls[0].input.clone().unwrap()), json!({"a": 1}));
    assert_eq!(finish.calls[0].extra["extra_content"], signed);
}

#[test]
fn errors_in_the_stream_are_repeated_and_what_is_no_event_is_shown() {
    let error = json!({"error": {"message": "out of memory", "type": "server_error"}});
    let outcome = hear(openai(), [stream(&[delta(json!({"content": "a"})), error]).as_bytes()]);
    assert_eq!(outcome.stumble, Some(Stumble::Said("server_error: out of memory".into())));
    assert_eq!(outcome.heard, [Heard::Text("a".into())]);
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let outcome = hear(anthropic(), [stream(&[error]).as_bytes()]);
    assert_eq!(outcome.stumble, Some(Stumble::Said("overloaded_error: Overloaded".into())));
    for reading in [openai(), anthropic()] {
        let outcome = hear(reading, [&b"data: {\"choices\": 7, \"type\": 8}\n\n"[..]]);
        assert_eq!(outcome.stumble, Some(Stumble::Unreadable("{\"choices\": 7, \"type\": 8}".into())));
    }
    let outcome = hear(openai(), [stream(&[finish("error")]).as_bytes()]);
    assert!(matches!(outcome.stumble, Some(Stumble::Said(_))));
}

#[test]
fn every_provider_has_an_address_and_a_window() {
    for provider in Provider::ALL {
        let mut spec = requests::spec(provider);
        let url = super::provider::address(&spec).unwrap();
        assert!(url.path().ends_with("/chat/completions") || url.path() == "/v1/messages", "{url}");
        assert_eq!(url.scheme(), if provider == Provider::Ollama { "http" } else { "https" });
        spec.base_url = Some("http://127.0.0.1:9/deep/?version=2".parse().unwrap());
        let url = super::provider::address(&spec).unwrap();
        assert!(url.as_str().starts_with("http://127.0.0.1:9/deep/") && url.as_str().ends_with("?version=2"), "{url}");
        assert!(!url.path().contains("//"));
        assert_eq!(super::provider::window(&spec), if provider == Provider::Ollama { 32_000 } else { 400_000 });
        spec.window_tokens = Some(1000);
        assert_eq!(super::provider::window(&spec), 4000);
    }
}
