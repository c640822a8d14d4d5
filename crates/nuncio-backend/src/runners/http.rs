//! Tools that are requests to web services.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nuncio_core::agent::{HttpMethod, HttpRunSpec};
use nuncio_core::http_request::UrlTemplateOrigin;
use nuncio_core::json::{essence, is_json};
use nuncio_core::template::{EscapeContext, Template};
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use serde_json::{Value, json};

use super::secrets::SecretValues;
use crate::fetch::header_name;

/// Size limit of a response, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;
/// Maximum number of characters of an error response that are reported.
const SHOWN_CHARS: usize = 500;

/// Checks the declaration of an HTTP tool.
pub(super) fn check(run: &HttpRunSpec) -> Result<(), String> {
    UrlTemplateOrigin::new(run.url.as_str())?;
    for (name, _) in &run.headers {
        header_name(name)?;
    }
    Ok(())
}

/// Scheme, host and port of an HTTP tool's requests.
pub(super) fn request_origin(run: &HttpRunSpec) -> Result<url::Url, String> {
    UrlTemplateOrigin::new(run.url.as_str()).map(|origin| origin.url().clone())
}

/// Sends the request of an HTTP tool.
pub(super) async fn run(
    fetch: &Arc<dyn Fetch>,
    secrets: &SecretValues,
    run: &HttpRunSpec,
    call: &AuthorizedToolCall,
    timeout: Duration,
) -> Result<ToolOutput, ToolRunError> {
    let fixed_origin = UrlTemplateOrigin::new(run.url.as_str()).map_err(ToolRunError::Failed)?;
    let request = request(&fixed_origin, secrets, run, call, timeout)
        .map_err(|why| ToolRunError::Failed(secrets.redact(&why)))?;
    let answer = fetch.fetch(request).await.map_err(|error| failure(&fixed_origin, error))?;
    outcome(&fixed_origin, &answer).map_err(|why| ToolRunError::Failed(secrets.redact(&why)))
}

fn request(
    fixed_origin: &UrlTemplateOrigin<'_>,
    secrets: &SecretValues,
    run: &HttpRunSpec,
    call: &AuthorizedToolCall,
    timeout: Duration,
) -> Result<FetchRequest, String> {
    let context = json!({"args": call.arguments, "secrets": secrets});
    let fill = |template: &Template, escape: EscapeContext, what: &str| {
        template.render(escape, &context).map_err(|error| format!("{what} cannot be filled in: {}", error.reason()))
    };
    let url = fixed_origin.admit(&fill(&run.url, EscapeContext::Url, "the address")?)?;

    let mut headers = Vec::with_capacity(run.headers.len() + 1);
    for (name, template) in &run.headers {
        let value = fill(template, EscapeContext::Line, &format!("the header {name}"))?;
        if !value.is_empty() {
            headers.push((name.clone(), value));
        }
    }
    let declared = |name: &str| run.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
    let passed_on = call.trace.iter().filter(|(name, _)| !declared(name) && header_name(name).is_ok());
    headers.extend(passed_on.map(|(name, value)| ((*name).to_owned(), value.clone())));

    let body = match &run.body {
        Some(template) => Some(fill(template, EscapeContext::Body, "the body")?),
        None if takes_body(run.method) => Some(Value::Object(call.arguments.clone()).to_string()),
        None => None,
    };
    if let Some(body) = &body
        && !declared("content-type")
    {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        headers.push(("content-type".into(), kind.into()));
    }
    Ok(FetchRequest {
        method: run.method.as_str(),
        url,
        headers,
        body: body.map(Bytes::from),
        trust: AddressTrust::Configured,
        timeout,
        max_bytes: MAX_ANSWER,
    })
}

fn takes_body(method: HttpMethod) -> bool {
    matches!(method, HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch)
}

/// Describes a failed request without the URL, whose path may contain a secret.
fn failure(fixed_origin: &UrlTemplateOrigin<'_>, error: FetchError) -> ToolRunError {
    match error {
        FetchError::Refused { why, .. } => {
            ToolRunError::Failed(format!("requests to {fixed_origin} are not allowed: {why}"))
        }
        FetchError::Unreachable { why, .. } => {
            ToolRunError::Unavailable(format!("{fixed_origin} cannot be reached: {why}"))
        }
        FetchError::TooSlow { limit, .. } => {
            ToolRunError::Unavailable(format!("{fixed_origin} did not answer within {limit:?}"))
        }
        FetchError::TooLarge { limit, .. } => {
            ToolRunError::Failed(format!("{fixed_origin} answered with more than {limit} bytes"))
        }
    }
}

fn outcome(fixed_origin: &UrlTemplateOrigin<'_>, answer: &FetchResponse) -> Result<ToolOutput, String> {
    let kind = answer.header("content-type").unwrap_or_default();
    let essence = essence(kind);
    if !(200..300).contains(&answer.status) {
        let status = http::StatusCode::from_u16(answer.status)
            .map_or_else(|_| answer.status.to_string(), |status| status.to_string());
        if (300..400).contains(&answer.status) {
            return Err(format!(
                "{fixed_origin} answered {status}: redirects are not followed, write the final address into the agent file"
            ));
        }
        let body: String = String::from_utf8_lossy(&answer.body).chars().take(SHOWN_CHARS).collect();
        let body = super::process::printable(&body);
        let body = if body.trim().is_empty() { String::new() } else { format!(": {}", body.trim()) };
        return Err(format!("{fixed_origin} answered {status}{body}"));
    }
    if answer.status == 204 || answer.body.is_empty() {
        return Ok(ToolOutput::default());
    }
    let says_json = is_json(kind);
    match serde_json::from_slice(&answer.body) {
        Ok(value) if says_json || essence.is_empty() => return Ok(ToolOutput::json(value)),
        Err(error) if says_json => {
            return Err(format!("{fixed_origin} answered with JSON that cannot be read: {error}"));
        }
        _ => {}
    }
    match std::str::from_utf8(&answer.body) {
        Ok(text) => Ok(ToolOutput::text(text)),
        Err(_) => Err(format!(
            "{fixed_origin} answered with {} bytes of {}, which is not text",
            answer.body.len(),
            if essence.is_empty() { "something" } else { essence }
        )),
    }
}
