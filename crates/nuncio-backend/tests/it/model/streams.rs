//! Complete answers of model servers, in chunks of any size.

use super::*;
use nuncio_engine::ports::brain::HistoryNeed;

#[tokio::test]
async fn openai_request_has_all_settings_and_answer_becomes_text() {
    let (url, log) = server(vec![hello()]).await;
    let rest = "temperature = 0.5\nmax_tokens = 99\ninstructions = \"Speak {{ options.language }}.\"\n\
                [[option]]\nname = \"language\"\ntype = \"text\"\ndefault = \"French\"";
    let thinker = brain("openai", &url, rest);
    let (thought, blocks) = thinker.think().await.blocks();
    assert_eq!((thought.stop, blocks), (StopReason::EndTurn, json!([{"type": "text", "text": "Hello"}])));

    let received = log.lock().unwrap()[0].clone();
    assert_eq!(received.line(), "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(received.header("authorization"), Some("Bearer sk-hunter22"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    let body = &bodies(&log)[0];
    assert_eq!((&body["model"], &body["temperature"], &body["max_tokens"]), (&json!("m-1"), &json!(0.5), &json!(99)));
    let messages = json!([{"role": "system", "content": "Speak French."}, {"role": "user", "content": "Hello"}]);
    assert_eq!((&body["messages"], &body["stream"]), (&messages, &json!(true)));
    assert_eq!(body["tools"][0]["function"]["name"], "add");
    assert_eq!(thinker.brain.history_need(&[]), HistoryNeed::SummarizedWindow(400_000));
}

#[tokio::test]
async fn anthropic_request_and_answer_use_the_messages_api() {
    let stream = events(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":1}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]);
    let (url, log) = server(vec![format!("{HEAD}{stream}")]).await;
    let mut thinker = brain("anthropic", &url, "");
    let step = thinker.think().await;
    let message = step.message.clone();
    let (thought, blocks) = step.blocks();
    assert_eq!(
        (thought.stop, thought.usage),
        (StopReason::ToolUse, Some(TokenUsage { input_tokens: 7, output_tokens: 9 }))
    );
    let call = json!({"type": "tool_use", "toolCallId": "toolu_1", "name": "add", "input": {"a": 1}});
    assert_eq!(blocks, json!([{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, call]));

    // The next request sends the thinking block back with its signature.
    thinker.history.push(serde_json::from_value(message).unwrap());
    thinker
        .history
        .push(serde_json::from_value(json!({"role": "tool", "toolCallId": "toolu_1", "content": "2"})).unwrap());
    thinker.think().await.blocks();
    let received = log.lock().unwrap()[0].clone();
    assert_eq!(received.line(), "POST /v1/messages HTTP/1.1");
    assert_eq!(received.header("x-api-key"), Some("sk-hunter22"));
    assert_eq!((received.header("anthropic-version"), received.header("authorization")), (Some("2023-06-01"), None));
    let second = &bodies(&log)[1];
    assert_eq!(
        second["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "2"}]}]},
        ])
    );
    assert_eq!(second["max_tokens"], 8192);
}

#[tokio::test]
async fn model_answer_in_single_byte_chunks_is_parsed() {
    let call = |call: Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]});
    let stream = events(&[
        json!({"choices": [{"delta": {"reasoning_content": "Hm, 想想"}}]}),
        said("Grüß Gott 🏨"),
        call(json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"a\""}})),
        call(json!({"index": 1, "id": "b", "function": {"name": "add", "arguments": ""}})),
        call(json!({"index": 0, "function": {"arguments": ":1}"}})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
    ]);
    // Chunks of one byte, without the end of the last line.
    let mut answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for byte in format!("{stream}data: [DONE]").bytes() {
        answer.extend_from_slice(b"1\r\n");
        answer.push(byte);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    let address = test_http_server::serve(move |_, mut stream: TcpStream| {
        let answer = answer.clone();
        async move {
            stream.set_nodelay(true).unwrap();
            for piece in answer.chunks(7) {
                if stream.write_all(piece).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    let (thought, blocks) = brain("openai", &format!("http://{address}"), "").think().await.blocks();
    assert_eq!(
        (thought.stop, thought.usage),
        (StopReason::ToolUse, Some(TokenUsage { input_tokens: 1, output_tokens: 2 }))
    );
    assert_eq!(
        blocks,
        json!([
            {"type": "thinking", "thinking": "Hm, 想想"},
            {"type": "text", "text": "Grüß Gott 🏨"},
            {"type": "tool_use", "toolCallId": "a", "name": "add", "input": {"a": 1}},
            {"type": "tool_use", "toolCallId": "b", "name": "add", "input": {}},
        ])
    );
}

#[tokio::test]
async fn session_options_choose_model_temperature_and_key() {
    let (url, log) = server(vec![hello()]).await;
    let rest = "options = { model = \"model\", temperature = \"mood\", key = \"pin\" }\n\
                [[option]]\nname = \"model\"\ntype = \"text\"\n[[option]]\nname = \"mood\"\ntype = \"text\"\n\
                [[option]]\nname = \"pin\"\ntype = \"secret\"";
    let mut thinker = brain("openai", &url, rest);
    thinker.think().await.blocks();
    thinker.set("model", "m-2");
    thinker.set("mood", " 1.5 ");
    thinker.set("pin", "sk-own-key");
    thinker.think().await.blocks();
    let bodies = bodies(&log);
    assert_eq!((&bodies[0]["model"], &bodies[0]["temperature"]), (&json!("m-1"), &Value::Null));
    assert_eq!((&bodies[1]["model"], &bodies[1]["temperature"]), (&json!("m-2"), &json!(1.5)));
    let keys: Vec<_> =
        log.lock().unwrap().iter().map(|received| received.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(keys, ["Bearer sk-hunter22", "Bearer sk-own-key"]);
    for mood in ["hot", "3", "-1", "NaN"] {
        thinker.set("mood", mood);
        let why = thinker.think().await.failure();
        assert_eq!(why, "the option `mood` should be a number from 0 to 2, such as 0.7");
    }
}

#[tokio::test]
async fn malformed_tool_call_arguments_never_run_a_tool() {
    let call = |name: &str| json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": name, "arguments": "{\"a\": on"}}]}}]});
    let answer = |name: &str, reason: &str| format!("{HEAD}{}data: [DONE]\n\n", events(&[call(name), finish(reason)]));
    let (url, _) = server(vec![answer("add", "tool_calls"), answer("add", "length"), answer("made_up", "stop")]).await;
    let thinker = brain("openai", &url, "");
    // The tool requires a missing argument: the call is made, refused, and the model reads why.
    let (_, blocks) = thinker.think().await.blocks();
    let input = &blocks[0]["input"];
    assert_eq!(*input, json!({"unreadable_arguments": "{\"a\": on"}));
    thinker.agent.tool("add").unwrap().input.check(input).unwrap_err();
    // A call cut off by the token limit is not made.
    let (thought, blocks) = thinker.think().await.blocks();
    assert_eq!((thought.stop, blocks), (StopReason::MaxTokens, json!([])));
    // Malformed arguments for an unknown tool fail the step.
    let why = thinker.think().await.failure();
    assert!(why.contains("a call of `made_up` whose arguments are not a JSON object: {\"a\": on"), "{why}");
}

#[tokio::test]
async fn model_stream_without_done_marker_is_complete() {
    let (url, _) = server(vec![format!("{HEAD}{}", events(&[said("Hi"), finish("length")]))]).await;
    let (thought, blocks) = brain("ollama", &url, "window_tokens = 2000").think().await.blocks();
    assert_eq!((thought.stop, blocks), (StopReason::MaxTokens, json!([{"type": "text", "text": "Hi"}])));
}
