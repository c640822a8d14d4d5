//! Tests of answer parsers and request bodies without a network.

use nuncio_core::agent::ModelProvider;
use nuncio_core::turn::{StopReason, TokenUsage};
use nuncio_http::sse::{SseDecoder, SseLimits};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::anthropic::AnthropicParser;
use super::openai::OpenAiParser;
use super::parser::{ModelAnswerDelta, ModelAnswerEnd, ModelAnswerStreamError, StreamedAnswerParser};

mod requests;

#[derive(Debug, PartialEq)]
struct ParsedAnswer {
    /// Adjacent deltas of one kind are joined, because the network decides how they are split.
    deltas: Vec<ModelAnswerDelta>,
    finish: Option<ModelAnswerEnd>,
    error: Option<ModelAnswerStreamError>,
}

fn parse_stream<'a>(
    mut parser: Box<dyn StreamedAnswerParser>,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> ParsedAnswer {
    let mut decoder = SseDecoder::new(SseLimits::default());
    let (mut pieces, mut error) = (Vec::new(), None);
    for chunk in chunks {
        decoder.feed(chunk).unwrap();
        while let Some(event) = decoder.next_event()
            && error.is_none()
        {
            error = parser.event(&event.data, &mut pieces).err();
        }
    }
    let mut deltas: Vec<ModelAnswerDelta> = Vec::new();
    for piece in pieces {
        match (deltas.last_mut(), piece) {
            (Some(ModelAnswerDelta::Text(before)), ModelAnswerDelta::Text(text))
            | (Some(ModelAnswerDelta::Thinking(before)), ModelAnswerDelta::Thinking(text)) => {
                before.push_str(&text);
            }
            (_, ModelAnswerDelta::Text(text) | ModelAnswerDelta::Thinking(text)) if text.is_empty() => {}
            (_, piece) => deltas.push(piece),
        }
    }
    ParsedAnswer { deltas, finish: parser.finish(), error }
}

fn openai() -> Box<dyn StreamedAnswerParser> {
    Box::new(OpenAiParser::default())
}

