//! Script tools through an MCP client and over the stdio of a process.

use nuncio_demo::script::DemoMcpServer;
use serde_json::{Value, json};

use crate::client::{Client, exit_process, text};

async fn sum(client: &Client, a: Value, b: Value) -> String {
    let result = client.call("add", json!({ "a": a, "b": b })).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    text(&result).to_owned()
}

#[tokio::test]
async fn script_tools_list_has_valid_schemas_without_additional_properties() {
    let tools = Client::in_memory(DemoMcpServer::new()).await.tools().await;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["add", "lookup", "echo", "fail"]);
    let required = [json!(["a", "b"]), json!(["key"]), json!(["text"]), json!(["code", "message"])];
    for (tool, required) in tools.iter().zip(required) {
        let schema = tool.schema_as_json_value();
        jsonschema::meta::validate(&schema).unwrap();
        assert_eq!((&schema["required"], &schema["additionalProperties"]), (&required, &json!(false)));
    }
}

#[tokio::test]
async fn add_tool_sums_integers_exactly_and_writes_other_sums_as_rfc_8785_does() {
    let client = Client::in_memory(DemoMcpServer::new()).await;
    for (a, b, expected) in [
        (json!(1), json!(2), "3"),
        (json!(0.5), json!(1), "1.5"),
        (json!(1.0), json!(2.0), "3"),
        (json!(-0.5), json!(0.5), "0"),
        (json!(0.1), json!(0.2), "0.30000000000000004"),
        (json!(500), json!(500), "1000"),
        (json!(1e21), json!(0), "1e+21"),
        (json!(u64::MAX), json!(u64::MAX), "36893488147419103230"),
        (json!(i64::MIN), json!(-1), "-9223372036854775809"),
    ] {
        assert_eq!(sum(&client, a, b).await, expected);
    }
}

#[tokio::test]
async fn lookup_tool_returns_its_key_with_prefix_value_of() {
    let client = Client::in_memory(DemoMcpServer::new()).await;
    let result = client.call("lookup", json!({ "key": "température" })).await;
    assert_eq!(text(&result), "value-of-température");
}

#[tokio::test]
async fn echo_tool_returns_its_text_after_the_given_delay() {
    let client = Client::in_memory(DemoMcpServer::new()).await;
    for arguments in [json!({ "text": "hé" }), json!({ "text": "hé", "delay_ms": 1.5 })] {
        let result = client.call("echo", arguments).await;
        assert_eq!(result.structured_content, Some(json!({ "text": "hé" })));
        assert_eq!(text(&result), r#"{"text":"hé"}"#);
    }
    let forever = client.call("echo", json!({ "text": "late", "delay_ms": 1e300 }));
    let soon = client.call("echo", json!({ "text": "soon" }));
    tokio::select! {
        biased;
        late = forever => panic!("it did not wait: {late:?}"),
        soon = soon => assert_eq!(soon.structured_content, Some(json!({ "text": "soon" }))),
    }
}

#[tokio::test]
async fn fail_tool_returns_an_error_with_the_given_code_and_message() {
    let client = Client::in_memory(DemoMcpServer::new()).await;
    let result = client.call("fail", json!({ "code": "E_FULL", "message": "no room" })).await;
    assert_eq!((result.is_error, text(&result)), (Some(true), "E_FULL: no room"));
    assert_eq!(result.structured_content, Some(json!({ "code": "E_FULL", "message": "no room" })));
}

#[tokio::test]
async fn invalid_script_arguments_are_refused_with_their_name() {
    let client = Client::in_memory(DemoMcpServer::new()).await;
    for (tool, arguments, expected) in [
        ("add", json!({ "a": 1 }), "missing field `b`"),
        ("add", json!({ "a": 1, "b": "2" }), "`b`"),
        ("add", json!({ "a": 1, "b": 2, "c": 3 }), "unknown field `c`"),
        ("add", json!({ "a": 1e308, "b": 1e308 }), "too large"),
        ("lookup", json!({}), "missing field `key`"),
        ("lookup", json!({ "key": 7 }), "`key`"),
        ("echo", json!({ "delay_ms": 1 }), "missing field `text`"),
        ("echo", json!({ "text": "a", "delay_ms": "1" }), "`delay_ms`"),
        ("fail", json!({ "code": "a" }), "missing field `message`"),
    ] {
        let said = client.refused(tool, arguments).await;
        assert!(said.contains(expected), "{said}");
    }
    assert!(client.try_call("subtract", json!({})).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn script_server_on_stdio_exits_when_client_disconnects() {
    let nowhere = std::path::Path::new("");
    let child = "script_tools::helper_process_serves_the_script_tools";
    let (client, mut process) = Client::in_process(child, nowhere).await;
    assert_eq!(sum(&client, json!(1), json!(2)).await, "3");
    client.disconnect().await;
    assert!(process.wait().await.unwrap().success());
}

/// Not a test: the server program that the test above starts as a child process.
#[tokio::test(flavor = "multi_thread")]
async fn helper_process_serves_the_script_tools() {
    if std::env::var_os("NUNCIO_DEMO_DB").is_some() {
        exit_process(&nuncio_demo::script().await);
    }
}
