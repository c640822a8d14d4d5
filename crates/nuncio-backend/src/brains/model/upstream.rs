//! Sends the request to a model's server with retries before the answer begins, and reads the event stream with
//! timeouts.

use std::time::Duration;

use bytes::Bytes;
use nuncio_core::agent::ModelProvider;
use nuncio_core::backoff::{self, Backoff};
use nuncio_engine::ports::Clock;
use nuncio_http::sse::{SseDecoder, SseLimits, SseTooLarge};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use url::Url;

use super::parser::{error_message, short};
use crate::fetch::cause;
use crate::runners::secrets::SecretValues;
use crate::within;

/// Maximum number of attempts of one model request.
const MAX_ATTEMPTS: u32 = 3;
/// Default delays before the second and third attempt of a model request.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(60));
/// Longest delay that a server may ask for; with a longer one the request fails without a retry.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Time limit until the answer begins; a local server may have to load the model first.
const FIRST_CHUNK_TIMEOUT: Duration = Duration::from_secs(300);
/// Time limit between two chunks of an answer.
const NEXT_CHUNK_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of bytes read from an error response.
const MAX_ERROR: usize = 64 * 1024;
/// Size limits in bytes of a line and of an event in the answer stream.
const SSE_LIMITS: SseLimits = SseLimits { line: 4 * 1024 * 1024, event: 4 * 1024 * 1024 };

/// Model request that is ready to be sent.
#[derive(Debug)]
pub(super) struct ModelRequest {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Connection to a model server, with the secrets to redact in error messages.
#[derive(Debug)]
pub(super) struct ModelClient<'a> {
    pub(super) provider: ModelProvider,
    pub(super) http: &'a reqwest::Client,
    pub(super) clock: &'a dyn Clock,
    pub(super) secrets: &'a SecretValues,
}

impl ModelClient<'_> {
    /// Sends a request, with retries after 429, server errors and connection failures. Retries are safe, because
    /// no part of an answer has been forwarded yet.
    pub(super) async fn open<'a>(&'a self, request: &ModelRequest) -> Result<ModelAnswerStream<'a>, String> {
        let host = request.url.host_str().unwrap_or_default();
        let who = format!("{} ({host})", self.provider.as_str());
        let mut tried = 0;
        loop {
            tried += 1;
            let (why, asked_to_wait) = match self.send(request).await {
                Ok(response) => return Ok(ModelAnswerStream::new(self, who, response)),
                Err(FailedModelRequest { why, again: Some(wait) }) => (why, wait),
                Err(FailedModelRequest { why, again: None }) => return Err(self.about(&who, &why)),
            };
            if tried == MAX_ATTEMPTS {
                return Err(self.about(&who, &format!("{why} (tried {MAX_ATTEMPTS} times)")));
            }
            let wait = asked_to_wait.unwrap_or(BACKOFF.after(tried));
            if wait > MAX_RETRY_AFTER {
                let later = format!("{why} (it asks to retry in {} seconds)", wait.as_secs());
                return Err(self.about(&who, &later));
            }
            tracing::debug!(who, why = self.secrets.redact(&why), ?wait, "retrying a request to a model");
            self.clock.sleep_until(self.clock.now().after(wait)).await;
        }
    }

    async fn send(&self, request: &ModelRequest) -> Result<Response, FailedModelRequest> {
        let post = self.http.post(request.url.clone()).headers(request.headers.clone()).body(request.body.clone());
        let Some(sent) = within(self.clock, FIRST_CHUNK_TIMEOUT, post.send()).await else {
            let why = format!("did not answer within {} seconds", FIRST_CHUNK_TIMEOUT.as_secs());
            return Err(FailedModelRequest { why, again: None });
        };
        let response = sent.map_err(|error| FailedModelRequest {
            why: format!("cannot be reached: {}", cause(&error)),
            again: error.is_connect().then_some(None),
        })?;
        self.check_response(response).await
    }

    /// Returns a successful response that is not JSON; any other response becomes an error.
    async fn check_response(&self, response: Response) -> Result<Response, FailedModelRequest> {
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if status.is_success() && !kind.starts_with("application/json") {
            return Ok(response);
        }
        let worth_it = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let again = worth_it.then(|| {
            let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
            backoff::parse_retry_after(text, self.clock.now())
        });
        let detail = self.read_error(response).await;
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        let why = if status.is_success() {
            format!("did not answer with a stream of events{detail}")
        } else {
            format!("answered with status {status}{detail}")
        };
        Err(FailedModelRequest { why, again })
    }

    /// Reads the error message from at most [`MAX_ERROR`] bytes of an error response.
    async fn read_error(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR - body.len())]);
                if body.len() == MAX_ERROR {
                    break;
                }
            }
        };
        within(self.clock, NEXT_CHUNK_TIMEOUT, read).await;
        match serde_json::from_slice::<Value>(&body) {
            Ok(body) => error_message(&body),
            Err(_) => short(&String::from_utf8_lossy(&body)),
        }
    }

    /// Error message about the server, with secrets redacted.
    fn about(&self, who: &str, what: &str) -> String {
        self.secrets.redact(&format!("{who} {what}"))
    }
}

struct FailedModelRequest {
    why: String,
    /// `Some` if a retry may succeed, with the delay that the server asked for, if any.
    again: Option<Option<Duration>>,
}

/// Answer of a model server that is being read. Dropping it closes the connection.
pub(super) struct ModelAnswerStream<'a> {
    upstream: &'a ModelClient<'a>,
    who: String,
    response: Response,
    /// Decoder of the event stream; `None` after the end of the answer.
    decoder: Option<SseDecoder>,
    /// Size limit that the stream exceeded.
    fault: Option<SseTooLarge>,
}

impl<'a> ModelAnswerStream<'a> {
    fn new(upstream: &'a ModelClient<'a>, who: String, response: Response) -> Self {
        Self { upstream, who, response, decoder: Some(SseDecoder::new(SSE_LIMITS)), fault: None }
    }

    /// Data of the next stream event; `None` at the end of the answer.
    pub(super) async fn next(&mut self) -> Result<Option<String>, String> {
        loop {
            let Some(decoder) = &mut self.decoder else { return Ok(None) };
            if let Some(event) = decoder.next_event() {
                return Ok(Some(event.data));
            }
            if let Some(fault) = self.fault {
                return Err(self.broke_off(&fault.to_string()));
            }
            match self.chunk().await? {
                // Complete events before an error are still returned.
                Some(chunk) => self.fault = self.decoder.as_mut().and_then(|decoder| decoder.feed(&chunk).err()),
                // The last event may lack its blank line.
                None => return Ok(self.decoder.take().and_then(SseDecoder::finish).map(|event| event.data)),
            }
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        let Some(chunk) = within(self.upstream.clock, NEXT_CHUNK_TIMEOUT, self.response.chunk()).await else {
            return Err(self.broke_off(&format!("nothing was received for {} seconds", NEXT_CHUNK_TIMEOUT.as_secs())));
        };
        chunk.map_err(|error| self.broke_off(&cause(&error)))
    }

    /// Error message for an answer that ended early.
    pub(super) fn broke_off(&self, why: &str) -> String {
        self.upstream.about(&self.who, &format!("did not complete its answer: {why}"))
    }

    /// Error message for an answer that arrived but cannot be used.
    pub(super) fn unusable(&self, why: &str) -> String {
        self.upstream.about(&self.who, &format!("answered with {why}"))
    }
}
