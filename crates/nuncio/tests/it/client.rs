//! An AAP client for tests. The server may be killed at any time, so every request may fail.

use nuncio_testkit::ReceivedSseEvent;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Client {
    base: String,
    key: Option<String>,
    http: reqwest::Client,
}

pub(crate) struct EventStream {
    response: Response,
    text: String,
}

impl Client {
    pub(crate) fn new(base: &str, key: Option<&str>) -> Self {
        let http = builder().build().unwrap();
        Self { base: base.to_owned(), key: key.map(str::to_owned), http }
    }

    /// Client with the same URL and key, and a new connection.
    pub(crate) fn reconnected(&self) -> Self {
        Self::new(&self.base, self.key.as_deref())
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) async fn try_post(&self, path: &str, body: &Value) -> reqwest::Result<(u16, Value)> {
        answer(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.try_post(path, body).await.unwrap()
    }

    /// Creates a session; `tools` pairs each tool name with whether the app trusts the tool.
    pub(crate) async fn session(&self, agent: &str, tools: &[(&str, bool)]) -> String {
        let (status, body) = self.post("/sessions", &new_session(agent, tools)).await;
        assert_eq!(status, 201, "{body}");
        body["sessionId"].as_str().unwrap().to_owned()
    }

    /// Runs a turn with `messages` and returns the response body.
    pub(crate) async fn turn(&self, session: &str, messages: Value) -> Value {
        let (status, body) = self.post(&turns(session), &json!({"messages": messages})).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Runs a turn with one user message and returns the response body.
    pub(crate) async fn say(&self, session: &str, text: &str) -> Value {
        self.turn(session, json!([user(text)])).await
    }

    /// Runs a turn that plays a script of the script brain, and returns the response body.
    pub(crate) async fn play(&self, session: &str, script: Value) -> Value {
        self.turn(session, json!([play(&script)])).await
    }

    /// Starts a turn that plays a script of the script brain, and returns its event stream.
    pub(crate) async fn stream(&self, session: &str, script: Value) -> EventStream {
        let body = json!({"stream": "delta", "messages": [play(&script)]});
        let response = self.request(Method::POST, &turns(session)).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        EventStream { response, text: String::new() }
    }

    /// All events of the session's last turn.
    pub(crate) async fn events(&self, session: &str) -> Vec<ReceivedSseEvent> {
        rest(self.request(Method::GET, &format!("/sessions/{session}/stream"))).await
    }

    pub(crate) async fn events_behind(&self, session: &str, id: &str) -> Vec<ReceivedSseEvent> {
        rest(self.request(Method::GET, &format!("/sessions/{session}/stream")).header("Last-Event-ID", id)).await
    }

    pub(crate) async fn history(&self, session: &str) -> Vec<Value> {
        let (status, body) = self.get(&format!("/sessions/{session}/history?type=full")).await;
        assert_eq!(status, 200, "{body}");
        body["history"]["full"].as_array().unwrap().clone()
    }
}

async fn rest(request: reqwest::RequestBuilder) -> Vec<ReceivedSseEvent> {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    EventStream { response, text: String::new() }.rest().await
}

impl EventStream {
    /// Reads the stream until it contains an event named `event`.
    pub(crate) async fn until(&mut self, event: &str) {
        while !self.text.contains(&format!("event: {event}\n")) {
            let piece = self.response.chunk().await.unwrap().unwrap_or_else(|| panic!("no {event} in {}", self.text));
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// Reads the stream to its end; returns all its events, including those that were read before.
    pub(crate) async fn rest(self) -> Vec<ReceivedSseEvent> {
        let rest = self.response.text().await.unwrap();
        ReceivedSseEvent::parse(&(self.text + &rest))
    }
}

pub(crate) fn builder() -> reqwest::ClientBuilder {
    // The result is ignored, because another test may have installed the TLS provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

pub(crate) fn new_session(agent: &str, tools: &[(&str, bool)]) -> Value {
    let tools: Vec<_> = tools.iter().map(|(name, trust)| json!({"name": name, "trust": trust})).collect();
    json!({"agent": {"name": agent, "tools": tools}})
}

pub(crate) fn turns(session: &str) -> String {
    format!("/sessions/{session}/turns")
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn play(script: &Value) -> Value {
    user(&json!({"script": script}).to_string())
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Value {
    let mut call = json!({"tool": {"id": id, "name": name}});
    call["tool"]["input"] = input;
    call
}

pub(crate) fn last_text(messages: &[Value]) -> String {
    let blocks = messages.last().unwrap()["content"].as_array().unwrap();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

async fn answer(request: RequestBuilder) -> reqwest::Result<(u16, Value)> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let text = response.text().await?;
    Ok((status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) }))
}
