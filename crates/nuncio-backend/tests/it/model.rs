//! Language models, simulated by a scripted HTTP server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_core::turn::{StopReason, TokenUsage};
use nuncio_engine::ports::Clock as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::test_brain::TestBrain;
use crate::test_http_server::{self, ReceivedRequest};

#[path = "model/failures.rs"]
mod failures;
#[path = "model/streams.rs"]
mod streams;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Requests that the test server received.
type ReceivedRequestLog = Arc<Mutex<Vec<ReceivedRequest>>>;

/// Server that sends the n-th response to the n-th request and then repeats the last.
async fn server(answers: Vec<String>) -> (String, ReceivedRequestLog) {
    let log = ReceivedRequestLog::default();
    let seen = Arc::clone(&log);
    let address = test_http_server::serve(move |received, mut stream: TcpStream| {
        let mut log = seen.lock().unwrap();
        let answer = answers[log.len().min(answers.len() - 1)].clone();
        log.push(received);
        async move {
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    (format!("http://{address}/v1"), log)
}

/// Model brain of a provider at a base URL, with a key and one tool.
fn brain(provider: &str, base_url: &str, rest: &str) -> TestBrain {
    TestBrain::new(&format!(
        "[brain]\nkind = \"model\"\nprovider = \"{provider}\"\nmodel = \"m-1\"\nbase_url = \"{base_url}\"\nkey = \"KEY\"\n{rest}\n\
         [[tool]]\nname = \"add\"\ndescription = \"Adds.\"\ninput = {{ type = \"object\", properties = {{ a = {{ type = \"integer\" }} }}, required = [\"a\"] }}\nrun = {{ command = [\"true\"] }}\n"
    ))
}

fn events(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn said(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// A short complete model answer.
fn hello() -> String {
    format!("{HEAD}{}data: [DONE]\n\n", events(&[said("Hel"), said("lo"), finish("stop")]))
}

fn bodies(log: &ReceivedRequestLog) -> Vec<Value> {
    log.lock().unwrap().iter().map(|received| serde_json::from_str(&received.body).unwrap()).collect()
}
