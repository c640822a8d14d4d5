//! Minimal AAP client that sends valid and invalid requests and returns the responses.

use std::sync::Mutex;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

pub(super) use crate::reply::{HttpReply, chain, header, send};
use crate::target::ServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, fail, short, skip};

/// Name of the agent with the script brain.
pub(super) const SCRIPT: &str = "script";

/// The server under test. Sessions created through this client are deleted after the check.
pub(super) struct AapServerUnderTest {
    pub(super) target: ServerUnderTest,
    /// Body of `GET /meta`.
    pub(super) meta: Value,
    made: Mutex<Vec<String>>,
}

impl AapServerUnderTest {
    /// Fetches `GET /meta`, so that checks know which agents exist.
    pub(super) async fn connect(target: &ServerUnderTest) -> Result<Self, CheckStopReason> {
        let mut api = Self { target: target.clone(), meta: Value::Null, made: Mutex::default() };
        api.meta = api.get("/meta").await?.status(200)?.json()?;
        Ok(api)
    }

    /// Client of the same server with another key.
    pub(super) fn with_key(&self, key: Option<&str>) -> Self {
        let mut target = self.target.clone();
        target.key = key.map(str::to_owned);
        Self { target, meta: self.meta.clone(), made: Mutex::default() }
    }

    pub(super) fn agents(&self) -> &[Value] {
        self.meta["agents"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Entry of the agent `script` in `/meta`, if it exists.
    pub(super) fn script_agent(&self) -> Option<&Value> {
        self.agents().iter().find(|agent| agent["name"] == SCRIPT)
    }

    /// Name of the agent `script`, or else of the first agent, for checks that work with any agent.
    pub(super) fn any_agent(&self) -> Result<&str, CheckStopReason> {
        self.script_agent()
            .or_else(|| self.agents().first())
            .and_then(|agent| agent["name"].as_str())
            .ok_or_else(|| skip("the server has no agent"))
    }

    /// Starts a request that carries the key.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.anonymous(method, path);
        match &self.target.key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        }
    }

    /// Starts a request without the key.
    pub(super) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client().request(method, format!("{}{path}", self.target.base))
    }

    pub(super) async fn get(&self, path: &str) -> Result<HttpReply, CheckStopReason> {
        self.call(self.request(Method::GET, path)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<HttpReply, CheckStopReason> {
        self.call(self.request(Method::DELETE, path)).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<HttpReply, CheckStopReason> {
        self.post_with(path, body, &[]).await
    }

    /// Posts JSON with additional headers.
    pub(super) async fn post_with(
        &self,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Result<HttpReply, CheckStopReason> {
        self.call(self.posting(path, body, headers)).await
    }

    /// Builds a request that posts JSON.
    pub(super) fn posting(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> RequestBuilder {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json").body(body.to_string());
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    /// Sends a request and reads the complete response.
    pub(super) async fn call(&self, request: RequestBuilder) -> Result<HttpReply, CheckStopReason> {
        let (asked, response) = self.send(request).await?;
        HttpReply::read(asked, response).await
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<(String, Response), CheckStopReason> {
        send(&self.target, request).await
    }

    /// Creates a session with this body; returns its id.
    pub(super) async fn create(&self, body: &Value) -> Result<String, CheckStopReason> {
        let reply = self.post("/sessions", body).await?;
        self.created(&reply)
    }

    /// Session id in the response to `POST /sessions`. The session is deleted after the check.
    pub(super) fn created(&self, reply: &HttpReply) -> Result<String, CheckStopReason> {
        let body = reply.status(201)?.json()?;
        let id = body["sessionId"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| fail(format!("expected a `sessionId`, got {}", short(&body.to_string()))))?;
        self.made.lock().expect("no check panics while it notes a session").push(id.to_owned());
        Ok(id.to_owned())
    }

    /// Creates a session with any agent.
    pub(super) async fn any_session(&self) -> Result<String, CheckStopReason> {
        self.create(&json!({ "agent": { "name": self.any_agent()? } })).await
    }

    /// Creates a session with the script agent; `agent` is merged into its configuration, `rest` into the body. Skips
    /// the check if the server has no such agent.
    pub(super) async fn session_with(&self, agent: Value, rest: Value) -> Result<String, CheckStopReason> {
        if self.script_agent().is_none() {
            return Err(skip("the server has no agent named `script`"));
        }
        let mut body = json!({ "agent": { "name": SCRIPT } });
        merge(&mut body["agent"], agent);
        merge(&mut body, rest);
        self.create(&body).await
    }

    /// Creates a session with the script agent; `agent` is merged into its configuration.
    pub(super) async fn session(&self, agent: Value) -> Result<String, CheckStopReason> {
        self.session_with(agent, json!({})).await
    }

    /// Deletes the sessions that the check created; missing ones are ignored.
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

impl HttpReply {
    /// Checks the status and the error body of a refusal.
    pub(super) fn refused(&self, expected: u16) -> CheckVerdict {
        self.status(expected)?.error_body()
    }

    /// Checks for `{"error":"<text>","code":"<stable code>"}`.
    pub(super) fn error_body(&self) -> CheckVerdict {
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

/// Adds the fields of `more` to `into`, and replaces those of the same name. Does nothing unless both are objects.
fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
