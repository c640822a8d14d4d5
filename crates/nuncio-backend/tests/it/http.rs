//! Tools that are requests to web services.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::test_http_server::{self, ReceivedRequest};
use crate::test_runners::{RunnersFixture, agent, failure_text, tool, unavailable_text};
use nuncio_engine::ports::Runner;

/// HTTP response whose JSON body describes the received request.
fn mirror(received: &ReceivedRequest) -> String {
    let seen = json!({
        "line": received.line(),
        "kind": received.header("content-type"),
        "key": received.header("x-key"),
        "trace": received.header("traceparent"),
        "body": received.body,
    });
    test_http_server::answer("200 OK", "content-type: application/json; charset=utf-8\r\n", &seen.to_string())
}

async fn ask(address: SocketAddr, request: &str, arguments: Value) -> Value {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("key"), "hunter22\n").unwrap();
    let request = request.replace("HOST", &address.to_string());
    let file = format!("{}[secrets]\nkey = {{ file = \"key\" }}\n", tool("ask", &format!("{{ http = {request} }}")));
    let agent = workshop.resolve(&file).await.unwrap();
    workshop.run(&agent, "ask", arguments).await.unwrap().structured.unwrap()
}

#[tokio::test]
async fn get_request_has_filled_url_and_headers_but_no_body() {
    let address = test_http_server::serve_whole(|received| mirror(&received)).await;
    let request =
        r#"{ url = "http://HOST/rooms/{{ args.id }}?q={{ args.q }}", headers = { X-Key = "{{ secrets.key }}" } }"#;
    let seen = ask(address, request, json!({"id": "a/../b", "q": "x&y=z#", "more": "unseen"})).await;
    assert_eq!(seen["line"], "GET /rooms/a%2F..%2Fb?q=x%26y%3Dz%23 HTTP/1.1");
    assert_eq!((&seen["key"], &seen["body"], &seen["kind"]), (&json!("hunter22"), &json!(""), &json!(null)));
    assert_eq!(seen["trace"], "00-1-2-01");
}

