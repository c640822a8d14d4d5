//! A tiny client of the protocol: it sends what it is told, right or wrong, and keeps what came.

use std::sync::Mutex;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

pub(super) use crate::reply::{Reply, chain, header, send};
use crate::target::Target;
use crate::verdict::{Stop, Verdict, ensure, fail, short, skip};

/// The agent that scripts are played on.
pub(super) const SCRIPT: &str = "script";

/// A server as the checks see it. Sessions made through it are deleted when the check is over.
pub(super) struct Api {
    pub(super) target: Target,
    /// What `GET /meta` said.
    pub(super) meta: Value,
    made: Mutex<Vec<String>>,
}

impl Api {
    /// Reads the server's self-description, so that checks know what they may try.
    pub(super) async fn connect(target: &Target) -> Result<Self, Stop> {
        let mut api = Self { target: target.clone(), meta: Value::Null, made: Mutex::default() };
        api.meta = api.get("/meta").await?.status(200)?.json()?;
        Ok(api)
    }

    /// The same server, asked with another key.
    pub(super) fn with_key(&self, key: Option<&str>) -> Self {
        let mut target = self.target.clone();
        target.key = key.map(str::to_owned);
        Self { target, meta: self.meta.clone(), made: Mutex::default() }
    }

    /// The agents of the server.
    pub(super) fn agents(&self) -> &[Value] {
        self.meta["agents"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The agent scripts are played on, if it is there.
    pub(super) fn script_agent(&self) -> Option<&Value> {
        self.agents().iter().find(|agent| agent["name"] == SCRIPT)
    }

    /// An agent to make sessions with, where it does not matter which.
    pub(super) fn any_agent(&self) -> Result<&str, Stop> {
        self.script_agent()
            .or_else(|| self.agents().first())
            .and_then(|agent| agent["name"].as_str())
            .ok_or_else(|| skip("the server has no agent"))
    }

    /// A request with the key and nothing else.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.anonymous(method, path);
        match &self.target.key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        }
    }

    /// A request without the key.
    pub(super) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client().request(method, format!("{}{path}", self.target.base))
    }

    pub(super) async fn get(&self, path: &str) -> Result<Reply, Stop> {
        self.call(self.request(Method::GET, path)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Reply, Stop> {
        self.call(self.request(Method::DELETE, path)).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Reply, Stop> {
        self.post_with(path, body, &[]).await
    }

    /// Posts JSON with more headers.
    pub(super) async fn post_with(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Result<Reply, Stop> {
        self.call(self.posting(path, body, headers)).await
    }

    /// A request that posts JSON.
    pub(super) fn posting(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> RequestBuilder {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json").body(body.to_string());
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    /// Sends a request and reads the whole reply.
    pub(super) async fn call(&self, request: RequestBuilder) -> Result<Reply, Stop> {
        let (asked, response) = self.send(request).await?;
        Reply::read(asked, response).await
    }

    /// Sends a request and waits for the head of the reply.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<(String, Response), Stop> {
        send(&self.target, request).await
    }

    /// Makes a session from a whole body.
    pub(super) async fn create(&self, body: &Value) -> Result<String, Stop> {
        let reply = self.post("/sessions", body).await?;
        self.created(&reply)
    }

    /// The session a reply to `POST /sessions` made.
    pub(super) fn created(&self, reply: &Reply) -> Result<String, Stop> {
        let body = reply.status(201)?.json()?;
        let id = body["sessionId"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| fail(format!("expected a `sessionId`, got {}", short(&body.to_string()))))?;
        self.made.lock().expect("no check panics while it notes a session").push(id.to_owned());
        Ok(id.to_owned())
    }

    /// A session with some agent.
    pub(super) async fn any_session(&self) -> Result<String, Stop> {
        self.create(&json!({ "agent": { "name": self.any_agent()? } })).await
    }

    /// A session with the script agent; `agent` and `rest` are added to the body.
    pub(super) async fn session_with(&self, agent: Value, rest: Value) -> Result<String, Stop> {
        if self.script_agent().is_none() {
            return Err(skip("the server has no agent named `script`"));
        }
        let mut body = json!({ "agent": { "name": SCRIPT } });
        merge(&mut body["agent"], agent);
        merge(&mut body, rest);
        self.create(&body).await
    }

    /// A session with the script agent; `agent` is added to its configuration.
    pub(super) async fn session(&self, agent: Value) -> Result<String, Stop> {
        self.session_with(agent, json!({})).await
    }

    /// Deletes what the check made. Nobody minds if it is gone already.
    pub(super) async fn clean_up(&self) {
        let made = std::mem::take(&mut *self.made.lock().expect("no check panics while it notes a session"));
        for session in made {
            let _ = self.delete(&format!("/sessions/{session}")).await;
        }
    }

    fn client(&self) -> &Client {
        &self.target.http
    }
}

impl Reply {
    /// Refused with this status, and the body says why as all of ours do.
    pub(super) fn refused(&self, expected: u16) -> Verdict {
        self.status(expected)?.error_body()
    }

    /// `{"error":"<text>","code":"<stable code>"}` as JSON.
    pub(super) fn error_body(&self) -> Verdict {
        let body = self.json()?;
        let text = body["error"].as_str().is_some_and(|text| !text.trim().is_empty());
        let stable =
            |code: &str| !code.is_empty() && code.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        ensure(text && body["code"].as_str().is_some_and(stable), || {
            let Self { asked, code, .. } = self;
            format!("{asked} ({code}): expected {{\"error\":\"…\",\"code\":\"…\"}}, got {}", short(&self.text()))
        })
    }
}

/// Adds the fields of one object to another.
fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
