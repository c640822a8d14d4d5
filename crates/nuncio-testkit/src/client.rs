//! A small AAP test client that sends requests exactly as given.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::EventStream;

#[derive(Debug, Clone)]
pub struct AapClient {
    base: String,
    key: Option<String>,
    http: reqwest::Client,
}

impl AapClient {
    pub(crate) fn new(base: String, key: Option<String>) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { base, key, http }
    }

    /// The same client on one HTTP/2 connection, which its clones share.
    #[must_use]
    pub fn over_http2(self) -> Self {
        let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
        Self { http, ..self }
    }

    /// The same client and connection without the API key.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// A request to a path below the AAP base URL.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a `GET` and returns status and JSON.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// Sends a `POST` with JSON and returns status and JSON.
    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(&body).send().await.unwrap()).await
    }

    /// Sends a `DELETE` and returns status and JSON.
    pub async fn delete(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::DELETE, path).send().await.unwrap()).await
    }

    /// Creates a session with an agent and these server tools, each with its `trust`; panics on failure.
    pub async fn session(&self, agent: &str, tools: &[(&str, bool)]) -> String {
        let tools: Vec<_> = tools.iter().map(|(name, trust)| json!({"name": name, "trust": trust})).collect();
        self.session_with(json!({"agent": {"name": agent, "tools": tools}})).await
    }

    /// Creates a session with the given request body; panics on failure.
    pub async fn session_with(&self, request: Value) -> String {
        let (status, body) = self.post("/sessions", request).await;
        assert_eq!(status, 201, "{body}");
        body["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends one user message and waits for the agent's answer; panics unless the status is 200.
    pub async fn say(&self, session: &str, text: &str) -> Value {
        let (status, body) = self.turn(session, json!([{"role": "user", "content": text}])).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Sends a script for the script brain and waits for its answer.
    pub async fn play(&self, session: &str, script: Value) -> Value {
        self.say(session, &json!({"script": script}).to_string()).await
    }

    /// Sends messages and waits for the agent's answer; returns status and JSON.
    pub async fn turn(&self, session: &str, messages: Value) -> (u16, Value) {
        self.post(&format!("/sessions/{session}/turns"), json!({"messages": messages})).await
    }

    /// Starts a streamed turn with a script for the script brain.
    pub async fn stream(&self, session: &str, mode: &str, script: Value) -> EventStream {
        let text = json!({"script": script}).to_string();
        let body = json!({"stream": mode, "messages": [{"role": "user", "content": text}]});
        let request = self.request(Method::POST, &format!("/sessions/{session}/turns")).json(&body);
        open(request.send().await.unwrap())
    }

    /// Stream of the session's last turn, from the start or after an event.
    pub async fn resume(&self, session: &str, mode: &str, last: Option<&str>) -> EventStream {
        let mut request = self.request(Method::GET, &format!("/sessions/{session}/stream?stream={mode}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        open(request.send().await.unwrap())
    }

    /// Cancels the running turn and returns its outcome.
    pub async fn cancel(&self, session: &str) -> Value {
        let request = self.request(Method::POST, &format!("/sessions/{session}/cancel"));
        let (status, body) = answer(request.send().await.unwrap()).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    pub async fn history(&self, session: &str) -> Vec<Value> {
        let (status, body) = self.get(&format!("/sessions/{session}/history?type=full")).await;
        assert_eq!(status, 200, "{body}");
        body["history"]["full"].as_array().unwrap().clone()
    }
}

fn open(response: Response) -> EventStream {
    assert_eq!(response.status(), 200);
    EventStream::new(response)
}

async fn answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
    (status, body)
}
