//! Minimal Skill Sharing client that sends valid and invalid requests and returns the responses.

use std::time::{Duration, Instant};

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

pub(super) use crate::reply::HttpReply;
use crate::reply::send;
use crate::target::ServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal, fail, short, skip};

/// Path of the skill index (§4.3.1).
pub(super) const WELL_KNOWN: &str = "/.well-known/skill-sharing";
/// Public skill of the probe agent that returns its inputs.
pub(super) const ALL: &str = "probe/all";
/// Public skill of the probe agent that waits before it returns its inputs.
pub(super) const WAIT: &str = "probe/wait";

/// Default header for API keys.
pub(super) const KEY_HEADER: &str = "X-API-Key";

/// Time limit for an execution to end.
const EXECUTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Error codes of Skill Sharing (§8.1).
const ERROR_CODES: [&str; 7] = [
    "VALIDATION_ERROR",
    "AUTH_REQUIRED",
    "PERMISSION_DENIED",
    "SKILL_NOT_FOUND",
    "INVOCATION_TIMEOUT",
    "ENDPOINT_UNREACHABLE",
    "VERSION_INCOMPATIBLE",
];

/// Client of the server under test.
pub(super) struct SkillServerUnderTest {
    pub(super) target: ServerUnderTest,
    /// The server's public skill index.
    pub(super) index: Value,
}

impl SkillServerUnderTest {
    /// Fetches the index, so that checks know which skills exist.
    pub(super) async fn connect(target: &ServerUnderTest) -> Result<Self, CheckStopReason> {
        let mut api = Self { target: target.clone(), index: Value::Null };
        api.index = api.get(WELL_KNOWN).await?.status(200)?.json()?;
        Ok(api)
    }

    pub(super) fn entries(&self) -> &[Value] {
        entries(&self.index)
    }

    /// Whether the public index lists the skill.
    pub(super) fn has(&self, id: &str) -> bool {
        self.entries().iter().any(|entry| entry["id"] == id)
    }

    /// Default key header with the key that has the scope `probe:use`.
    pub(super) fn key(&self) -> Result<(&'static str, &str), CheckStopReason> {
        let key = self.target.key.as_deref().ok_or_else(|| skip("no key was given"))?;
        Ok((KEY_HEADER, key))
    }

    /// Default key header with the key that lacks the scope `probe:use`.
    pub(super) fn other_key(&self) -> Result<(&'static str, &str), CheckStopReason> {
        let key = self.target.other_key.as_deref().ok_or_else(|| skip("no second key was given"))?;
        Ok((KEY_HEADER, key))
    }

