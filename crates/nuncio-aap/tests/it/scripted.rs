//! AAP server for tests that sends scripted responses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use nuncio_aap::client::{AapConversation, Client, NewSession, TurnEnd, TurnUpdate};
use nuncio_core::message::Message;
use nuncio_core::turn::TurnInput;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Scripted response. Responses for the same method and path are sent in order; the last one repeats.
#[derive(Clone)]
pub(crate) struct ScriptedResponse {
    on: &'static str,
    status: u16,
    kind: &'static str,
    body: String,
    cut: bool,
}

impl ScriptedResponse {
    pub(crate) fn json(on: &'static str, status: u16, body: &Value) -> Self {
        Self { on, status, kind: "application/json", body: body.to_string(), cut: false }
    }

    pub(crate) fn text(on: &'static str, status: u16, body: &str) -> Self {
        Self { on, status, kind: "text/plain", body: body.to_owned(), cut: false }
    }

    /// Scripted event stream that ends normally.
    pub(crate) fn stream(on: &'static str, body: impl Into<String>) -> Self {
        Self { on, status: 200, kind: "text/event-stream", body: body.into(), cut: false }
    }

    /// Makes the server break the connection after the body instead of ending the response normally.
    pub(crate) fn cut(self) -> Self {
        Self { cut: true, ..self }
    }
}

/// Event stream without event ids, as the AAP SDK writes it.
pub(crate) fn events(events: &[(&str, Value)]) -> String {
    events.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect()
}

/// Event stream with event ids, as Nuncio writes it.
pub(crate) fn numbered(from: usize, list: &[(&str, Value)]) -> String {
    let line =
        |(at, event): (usize, &(&str, Value))| format!("id: 1.{}\n{}", from + at, events(std::slice::from_ref(event)));
    list.iter().enumerate().map(line).collect()
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct ScriptedServer {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl ScriptedServer {
    pub(crate) async fn start(answers: Vec<ScriptedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, queue) = (Arc::clone(&asked), Arc::new(Mutex::new(VecDeque::from(answers))));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&queue), Arc::clone(&seen)));
            }
        });
        Self { url, asked }
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.url)
    }

    /// Received requests whose request line contains `on`, oldest first.
    pub(crate) fn asked(&self, on: &str) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.line.contains(on)).cloned().collect()
    }

    /// Begins a conversation with an agent that has `capabilities` and whose tool `add` requires permission.
    pub(crate) async fn conversation(&self, capabilities: &Value) -> AapConversation {
        let agent =
            serde_json::from_value(json!({"name": "other", "version": "1.0.0", "capabilities": capabilities})).unwrap();
        let new: Vec<_> =
            serde_json::from_value(json!([{"name": "mine", "description": "", "parameters": {}}])).unwrap();
        let agent_config = serde_json::from_value(json!({"name": "other", "tools": [{"name": "add"}]})).unwrap();
        let new = NewSession { agent: agent_config, tools: new, ..NewSession::default() };
        AapConversation::begin(self.client(), agent, new).await.unwrap()
    }
}

pub(crate) fn client(url: &str) -> Client {
    let http =
        nuncio_backend::fetch::GuardedFetch::new(nuncio_backend::fetch::AllowedAddresses::default(), false, None)
            .unwrap();
    Client::new(url.parse().unwrap(), None, http.client_for_configured())
}

/// Scripted response to `POST /sessions`.
pub(crate) fn created() -> ScriptedResponse {
    ScriptedResponse::json("POST /api/sessions ", 201, &json!({"sessionId": "s1"}))
}

/// Sends an input; returns the updates of the turn between its start and its end, and its end.
pub(crate) async fn send(conversation: &mut AapConversation, input: TurnInput) -> (Vec<TurnUpdate>, TurnEnd) {
    let mut updates: Vec<TurnUpdate> = conversation.send(input).map(Result::unwrap).collect().await;
    assert_eq!(updates.remove(0), TurnUpdate::Started);
    match updates.pop() {
        Some(TurnUpdate::Ended(ended)) => (updates, ended),
        other => panic!("{other:?} after {updates:?}"),
    }
}

pub(crate) async fn say(conversation: &mut AapConversation, text: &str) -> (Vec<TurnUpdate>, TurnEnd) {
    send(conversation, TurnInput::User(Message::user(text))).await
}

async fn serve(
    mut stream: TcpStream,
    queue: Arc<Mutex<VecDeque<ScriptedResponse>>>,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let Some(asked) = read(&mut stream).await else { return };
    seen.lock().unwrap().push(asked.clone());
    let answer = {
        let mut queue = queue.lock().unwrap();
        let at = queue.iter().position(|answer| asked.line.starts_with(answer.on));
        match at {
            Some(at) if queue.iter().filter(|answer| answer.on == queue[at].on).count() > 1 => {
                queue.remove(at).unwrap()
            }
            Some(at) => queue[at].clone(),
            None => ScriptedResponse::text("", 404, "404 Not Found"),
        }
    };
    let length = if answer.cut { format!("content-length: {}\r\n", answer.body.len() + 100) } else { String::new() };
    let head =
        format!("HTTP/1.1 {} X\r\ncontent-type: {}\r\n{length}connection: close\r\n\r\n", answer.status, answer.kind);
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(answer.body.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |text| text.parse().unwrap());
        if body.len() >= length {
            let line = text.lines().next().unwrap().to_owned();
            return Some(ReceivedRequest { line, head, body: serde_json::from_str(body).unwrap_or_default() });
        }
    }
}