#[tokio::test]
async fn missing_template_value_in_the_url_a_header_or_the_body_fails_the_call_unless_written_as_json() {
    let address = test_http_server::serve_whole(|received| mirror(&received)).await;
    for (request, what) in [
        (r#"{ url = "http://HOST/{{ args.q }}" }"#, "the address"),
        (r#"{ url = "http://HOST/", headers = { X-Q = "{{ args.q }}" } }"#, "the header X-Q"),
        (r#"{ method = "POST", url = "http://HOST/", body = "{{ args.q }}" }"#, "the body"),
    ] {
        let workshop = RunnersFixture::new();
        let run = format!("{{ http = {} }}", request.replace("HOST", &address.to_string()));
        let agent = workshop.resolve(&tool("ask", &run)).await.unwrap();
        let why = failure_text(workshop.run(&agent, "ask", json!({})).await);
        assert_eq!(why, format!("{what} cannot be filled in: `args.q` has no value"));
    }
    let body = r#"{ method = "POST", url = "http://HOST/", body = '{"q": {{ args.q | tojson }}, "l": {{ args.l }}}' }"#;
    let seen = ask(address, body, json!({"l": ["a", true]})).await;
    assert_eq!(seen["body"], r#"{"q": null, "l": ["a",true]}"#);
}

#[tokio::test]
async fn post_put_and_patch_send_arguments_or_the_declared_body() {
    let address = test_http_server::serve_whole(|received| mirror(&received)).await;
    let seen = ask(address, r#"{ method = "POST", url = "http://HOST/" }"#, json!({"room": 12})).await;
    assert_eq!((&seen["body"], &seen["kind"]), (&json!("{\"room\":12}"), &json!("application/json")));

    let own = r#"{ method = "PUT", url = "http://HOST/", body = '{"r": {{ args.room | tojson }}}' }"#;
    let seen = ask(address, own, json!({"room": "a\"b"})).await;
    assert_eq!((&seen["body"], &seen["kind"]), (&json!("{\"r\": \"a\\\"b\"}"), &json!("application/json")));

    let text = r#"{ method = "PATCH", url = "http://HOST/", body = "room {{ args.room }}" }"#;
    let seen = ask(address, text, json!({"room": 12})).await;
    assert_eq!((&seen["body"], &seen["kind"]), (&json!("room 12"), &json!("text/plain; charset=utf-8")));

    let seen = ask(address, r#"{ method = "DELETE", url = "http://HOST/{{ args.id }}" }"#, json!({"id": 7})).await;
    assert_eq!((&seen["line"], &seen["body"]), (&json!("DELETE /7 HTTP/1.1"), &json!("")));
}

#[tokio::test]
async fn http_responses_become_tool_output_or_failures() {
    let address = test_http_server::serve_whole(|received| match received.line() {
        "GET /text HTTP/1.1" => test_http_server::answer("200 OK", "content-type: text/plain\r\n", "42"),
        "GET /json HTTP/1.1" => {
            test_http_server::answer("201 Created", "content-type: application/problem+json\r\n", "42")
        }
        "GET /none HTTP/1.1" => "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned(),
        "GET /broken HTTP/1.1" => test_http_server::answer("200 OK", "content-type: application/json\r\n", "{"),
        "GET /moved HTTP/1.1" => {
            test_http_server::answer("301 Moved Permanently", "location: http://169.254.169.254/\r\n", "")
        }
        _ => {
            test_http_server::answer("404 Not Found", "", &format!("no such \u{1b}room, hunter22 {}", "x".repeat(5000)))
        }
    })
    .await;
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("key"), "hunter22").unwrap();
    let url = format!(
        "{{ http = {{ url = \"http://{address}/{{{{ args.path }}}}\", headers = {{ k = \"{{{{ secrets.key }}}}\" }} }} }}"
    );
    let agent =
        workshop.resolve(&format!("{}[secrets]\nkey = {{ file = \"key\" }}\n", tool("ask", &url))).await.unwrap();
    let ask = async |path: &str| workshop.run(&agent, "ask", json!({"path": path})).await;

    let text = ask("text").await.unwrap();
    assert_eq!((text.structured.as_ref(), text.message_content()), (None, "42".into()));
    assert_eq!(ask("json").await.unwrap().structured, Some(json!(42)));
    let none = ask("none").await.unwrap();
    assert!(none.content.is_empty() && none.structured.is_none());
    assert!(failure_text(ask("broken").await).contains("JSON that cannot be read"));
    assert!(failure_text(ask("moved").await).contains("redirects are not followed"));
    let why = failure_text(ask("else").await);
    assert!(why.starts_with(&format!("http://{address} answered 404 Not Found: no such room, [secret] xxx")), "{why}");
    assert!(why.len() < 700, "{why}");
}

#[tokio::test]
async fn unreachable_service_error_contains_no_secret() {
    let workshop = RunnersFixture::new();
    std::fs::write(workshop.folder.path().join("key"), "hunter22").unwrap();
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let run = format!("{{ http = {{ url = \"http://{address}/bot{{{{ secrets.key }}}}/send\" }} }}");
    let agent =
        workshop.resolve(&format!("{}[secrets]\nkey = {{ file = \"key\" }}\n", tool("ask", &run))).await.unwrap();
    let why = unavailable_text(workshop.run(&agent, "ask", json!({})).await);
    assert!(why.starts_with(&format!("http://{address} cannot be reached: ")) && !why.contains("hunter22"), "{why}");
}

#[tokio::test]
async fn arguments_cannot_change_request_origin() {
    let address = test_http_server::serve_whole(|received| mirror(&received)).await;
    let workshop = RunnersFixture::new();
    let run = format!("{{ http = {{ url = \"http://{address}/rooms/{{{{ args.id }}}}/beds\" }} }}");
    let agent = workshop.resolve(&tool("ask", &run)).await.unwrap();
    for id in [
        "@evil.example",
        "evil.example/",
        "//evil.example",
        "\\\\evil.example",
        "?x=",
        "#",
        "a\r\nb",
        "%2e%2e",
        "\t",
        "../../x",
        "..;",
    ] {
        let seen = workshop.run(&agent, "ask", json!({"id": id})).await.unwrap().structured.unwrap();
        let line = seen["line"].as_str().unwrap();
        assert!(line.starts_with("GET /rooms/") && line.ends_with("/beds HTTP/1.1"), "{id:?}: {line}");
    }
    for id in ["..", "."] {
        let why = failure_text(workshop.run(&agent, "ask", json!({"id": id})).await);
        assert!(why.contains("`..` segment"), "{id:?}: {why}");
    }
    assert!(failure_text(workshop.run(&agent, "ask", json!({})).await).contains("cannot be filled in"));
}

#[tokio::test]
async fn url_template_with_host_from_arguments_is_refused_before_serving() {
    let workshop = RunnersFixture::new();
    let base = agent(&tool("ask", r#"{ http = { url = "https://api.example/x" } }"#));
    for url in [
        "https://{{ args.host }}/",
        "https://api.example{{ args.x }}",
        "https://api.example:{{ args.x }}/",
        "https://a:b@api.example/{{ args.x }}",
    ] {
        let mut agent = base.clone();
        let mut tool = (*agent.tools[0]).clone();
        let nuncio_core::agent::ToolRunSpec::Http(run) = &mut tool.run else { panic!("http") };
        run.url = nuncio_core::template::Template::parse(url).unwrap();
        agent.tools[0] = tool.into();
        let why = workshop.runners.resolve(agent).await.unwrap_err();
        assert!(why.starts_with("the tool `ask`: the address "), "{why}");
    }
}