fn anthropic() -> Box<dyn StreamedAnswerParser> {
    Box::new(AnthropicParser::default())
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "every call site passes a json! literal")]
fn delta(delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// OpenAI stream with thinking, non-ASCII text, two interleaved calls, one call without arguments, and usage.
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

/// Anthropic stream with the same answer as [`openai_stream`].
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

fn expected(outcome: &ParsedAnswer) {
    let said: Vec<_> = outcome.deltas.iter().filter(|piece| !matches!(piece, ModelAnswerDelta::Signature(_))).collect();
    assert_eq!(
        said,
        [&ModelAnswerDelta::Thinking("Hm, 想想…".into()), &ModelAnswerDelta::Text("Grüß Gott 🏨!".into())]
    );
    let finish = outcome.finish.as_ref().unwrap();
    assert_eq!(
        (finish.stop, finish.usage),
        (StopReason::ToolUse, Some(TokenUsage { input_tokens: 12, output_tokens: 34 }))
    );
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
fn openai_and_anthropic_streams_parse_to_the_same_answer() {
    expected(&parse_stream(openai(), [openai_stream().as_bytes()]));
    let outcome = parse_stream(anthropic(), [anthropic_stream().as_bytes()]);
    expected(&outcome);
    assert_eq!(outcome.deltas[1], ModelAnswerDelta::Signature("c2ln".into()));
}

#[test]
fn stream_split_at_any_byte_parses_to_the_same_answer() {
    for (parser, text) in
        [(openai as fn() -> Box<dyn StreamedAnswerParser>, openai_stream()), (anthropic, anthropic_stream())]
    {
        let bytes = text.as_bytes();
        let whole = parse_stream(parser(), [bytes]);
        for cut in 0..=bytes.len() {
            assert_eq!(parse_stream(parser(), [&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(parse_stream(parser(), bytes.chunks(1)), whole);
    }
}

proptest! {
    #[test]
    fn stream_in_chunks_of_any_sizes_parses_to_the_same_answer(sizes in prop::collection::vec(1..200_usize, 1..200)) {
        for (parser, text) in [(openai as fn() -> Box<dyn StreamedAnswerParser>, openai_stream()), (anthropic, anthropic_stream())] {
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
            prop_assert_eq!(parse_stream(parser(), chunks), parse_stream(parser(), [text.as_bytes()]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn arbitrary_events_do_not_panic_the_answer_parsers(events in prop::collection::vec("\\PC{0,60}|\\{\"choices\":\\[\\{\"delta\":\\PC{0,40}|\\{\"type\":\"\\PC{0,20}\".*\\}", 0..20)) {
        for mut parser in [openai(), anthropic()] {
            for event in &events {
                let _ = parser.event(event, &mut Vec::new());
            }
            parser.finish();
        }
    }
}

#[test]
fn each_provider_finish_reason_maps_to_its_stop_reason() {
    for (reason, stop) in [
        ("stop", StopReason::EndTurn),
        ("eos", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("model_length", StopReason::MaxTokens),
        ("tool_calls", StopReason::ToolUse),
        ("function_call", StopReason::ToolUse),
        ("content_filter", StopReason::Refusal),
    ] {
        let outcome = parse_stream(openai(), [stream(&[finish(reason)]).as_bytes()]);
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
        assert_eq!(parse_stream(anthropic(), [stream(&[event]).as_bytes()]).finish.unwrap().stop, stop, "{reason}");
    }
}

#[test]
fn answer_without_finish_reason_is_incomplete() {
    let cut = stream(&[delta(json!({"content": "half an"}))]);
    assert_eq!(parse_stream(openai(), [cut.as_bytes()]).finish, None);
    let silent = format!("{cut}data: [DONE]\n\n");
    assert_eq!(parse_stream(openai(), [silent.as_bytes()]).finish, None);
    let begun = json!({"type": "message_start", "message": {}});
    assert_eq!(parse_stream(anthropic(), [stream(&[begun, json!({"type": "message_stop"})]).as_bytes()]).finish, None);
}

#[test]
fn openai_parser_accepts_variants_of_mistral_openrouter_and_gemini() {
    // Mistral's lists, OpenRouter's second field for reasoning, a refusal, a second choice.
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
    let outcome = parse_stream(openai(), [stream(&events).as_bytes()]);
    let (thinking, text) =
        (|text: &str| ModelAnswerDelta::Thinking(text.into()), |text: &str| ModelAnswerDelta::Text(text.into()));
    assert_eq!(outcome.deltas, [thinking("a"), text("b"), thinking("cd"), text("No.")]);
    assert_eq!((outcome.finish.unwrap().stop, outcome.error), (StopReason::Refusal, None));

    // Arguments as an object, and Gemini's extra content.
    let signed = json!({"google": {"thought_signature": "s"}});
    let call =
        json!({"index": 0, "id": "x", "extra_content": signed, "function": {"name": "f", "arguments": {"a": 1}}});
    let events = [delta(json!({"tool_calls": [call]})), finish("stop")];
    let finish = parse_stream(openai(), [stream(&events).as_bytes()]).finish.unwrap();
    assert_eq!(finish.stop, StopReason::ToolUse);
    assert_eq!(Value::Object(finish.calls[0].input.clone().unwrap()), json!({"a": 1}));
    assert_eq!(finish.calls[0].extra["extra_content"], signed);
}

#[test]
fn stream_errors_and_malformed_events_are_reported() {
    let error = json!({"error": {"message": "out of memory", "type": "server_error"}});
    let outcome = parse_stream(openai(), [stream(&[delta(json!({"content": "a"})), error]).as_bytes()]);
    assert_eq!(outcome.error, Some(ModelAnswerStreamError::Said("server_error: out of memory".into())));
    assert_eq!(outcome.deltas, [ModelAnswerDelta::Text("a".into())]);
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let outcome = parse_stream(anthropic(), [stream(&[error]).as_bytes()]);
    assert_eq!(outcome.error, Some(ModelAnswerStreamError::Said("overloaded_error: Overloaded".into())));
    for parser in [openai(), anthropic()] {
        let outcome = parse_stream(parser, [&b"data: {\"choices\": 7, \"type\": 8}\n\n"[..]]);
        assert_eq!(outcome.error, Some(ModelAnswerStreamError::Unreadable("{\"choices\": 7, \"type\": 8}".into())));
    }
    let outcome = parse_stream(openai(), [stream(&[finish("error")]).as_bytes()]);
    assert!(matches!(outcome.error, Some(ModelAnswerStreamError::Said(_))));
}

#[test]
fn every_model_provider_has_a_base_url_and_context_window() {
    for provider in ModelProvider::ALL {
        let mut spec = requests::spec(provider);
        let url = super::provider::address(&spec).unwrap();
        assert!(url.path().ends_with("/chat/completions") || url.path() == "/v1/messages", "{url}");
        assert_eq!(url.scheme(), if provider == ModelProvider::Ollama { "http" } else { "https" });
        spec.base_url = Some("http://127.0.0.1:9/deep/?version=2".parse().unwrap());
        let url = super::provider::address(&spec).unwrap();
        assert!(url.as_str().starts_with("http://127.0.0.1:9/deep/") && url.as_str().ends_with("?version=2"), "{url}");
        assert!(!url.path().contains("//"));
        assert_eq!(super::provider::window(&spec), if provider == ModelProvider::Ollama { 32_000 } else { 400_000 });
        spec.window_tokens = Some(1000);
        assert_eq!(super::provider::window(&spec), 4000);
    }
}