    /// Starts a request without credentials.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        // A path that starts with `http` is an absolute URL that the server returned.
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.target.base) };
        self.target.http.request(method, url)
    }

    pub(super) async fn get(&self, path: &str) -> Result<HttpReply, CheckStopReason> {
        self.call(self.request(Method::GET, path)).await
    }

    pub(super) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<HttpReply, CheckStopReason> {
        self.call(with(self.request(Method::GET, path), headers)).await
    }

    /// Sends a request and reads the complete response.
    pub(super) async fn call(&self, request: RequestBuilder) -> Result<HttpReply, CheckStopReason> {
        let (asked, response) = send(&self.target, request).await?;
        HttpReply::read(asked, response).await
    }

    /// Posts bytes as JSON to the skill's endpoint.
    pub(super) async fn post(&self, skill: &str, body: impl Into<reqwest::Body>) -> Result<HttpReply, CheckStopReason> {
        let request = self.request(Method::POST, &invoke_path(skill)).header(CONTENT_TYPE, "application/json");
        self.call(request.body(body)).await
    }

    pub(super) async fn invoke(&self, skill: &str, inputs: Value) -> Result<HttpReply, CheckStopReason> {
        self.invoke_with(skill, &invocation(skill, inputs), &[]).await
    }

    /// Invokes a skill with a complete body and additional headers.
    pub(super) async fn invoke_with(
        &self,
        skill: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Result<HttpReply, CheckStopReason> {
        let request = self.request(Method::POST, &invoke_path(skill)).header(CONTENT_TYPE, "application/json");
        self.call(with(request.body(body.to_string()), headers)).await
    }

    /// Invokes a skill that must accept, and returns the execution id.
    pub(super) async fn accepted(&self, skill: &str, inputs: Value) -> Result<String, CheckStopReason> {
        execution_id(&self.invoke(skill, inputs).await?)
    }

    /// Polls an execution until it ends, at most a minute; returns the responses that differ from the one before.
    pub(super) async fn poll(&self, id: &str, headers: &[(&str, &str)]) -> Result<Vec<Value>, CheckStopReason> {
        let began = Instant::now();
        let mut seen = Vec::new();
        loop {
            let now = self.get_with(&status_path(id), headers).await?.status(200)?.json()?;
            let over = is_over(&now);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            if over {
                return Ok(seen);
            }
            ensure(began.elapsed() < EXECUTION_TIMEOUT, || format!("expected {id} to be over, got {seen:?}"))?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The final response about an execution.
    pub(super) async fn wait_until_over(&self, id: &str) -> Result<Value, CheckStopReason> {
        self.poll(id, &[]).await?.pop().ok_or_else(|| fail("nothing was seen"))
    }

    /// Invokes a skill and waits for the final response.
    pub(super) async fn invoke_and_wait(&self, skill: &str, inputs: Value) -> Result<Value, CheckStopReason> {
        let id = self.accepted(skill, inputs).await?;
        self.wait_until_over(&id).await
    }

    /// Public descriptor of a skill.
    pub(super) async fn descriptor(&self, skill: &str) -> Result<Value, CheckStopReason> {
        self.get(&descriptor_path(skill)).await?.status(200)?.json()
    }
}

impl HttpReply {
    /// Checks that the response has this status, this error code and the error format; returns the error object.
    pub(super) fn refused_as(&self, status: u16, code: &str) -> Result<Value, CheckStopReason> {
        let error = self.status(status)?.envelope()?;
        equal(&format!("{}: error.code", self.asked), code, error["code"].as_str().unwrap_or_default())?;
        Ok(error)
    }

    /// Error object of the response, after a check of the error format (§8.2).
    pub(super) fn envelope(&self) -> Result<Value, CheckStopReason> {
        let body = self.json()?;
        let error = &body["error"];
        let known = error["code"].as_str().is_some_and(|code| ERROR_CODES.contains(&code));
        let said = error["message"].as_str().is_some_and(|text| !text.trim().is_empty());
        let number = |name: &str| error["retry"][name].as_f64().is_some_and(|number| number >= 0.0);
        let retry = error.get("retry").is_none() || number("suggested_delay_ms") && number("max_attempts");
        ensure(known && said && retry, || {
            let Self { asked, code, .. } = self;
            format!("{asked} ({code}): expected the error format of §8.2, got {}", short(&self.text()))
        })?;
        Ok(error.clone())
    }

    /// Status, headers and body for comparing two responses: without the headers that always differ, and with `…` in
    /// place of `name` in the body.
    pub(super) fn fingerprint(&self, name: &str) -> (u16, Vec<(String, String)>, String) {
        const PER_RESPONSE_HEADERS: [&str; 3] = ["date", "x-request-id", "content-length"];
        let headers = self.headers.iter().filter(|(name, _)| !PER_RESPONSE_HEADERS.contains(&name.as_str()));
        let mut headers: Vec<_> = headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        headers.sort();
        (self.code, headers, self.text().replace(name, "…"))
    }
}

/// Body of a minimal invocation (§5.3).
pub(super) fn invocation(skill: &str, inputs: Value) -> Value {
    let mut invocation = json!({ "caller": { "id": "conformance", "type": "service" }, "skill_id": skill });
    invocation["inputs"] = inputs;
    invocation
}

/// Body of an invocation with a context.
pub(super) fn invocation_in_context(skill: &str, inputs: Value, context: Value) -> Value {
    let mut invocation = invocation(skill, inputs);
    invocation["context"] = context;
    invocation
}

/// Execution id in a response that accepts an invocation.
pub(super) fn execution_id(reply: &HttpReply) -> Result<String, CheckStopReason> {
    let body = reply.status(202)?.json()?;
    let id = body["execution_id"].as_str().filter(|id| !id.is_empty());
    id.map(str::to_owned).ok_or_else(|| fail(format!("expected an `execution_id`, got {}", short(&body.to_string()))))
}

/// Whether the status of the execution is final (§3.4.4).
pub(super) fn is_over(execution: &Value) -> bool {
    matches!(execution["status"].as_str(), Some("completed" | "failed" | "timeout"))
}

/// Fails unless the execution has this final status.
pub(super) fn ended(execution: &Value, status: &str) -> CheckVerdict {
    ensure(execution["status"] == status, || format!("expected {status}, got {}", short(&execution.to_string())))
}

pub(super) fn entries(index: &Value) -> &[Value] {
    index["skills"].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn ids(index: &Value) -> Vec<&str> {
    entries(index).iter().filter_map(|entry| entry["id"].as_str()).collect()
}

pub(super) fn descriptor_path(skill: &str) -> String {
    format!("/skills/{skill}.json")
}

pub(super) fn invoke_path(skill: &str) -> String {
    format!("/skills/{skill}/invoke")
}

pub(super) fn status_path(execution: &str) -> String {
    format!("/executions/{execution}")
}

pub(super) fn result_path(execution: &str) -> String {
    format!("/executions/{execution}/result")
}

pub(super) fn with(request: RequestBuilder, headers: &[(&str, &str)]) -> RequestBuilder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

/// An unused idempotency key, made from the id of a new execution.
pub(super) async fn fresh(api: &SkillServerUnderTest) -> Result<String, CheckStopReason> {
    Ok(format!("conformance-{}", api.accepted(ALL, json!({ "text": "a name" })).await?))
}
