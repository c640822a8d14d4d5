//! A tiny client of the protocol: it sends what it is told, right or wrong, and keeps what came.

use std::time::{Duration, Instant};

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

pub(super) use crate::reply::Reply;
use crate::reply::send;
use crate::target::Target;
use crate::verdict::{Stop, Verdict, ensure, equal, fail, short, skip};

/// Where every index is (§4.3.1).
pub(super) const WELL_KNOWN: &str = "/.well-known/skill-sharing";
/// A skill of the suite's own agent that anyone may call and that answers with its inputs.
pub(super) const ALL: &str = "probe/all";
/// One that waits first.
pub(super) const WAIT: &str = "probe/wait";

/// The header keys are sent in where a skill does not name another.
pub(super) const KEY_HEADER: &str = "X-API-Key";

/// How long an execution may take before it counts as never over.
const PATIENCE: Duration = Duration::from_secs(60);

/// The seven codes (§8.1).
const CODES: [&str; 7] = [
    "VALIDATION_ERROR",
    "AUTH_REQUIRED",
    "PERMISSION_DENIED",
    "SKILL_NOT_FOUND",
    "INVOCATION_TIMEOUT",
    "ENDPOINT_UNREACHABLE",
    "VERSION_INCOMPATIBLE",
];

/// A server as the checks see it.
pub(super) struct Api {
    pub(super) target: Target,
    /// What everyone sees.
    pub(super) index: Value,
}

impl Api {
    /// Reads the index, so that checks know what they may try.
    pub(super) async fn connect(target: &Target) -> Result<Self, Stop> {
        let mut api = Self { target: target.clone(), index: Value::Null };
        api.index = api.get(WELL_KNOWN).await?.status(200)?.json()?;
        Ok(api)
    }

    /// The entries of the index.
    pub(super) fn entries(&self) -> &[Value] {
        entries(&self.index)
    }

    /// Whether everyone sees a skill of that id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.entries().iter().any(|entry| entry["id"] == id)
    }

    /// The header that says who calls, with the key that has the scope.
    pub(super) fn key(&self) -> Result<(&'static str, &str), Stop> {
        let key = self.target.key.as_deref().ok_or_else(|| skip("no key was given"))?;
        Ok((KEY_HEADER, key))
    }

    /// The same with the key that has not.
    pub(super) fn other_key(&self) -> Result<(&'static str, &str), Stop> {
        let key = self.target.other_key.as_deref().ok_or_else(|| skip("no second key was given"))?;
        Ok((KEY_HEADER, key))
    }

    /// A request that says nothing about who sends it.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        // An absolute address is one the server gave us.
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.target.base) };
        self.target.http.request(method, url)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Reply, Stop> {
        self.call(self.request(Method::GET, path)).await
    }

    pub(super) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Reply, Stop> {
        self.call(with(self.request(Method::GET, path), headers)).await
    }

    /// Sends a request and reads the whole reply.
    pub(super) async fn call(&self, request: RequestBuilder) -> Result<Reply, Stop> {
        let (asked, response) = send(&self.target, request).await?;
        Reply::read(asked, response).await
    }

    /// Posts bytes as JSON to where a skill is invoked.
    pub(super) async fn post(&self, skill: &str, body: impl Into<reqwest::Body>) -> Result<Reply, Stop> {
        let request = self.request(Method::POST, &invoke_path(skill)).header(CONTENT_TYPE, "application/json");
        self.call(request.body(body)).await
    }

    /// Invokes a skill.
    pub(super) async fn invoke(&self, skill: &str, inputs: Value) -> Result<Reply, Stop> {
        self.invoke_with(skill, &wish(skill, inputs), &[]).await
    }

    /// Invokes a skill with a whole body and more headers.
    pub(super) async fn invoke_with(&self, skill: &str, body: &Value, headers: &[(&str, &str)]) -> Result<Reply, Stop> {
        let request = self.request(Method::POST, &invoke_path(skill)).header(CONTENT_TYPE, "application/json");
        self.call(with(request.body(body.to_string()), headers)).await
    }

    /// Invokes a skill, which accepts: the execution's id.
    pub(super) async fn accepted(&self, skill: &str, inputs: Value) -> Result<String, Stop> {
        execution_id(&self.invoke(skill, inputs).await?)
    }

    /// Waits for the end of an execution by asking again and again; all that was seen.
    pub(super) async fn poll(&self, id: &str, headers: &[(&str, &str)]) -> Result<Vec<Value>, Stop> {
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
            ensure(began.elapsed() < PATIENCE, || format!("expected {id} to be over, got {seen:?}"))?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How an execution ended.
    pub(super) async fn over(&self, id: &str) -> Result<Value, Stop> {
        self.poll(id, &[]).await?.pop().ok_or_else(|| fail("nothing was seen"))
    }

    /// Invokes a skill and waits for its end.
    pub(super) async fn done(&self, skill: &str, inputs: Value) -> Result<Value, Stop> {
        let id = self.accepted(skill, inputs).await?;
        self.over(&id).await
    }

    /// A skill's descriptor, as everyone sees it.
    pub(super) async fn descriptor(&self, skill: &str) -> Result<Value, Stop> {
        self.get(&descriptor_path(skill)).await?.status(200)?.json()
    }
}

