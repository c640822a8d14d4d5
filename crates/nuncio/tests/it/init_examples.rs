//! The examples that `nuncio init` writes: each equals what the command writes today, and each is served and used.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::brains::{model_server, stream};
use crate::client::{call, last_text};
use crate::home::TestAgentFolder;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

#[test]
fn example_agents_equal_the_output_of_init() {
    let home = TestAgentFolder::hotel();
    let document = format!("{EXAMPLES}/openapi/openapi.yaml");
    let starts: [(&str, &[&str]); 6] = [
        ("mcp", &["--from-mcp", "nuncio demo hotel", "--yes"]),
        ("openapi", &["--from-openapi", &document]),
        ("model", &["--model", "ollama/qwen3"]),
        ("device", &["--device"]),
        ("process-python", &["--process", "python"]),
        ("process-node", &["--process", "node"]),
    ];
    for (name, arguments) in starts {
        home.json_command(&[&["init", name], arguments].concat()).json();
        for entry in fs::read_dir(home.path(name)).unwrap() {
            let file = entry.unwrap().file_name();
            // The schema for editors belongs to the version that wrote it; the examples have none.
            if file == ".agent.schema.json" {
                continue;
            }
            let example = Path::new(EXAMPLES).join(name).join(&file);
            let written = fs::read_to_string(home.path(name).join(&file)).unwrap();
            // The process examples name their own folder.
            let written = written.replace(&format!("nuncio serve {name}"), &format!("nuncio serve examples/{name}"));
            let expected = fs::read_to_string(&example).unwrap();
            if file == "agent.toml" {
                // The order of keys does not matter.
                let table = |text: &str| text.parse::<toml::Table>().unwrap();
                assert_eq!(table(&expected), table(&written), "{}", example.display());
            } else {
                assert_eq!(expected, written, "{}", example.display());
            }
        }
    }
}

/// Copies an example and changes its agent file.
fn copy(home: &TestAgentFolder, name: &str, change: impl FnOnce(String) -> String) {
    fs::create_dir(home.path(name)).unwrap();
    let text = fs::read_to_string(format!("{EXAMPLES}/{name}/agent.toml")).unwrap();
    fs::write(home.path(name).join("agent.toml"), change(text)).unwrap();
}

/// Replaces the rules of a generated agent file by the script brain, with which a test calls any tool.
fn scripted(text: &str) -> String {
    let (head, rest) = text.split_once("# How it thinks").unwrap();
    let rest = &rest[rest.find("\n# Permissions").or_else(|| rest.find("\n# What it can do")).unwrap()..];
    format!("{head}[brain]\nkind = \"script\"\n{rest}")
}

#[tokio::test]
async fn mcp_example_calls_a_tool_of_its_server() {
    let home = TestAgentFolder::hotel();
    let text = fs::read_to_string(format!("{EXAMPLES}/mcp/agent.toml")).unwrap();
    let (_, server) = text.split_once("\n# Where its tools run.").unwrap();
    let (head, _) = text.split_once("# How it thinks").unwrap();
    fs::create_dir(home.path("mcp")).unwrap();
    let script = format!("{head}[brain]\nkind = \"script\"\n{server}");
    fs::write(home.path("mcp/agent.toml"), script).unwrap();
    let running = home.serve().arg("mcp").start();
    let session = running.aap().session("mcp", &[("search_rooms", true)]).await;
    let search = call("c1", "search_rooms", json!({"check_in": "2030-06-01", "check_out": "2030-06-02", "guests": 1}));
    let answer = running.aap().play(&session, json!([[search], [{"text": "done"}]])).await;
    assert!(answer["messages"][1]["content"].to_string().contains("room"), "{answer}");
}

#[tokio::test]
async fn model_example_answers_through_its_model_server() {
    let (url, server) = model_server(vec![stream(&[
        json!({"choices": [{"delta": {"content": "Hello "}}]}),
        json!({"choices": [{"delta": {"content": "Ada."}, "finish_reason": "stop"}]}),
    ])]);
    let home = TestAgentFolder::hotel();
    copy(&home, "model", |text| {
        text.replace("# base_url = \"http://localhost:8080/v1\"", &format!("base_url = \"{url}\""))
    });
    let running = home.serve().arg("model").start();
    let session = running.aap().session("model", &[]).await;
    let answer = running.aap().say(&session, "hello").await;
    assert_eq!(last_text(answer["messages"].as_array().unwrap()), "Hello Ada.", "{answer}");
    assert_eq!(server.join().unwrap()[0]["model"], "qwen3");
}

/// A request as the shop received it.
#[derive(Debug, Clone, PartialEq)]
struct ShopRequest {
    line: String,
    authorization: Option<String>,
    body: Value,
}

/// A web service: answers every request with its line, and `GET /openapi.json` with a document.
struct TestShopServer {
    port: u16,
    requests: Arc<Mutex<Vec<ShopRequest>>>,
}

