//! Tests of the model requests built from a history.

use nuncio_core::agent::{ModelBrainSpec, ModelOptionNames, ModelProvider};
use nuncio_core::ids::ToolName;
use nuncio_core::message::Message;
use nuncio_engine::ports::brain::OfferedTool;
use serde_json::{Value, json};

use crate::brains::model::conversation::ModelConversation;
use crate::brains::model::names::ToolNameMapping;
use crate::brains::model::parser::ModelRequestParameters;
use crate::brains::model::{anthropic, openai};

pub(super) fn spec(provider: ModelProvider) -> ModelBrainSpec {
    ModelBrainSpec {
        provider,
        model: "m".into(),
        base_url: None,
        key: None,
        temperature: None,
        max_tokens: None,
        instructions: None,
        window_tokens: None,
        options: ModelOptionNames::default(),
    }
}

fn tools() -> Vec<OfferedTool> {
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    vec![OfferedTool { name: ToolName::parse("rooms.find").unwrap(), description: "Finds.".into(), parameters }]
}

fn request(provider: ModelProvider, history: &Value) -> Value {
    let history: Vec<Message> = serde_json::from_value(history.clone()).unwrap();
    let tools = tools();
    let names = ToolNameMapping::new(&tools);
    let conversation = ModelConversation::new(provider, Some("Be kind."), &history, &names);
    let ask = ModelRequestParameters {
        provider,
        at_home: true,
        model: "m",
        temperature: Some(0.5),
        max_tokens: Some(100),
        tools: &tools,
        names: &names,
    };
    match provider {
        ModelProvider::Anthropic => anthropic::request(&ask, &conversation),
        _ => openai::request(&ask, &conversation),
    }
}

/// History with two exchanges that reuse a call id, parallel calls, results out of order, images in both directions,
/// and thinking.
fn history() -> Value {
    json!([
        {"role": "system", "content": "You are at the desk."},
        {"role": "user", "content": "Two rooms?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "Let me see. "},
            {"type": "tool_use", "toolCallId": "c1", "name": "rooms.find", "input": {"q": "a"}},
            {"type": "tool_use", "toolCallId": "c2", "name": "rooms.find", "input": {}, "extra_content": {"google": "g"}},
        ]},
        {"role": "tool", "toolCallId": "c2", "content": "second"},
        {"role": "tool", "toolCallId": "c1", "content": [
            {"type": "text", "text": "first"}, {"type": "image", "url": "data:image/png;base64,iVBO"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Here."}]},
        {"role": "user", "content": [{"type": "text", "text": "And this?"}, {"type": "image", "url": "https://a.example/b.png"}]},
        {"role": "system", "content": "It is late."},
        {"role": "assistant", "content": [{"type": "tool_use", "toolCallId": "c1", "name": "gone", "input": {"n": 1}}]},
    ])
}

#[test]
fn history_becomes_the_expected_openai_request_body() {
    let body = request(ModelProvider::OpenAi, &history());
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.5,
            "max_completion_tokens": 100,
            "tools": [{"type": "function", "function": {"name": "rooms_find", "description": "Finds.",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}}],
            "messages": [
                {"role": "system", "content": "Be kind.\n\nYou are at the desk.\n\nIt is late."},
                {"role": "user", "content": "Two rooms?"},
                {"role": "assistant", "content": "Let me see. ",
                    "tool_calls": [call("c1", "rooms_find", "{\"q\":\"a\"}"), call("c2", "rooms_find", "{}")]},
                {"role": "tool", "tool_call_id": "c2", "content": "second"},
                {"role": "tool", "tool_call_id": "c1", "content": "first"},
                {"role": "user", "content": [{"type": "text", "text": "The images in these results:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]},
                {"role": "assistant", "content": "Here."},
                {"role": "user", "content": [{"type": "text", "text": "And this?"},
                    {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]},
                {"role": "assistant", "content": null, "tool_calls": [call("c1_2", "gone", "{\"n\":1}")]},
                {"role": "tool", "tool_call_id": "c1_2", "content": "The call was not finished; there is no result."},
            ],
        })
    );
}

#[test]
fn history_becomes_the_expected_anthropic_request_body() {
    let body = request(ModelProvider::Anthropic, &history());
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "temperature": 0.5,
            "max_tokens": 100,
            "system": "Be kind.\n\nYou are at the desk.\n\nIt is late.",
            "tools": [{"name": "rooms_find", "description": "Finds.",
                "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}}],
            "messages": [
                {"role": "user", "content": [text("Two rooms?")]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    text("Let me see."),
                    {"type": "tool_use", "id": "c1", "name": "rooms_find", "input": {"q": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "rooms_find", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c2", "content": [text("second")]},
                    {"type": "tool_result", "tool_use_id": "c1", "content": [text("first"),
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}]},
                ]},
                {"role": "assistant", "content": [text("Here.")]},
                {"role": "user", "content": [text("And this?"),
                    {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1_2", "name": "gone", "input": {"n": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1_2",
                    "content": [text("The call was not finished; there is no result.")]}]},
            ],
        })
    );
}

#[test]
fn requests_follow_gemini_deepseek_and_mistral_differences() {
    let gemini = request(ModelProvider::Gemini, &history());
    let calls = &gemini["messages"][2]["tool_calls"];
    assert_eq!((&calls[0]["extra_content"], &calls[1]["extra_content"]), (&Value::Null, &json!({"google": "g"})));
    assert_eq!((&gemini["max_tokens"], &gemini["max_completion_tokens"]), (&json!(100), &Value::Null));
    let deepseek = request(ModelProvider::DeepSeek, &history());
    assert_eq!(deepseek["messages"][2]["reasoning_content"], "hm");
    assert_eq!(deepseek["messages"][8]["reasoning_content"], "");
    assert_eq!(deepseek["messages"][6]["reasoning_content"], Value::Null);
    let mistral = request(ModelProvider::Mistral, &history());
    assert_eq!(mistral["stream_options"], Value::Null);
    assert_eq!(mistral["messages"][2]["tool_calls"][1]["id"], "000000002");
    assert_eq!(mistral["messages"][3]["tool_call_id"], "000000002");
}

#[test]
fn invalid_history_becomes_alternating_anthropic_messages() {
    let odd = json!([
        {"role": "assistant", "content": "Welcome!"},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "  "}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "only thinking"}]},
        {"role": "user", "content": "Hello?"},
        {"role": "tool", "toolCallId": "lost", "content": "found"},
    ]);
    let body = request(ModelProvider::Anthropic, &odd);
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [text("…")]},
            {"role": "assistant", "content": [text("Welcome!")]},
            {"role": "user", "content": [text("…"), text("…"), text("Hello?"), text("Result of the call lost:"), text("found")]},
        ])
    );
}
