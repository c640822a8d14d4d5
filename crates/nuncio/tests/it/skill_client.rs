//! A minimal Skill Sharing client for tests. The server may be killed at any time.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::client::builder;
use crate::process::{Server, until};

#[derive(Clone)]
pub(crate) struct Consumer {
    base: String,
    headers: Vec<(&'static str, String)>,
    http: reqwest::Client,
}

impl Consumer {
    pub(crate) fn of(server: &Server) -> Self {
        let http = builder().build().unwrap();
        Self { base: server.url().trim_end_matches('/').to_owned(), headers: Vec::new(), http }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.base) };
        let request = self.http.request(method, url);
        self.headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
    }

    /// Sends a request; `None` if the server was killed.
    pub(crate) async fn try_send(&self, request: RequestBuilder) -> Option<(u16, Value)> {
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, serde_json::from_str(&response.text().await.ok()?).unwrap()))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.try_send(self.request(Method::GET, path)).await.unwrap()
    }

    pub(crate) fn invocation(&self, skill: &str, inputs: &Value) -> RequestBuilder {
        let body = json!({"caller": {"id": "test", "type": "service"}, "skill_id": skill, "inputs": inputs});
        self.request(Method::POST, &format!("/skills/{skill}/invoke")).json(&body)
    }

    /// Invokes a skill, which the server must accept; returns the execution id.
    pub(crate) async fn submit(&self, skill: &str, inputs: &Value) -> String {
        let (status, body) = self.try_send(self.invocation(skill, inputs)).await.unwrap();
        assert_eq!((status, &body["status"]), (202, &json!("accepted")), "{body}");
        body["execution_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn status(&self, id: &str) -> Value {
        let (status, body) = self.get(&format!("/executions/{id}")).await;
        assert_eq!((status, &body["execution_id"]), (200, &json!(id)), "{body}");
        body
    }

    /// Waits for the end of an execution and returns its final state.
    pub(crate) async fn wait_for_result(&self, id: &str) -> Value {
        until("an execution to end", async || Some(self.status(id).await).filter(is_over)).await
    }
}

pub(crate) fn is_over(execution: &Value) -> bool {
    matches!(execution["status"].as_str().unwrap(), "completed" | "failed" | "timeout")
}