impl TestShopServer {
    fn start(document: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<ShopRequest>>> = Arc::default();
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream, &document, &log);
            }
        });
        Self { port, requests }
    }

    fn requests(&self) -> Vec<ShopRequest> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, document: &Value, log: &Mutex<Vec<ShopRequest>>) {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let of = |line: &String| {
            line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        head.iter().find_map(of)
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let line = head[0].trim_end_matches(" HTTP/1.1").to_owned();
    let answer = if line == "GET /openapi.json" { document.clone() } else { json!({"did": line}) };
    let body = serde_json::from_slice(&body).unwrap_or_default();
    log.lock().unwrap().push(ShopRequest { line, authorization: header("authorization"), body });
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    let _ = reader.get_mut().write_all(format!("{head}{answer}").as_bytes());
}

#[tokio::test]
async fn openapi_example_sends_requests_with_path_query_and_body() {
    let shop = TestShopServer::start(Value::Null);
    let home = TestAgentFolder::hotel();
    copy(&home, "openapi", |text| scripted(&text.replace("localhost:8080", &format!("127.0.0.1:{}", shop.port))));
    let running = home.serve().arg("openapi").start();
    let names = ["list_items", "show_item", "place_order", "cancel_order"];
    let session = running.aap().session("openapi", &names.map(|name| (name, true))).await;
    let calls = json!([
        [call("c1", "list_items", json!({"query": "green tea&x=1"}))],
        [call("c2", "show_item", json!({"id": "a/b"}))],
        [call("c3", "place_order", json!({"item": "7", "quantity": 2}))],
        [call("c4", "cancel_order", json!({"id": "9"}))],
        [{"text": "done"}],
    ]);
    let answer = running.aap().play(&session, calls).await;
    let request = |line: &str, body: Value| ShopRequest { line: line.to_owned(), authorization: None, body };
    assert_eq!(
        shop.requests(),
        [
            request("GET /v1/items?&query=green%20tea%26x%3D1", Value::Null),
            request("GET /v1/items/a%2Fb", Value::Null),
            request("POST /v1/orders", json!({"item": "7", "quantity": 2})),
            request("DELETE /v1/orders/9", Value::Null),
        ],
        "{answer}"
    );
}

#[tokio::test]
async fn init_from_the_url_of_an_openapi_document_makes_an_agent_that_sends_its_secret() {
    let body = json!({"required": true, "content": {"application/json": {"schema": {"type": "object"}}}});
    let id = json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}]);
    let shop = TestShopServer::start(json!({
        "openapi": "3.0.3", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "/api"}],
        "paths": {"/items/{id}": {"put": {"operationId": "change", "parameters": id, "requestBody": body}}},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }));
    let home = TestAgentFolder::hotel();
    let url = format!("http://127.0.0.1:{}/openapi.json", shop.port);
    let shown = home.nuncio(&["init", "shop", "--from-openapi", &url]).run();
    assert!(shown.stdout.contains(", with 1 tool, ") && shown.stdout.contains("export TOKEN=…"), "{shown:?}");
    let file = home.path("shop/agent.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("[secrets]\nTOKEN = { env = \"TOKEN\" }"), "{text}");
    let (head, rest) = text.split_once("# How it thinks").unwrap();
    let rest = &rest[rest.find("\n# Secrets stay").unwrap()..];
    fs::write(&file, format!("{head}[brain]\nkind = \"script\"\n{rest}")).unwrap();

    let running = home.serve().arg("shop").env("TOKEN", "t-secret").start();
    let session = running.aap().session("shop", &[("change", true)]).await;
    let change = call("c1", "change", json!({"id": 7, "body": {"price": "<3"}}));
    let answer = running.aap().play(&session, json!([[change], [{"text": "done"}]])).await;
    let sent = shop.requests().pop().unwrap();
    assert_eq!((sent.line.as_str(), sent.body), ("PUT /api/items/7", json!({"price": "<3"})), "{answer}");
    assert_eq!(sent.authorization.as_deref(), Some("Bearer t-secret"));
    assert!(!answer.to_string().contains("t-secret"));
}

#[test]
fn openapi_document_that_cannot_be_imported_writes_nothing() {
    let home = TestAgentFolder::hotel();
    fs::write(home.path("old.yaml"), "swagger: '2.0'\n").unwrap();
    for (place, why) in [
        ("old.yaml", "Swagger 2"),
        ("missing.json", "cannot be read"),
        ("http://127.0.0.1:9/openapi.json", "--from-openapi http://127.0.0.1:9/openapi.json"),
    ] {
        let (code, message) = home.json_command(&["init", "gone", "--from-openapi", place]).failure();
        assert_eq!(code, "openapi_invalid");
        assert!(message.contains(why), "{why} in {message}");
    }
    assert!(!home.path("gone").exists());
}
