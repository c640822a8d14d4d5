//! HTTP requests and responses of all suites.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use crate::target::ServerUnderTest;
use crate::verdict::{CheckStopReason, ensure, equal, fail, short, skip};

/// Sends a request and waits for the head of the response; returns method and path with it. A request refused by a rate
/// limit is repeated after a `Retry-After` of at most 10 seconds, because rate limits are not checked.
pub(crate) async fn send(
    target: &ServerUnderTest,
    request: RequestBuilder,
) -> Result<(String, Response), CheckStopReason> {
    const MAX_ATTEMPTS: usize = 12;
    let mut next = Some(request);
    for _ in 0..MAX_ATTEMPTS {
        let Some(request) = next.take() else { break };
        next = request.try_clone();
        let request = request.build().map_err(|error| fail(format!("not a request: {error}")))?;
        let url = request.url().as_str();
        let asked = format!("{} {}", request.method(), url.strip_prefix(&target.base).unwrap_or(url));
        let response = target
            .http
            .execute(request)
            .await
            .map_err(|error| fail(format!("{asked}: expected an answer, got {}", chain(&error))))?;
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        match wait.and_then(|seconds| seconds.parse::<u64>().ok()) {
            Some(seconds @ ..=10) if response.status() == 429 && next.is_some() => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            _ => return Ok((asked, response)),
        }
    }
    Err(skip("the server kept limiting the rate"))
}

/// A complete HTTP response.
#[derive(Debug)]
pub(crate) struct HttpReply {
    /// Method and path of the request, for messages.
    pub(crate) asked: String,
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HttpReply {
    pub(crate) async fn read(asked: String, response: Response) -> Result<Self, CheckStopReason> {
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response
            .bytes()
            .await
            .map_err(|error| fail(format!("{asked}: expected a whole body, got {}", chain(&error))))?;
        Ok(Self { asked, code, headers, body: body.to_vec() })
    }

    /// Fails unless the response has this status.
    pub(crate) fn status(&self, expected: u16) -> Result<&Self, CheckStopReason> {
        let Self { asked, code, .. } = self;
        ensure(*code == expected, || format!("{asked}: expected {expected}, got {code} {}", short(&self.text())))?;
        Ok(self)
    }

    /// Parses the body, which must be declared as JSON.
    pub(crate) fn json(&self) -> Result<Value, CheckStopReason> {
        let kind = self.header("content-type");
        let essence = kind.split(';').next().unwrap_or_default().trim();
        equal(&format!("{} ({}): content-type", self.asked, self.code), "application/json", essence)?;
        serde_json::from_slice(&self.body)
            .map_err(|error| fail(format!("{}: expected JSON, got {:?}: {error}", self.asked, short(&self.text()))))
    }

    /// Value of a response header; empty if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Header value; empty if it is absent.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Text of an error with its causes, which contain the details of transport errors.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
