use nuncio_core::ids::CallId;
use nuncio_core::message::Block;
use serde_json::{Value, json};

use super::*;

fn script(script: &Value) -> Message {
    Message::user(json!({ "script": script }).to_string())
}

fn assistant_text(text: &str) -> Message {
    Message::assistant(vec![Block::text(text)])
}

fn result(id: &str, content: impl Into<Content>) -> Message {
    Message::tool(CallId::parse(id).unwrap(), content.into())
}

fn texts(items: Vec<ScriptItem>) -> Vec<String> {
    items
        .into_iter()
        .map(|item| match item {
            ScriptItem::Text(text) => text,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn nth_answer_plays_script_step_n_and_last_step_repeats() {
    let mut history = vec![assistant_text("before"), script(&json!([[{"text": "one"}], [{"text": "two"}]]))];
    for expected in ["one", "two", "two", "two"] {
        assert_eq!(texts(step(&history).unwrap()), [expected]);
        history.push(assistant_text("…"));
        history.push(result("c", "…"));
    }
}

#[test]
fn newer_user_message_replaces_script() {
    let old = script(&json!([[{"text": "old"}]]));
    assert_eq!(
        texts(step(&[old.clone(), assistant_text("x"), Message::user("hi there")]).unwrap()),
        ["You said: hi there"]
    );
    let new = script(&json!([[{"text": "new"}]]));
    assert_eq!(texts(step(&[old, assistant_text("x"), new]).unwrap()), ["new"]);
}

#[test]
fn text_without_script_is_echoed() {
    for text in ["", "hello", "{", "42", "[1]", r#"{"script":7}"#, r#"{"other":[]}"#] {
        assert_eq!(texts(step(&[Message::user(text)]).unwrap()), [format!("You said: {text}")]);
    }
    assert_eq!(texts(step(&[]).unwrap()), ["You said: "]);
}

#[test]
fn script_may_span_several_text_blocks() {
    let blocks =
        vec![Block::text(r#"{"script":[[{"te"#), Block::image("https://a/b.png"), Block::text(r#"xt":"joined"}]]}"#)];
    let message = Message::User { content: Content::Blocks(blocks), extra: serde_json::Map::new() };
    assert_eq!(texts(step(&[message]).unwrap()), ["joined"]);
}

#[test]
fn every_kind_of_script_item_is_parsed() {
    let items = step(&[script(&json!([[
        {"thinking": "hm"},
        {"deltas": 1000, "delta": "hello "},
        {"tool": {"name": "add", "input": {"a": 1, "b": 2}, "id": "c1"}},
        {"tool": {"name": "lookup", "input": {"key": "k"}}},
        {"echo": "results"}, {"echo": "tools"}, {"echo": "roles"},
        {"sleep": 1.5},
        {"stop": "max_tokens"},
        {"throw": "boom"},
    ]]))])
    .unwrap();
    let input = |value: Value| value.as_object().unwrap().clone();
    let name = |name| nuncio_core::ids::ToolName::parse(name).unwrap();
    assert_eq!(
        items,
        [
            ScriptItem::Thinking("hm".into()),
            ScriptItem::Deltas { count: 1000, delta: "hello ".into() },
            ScriptItem::Tool { id: CallId::parse("c1").ok(), name: name("add"), input: input(json!({"a": 1, "b": 2})) },
            ScriptItem::Tool { id: None, name: name("lookup"), input: input(json!({"key": "k"})) },
            ScriptItem::Echo(EchoContent::Results),
            ScriptItem::Echo(EchoContent::Tools),
            ScriptItem::Echo(EchoContent::Roles),
            ScriptItem::Sleep(std::time::Duration::from_micros(1500)),
            ScriptItem::Stop(StopReason::MaxTokens),
            ScriptItem::Throw("boom".into()),
        ]
    );
}

#[test]
fn invalid_script_item_error_lists_allowed_keys_values_and_ranges() {
    for (item, fault) in [
        (json!("hi"), r#"script step 1: item 1: an item must be an object, not "hi""#),
        (
            json!({"say": 1}),
            r#"script step 1: item 1: {"say":1} is not one of text, thinking, deltas, tool, echo, sleep, stop, throw"#,
        ),
        (json!({"text": 1}), "script step 1: item 1: `text` must be a text, not 1"),
        (json!({"deltas": 2}), "script step 1: item 1: `deltas` needs `delta`, the text of each piece"),
        (
            json!({"deltas": 10_000_001, "delta": ""}),
            "script step 1: item 1: `deltas` must be a whole number from 0 to 10000000, not 10000001",
        ),
        (
            json!({"deltas": -1, "delta": ""}),
            "script step 1: item 1: `deltas` must be a whole number from 0 to 10000000, not -1",
        ),
        (json!({"sleep": 600_001}), "script step 1: item 1: `sleep` must be milliseconds from 0 to 600000, not 600001"),
        (
            json!({"stop": "now"}),
            r#"script step 1: item 1: `stop` must be end_turn, tool_use, max_tokens, refusal or error, not "now""#,
        ),
        (json!({"echo": "all"}), r#"script step 1: item 1: `echo` must be results, tools or roles, not "all""#),
        (json!({"tool": {"input": {}}}), "script step 1: item 1: `tool` needs a name"),
        (json!({"tool": {"name": "add", "input": []}}), "script step 1: item 1: `input` must be an object, not []"),
    ] {
        assert_eq!(step(&[script(&json!([[item]]))]), Err(BrainError::Failed(fault.into())));
    }
    let fault = "script step 1: a step must be a list of items, not {}".into();
    assert_eq!(step(&[script(&json!([{}]))]), Err(BrainError::Failed(fault)));
}

#[test]
fn empty_script_produces_no_output() {
    assert_eq!(step(&[script(&json!([]))]), Ok(vec![]));
    assert_eq!(step(&[script(&json!([[]]))]), Ok(vec![]));
}

#[test]
fn echo_items_output_tool_results_tool_names_and_roles_as_json() {
    let blocks = Content::Blocks(vec![Block::text("b")]);
    let history =
        [result("c0", "old"), script(&json!([])), assistant_text("x"), result("c1", "3"), result("c2", blocks)];
    assert_eq!(echo(EchoContent::Results, &history, &[]), r#"["3",[{"type":"text","text":"b"}]]"#);
    assert_eq!(echo(EchoContent::Roles, &history, &[]), r#"["tool","user","assistant","tool","tool"]"#);
    let tool = |name| OfferedTool {
        name: nuncio_core::ids::ToolName::parse(name).unwrap(),
        description: String::new(),
        parameters: json!({}),
    };
    assert_eq!(echo(EchoContent::Tools, &history, &[tool("add"), tool("lookup")]), r#"["add","lookup"]"#);
}