impl Reply {
    /// Refused with this status and code, in the one format.
    pub(super) fn refused_as(&self, status: u16, code: &str) -> Result<Value, Stop> {
        let error = self.status(status)?.envelope()?;
        equal(&format!("{}: error.code", self.asked), code, error["code"].as_str().unwrap_or_default())?;
        Ok(error)
    }

    /// The error inside the one format (§8.2).
    pub(super) fn envelope(&self) -> Result<Value, Stop> {
        let body = self.json()?;
        let error = &body["error"];
        let known = error["code"].as_str().is_some_and(|code| CODES.contains(&code));
        let said = error["message"].as_str().is_some_and(|text| !text.trim().is_empty());
        let number = |name: &str| error["retry"][name].as_f64().is_some_and(|number| number >= 0.0);
        let retry = error.get("retry").is_none() || number("suggested_delay_ms") && number("max_attempts");
        ensure(known && said && retry, || {
            let Self { asked, code, .. } = self;
            format!("{asked} ({code}): expected the error format of §8.2, got {}", short(&self.text()))
        })?;
        Ok(error.clone())
    }

    /// What tells one answer from another, with a name that differs taken out.
    pub(super) fn fingerprint(&self, name: &str) -> (u16, Vec<(String, String)>, String) {
        const OWN: [&str; 3] = ["date", "x-request-id", "content-length"];
        let headers = self.headers.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
        let mut headers: Vec<_> = headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        headers.sort();
        (self.code, headers, self.text().replace(name, "…"))
    }
}

/// An unremarkable request for an execution (§5.3).
pub(super) fn wish(skill: &str, inputs: Value) -> Value {
    let mut wish = json!({ "caller": { "id": "conformance", "type": "service" }, "skill_id": skill });
    wish["inputs"] = inputs;
    wish
}

/// The same with a context.
pub(super) fn wish_in(skill: &str, inputs: Value, context: Value) -> Value {
    let mut wish = wish(skill, inputs);
    wish["context"] = context;
    wish
}

/// The id of an execution that was accepted.
pub(super) fn execution_id(reply: &Reply) -> Result<String, Stop> {
    let body = reply.status(202)?.json()?;
    let id = body["execution_id"].as_str().filter(|id| !id.is_empty());
    id.map(str::to_owned).ok_or_else(|| fail(format!("expected an `execution_id`, got {}", short(&body.to_string()))))
}

/// Whether nothing more can happen (§3.4.4).
pub(super) fn is_over(execution: &Value) -> bool {
    matches!(execution["status"].as_str(), Some("completed" | "failed" | "timeout"))
}

/// The status is this one.
pub(super) fn ended(execution: &Value, status: &str) -> Verdict {
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

/// A key nobody used before.
pub(super) async fn fresh(api: &Api) -> Result<String, Stop> {
    Ok(format!("conformance-{}", api.accepted(ALL, json!({ "text": "a name" })).await?))
}
