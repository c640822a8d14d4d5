//! The request to a model's server: tried again while nothing has come of it, and listened to until
//! it ends, breaks off or falls silent.

use std::time::Duration;

use bytes::Bytes;
use nuncio_core::agent::Provider;
use nuncio_core::sse::{SseDecoder, SseLimits, SseTooLarge};
use nuncio_engine::ports::Clock;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use url::Url;

use super::reading::{say_error, short};
use crate::fetch::cause;
use crate::runners::secrets::Secrets;

/// How often a request is sent.
const TRIES: u32 = 3;
/// How long is waited before the second; twice as long before the third.
const BACK_OFF: Duration = Duration::from_secs(1);
/// Who asks to wait longer than this is not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a server may take to begin its answer: a local one may have to load the model first.
const TO_BEGIN: Duration = Duration::from_secs(300);
/// How long a server may say nothing in the middle of an answer.
const TO_GO_ON: Duration = Duration::from_secs(120);
/// How much of an answer that is an error is read.
const MAX_ERROR: usize = 64 * 1024;
/// How much one event may hold. A model's are small.
const LIMITS: SseLimits = SseLimits { line: 4 * 1024 * 1024, event: 4 * 1024 * 1024 };

/// A request, ready to be sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The server, and what may not be repeated of what it says.
#[derive(Debug)]
pub(super) struct Upstream<'a> {
    pub(super) provider: Provider,
    pub(super) http: &'a reqwest::Client,
    pub(super) clock: &'a dyn Clock,
    pub(super) secrets: &'a Secrets,
}

impl Upstream<'_> {
    /// Sends a request until it is answered. Too many requests, a fault of the server's and no
    /// connection at all are worth another try; nothing has been said to anyone yet.
    pub(super) async fn open<'a>(&'a self, request: &Request) -> Result<Answer<'a>, String> {
        let host = request.url.host_str().unwrap_or_default();
        let who = format!("{} ({host})", self.provider.as_str());
        let mut tried = 0;
        loop {
            tried += 1;
            let (why, asked_to_wait) = match self.send(request).await {
                Ok(response) => match self.refusal(response).await {
                    Ok(response) => return Ok(Answer::new(self, who, response)),
                    Err(Refusal { why, again: Some(wait) }) => (why, wait),
                    Err(Refusal { why, again: None }) => return Err(self.about(&who, &why)),
                },
                Err(Refusal { why, again: Some(wait) }) => (why, wait),
                Err(Refusal { why, again: None }) => return Err(self.about(&who, &why)),
            };
            if tried == TRIES {
                return Err(self.about(&who, &format!("{why} (tried {TRIES} times)")));
            }
            let wait = asked_to_wait.unwrap_or(BACK_OFF * 2_u32.pow(tried - 1));
            if wait > LONGEST_WAIT {
                let later = format!("{why} (it asks to come again in {} seconds)", wait.as_secs());
                return Err(self.about(&who, &later));
            }
            tracing::debug!(who, why = self.secrets.redact(&why), ?wait, "a model is asked again");
            self.clock.sleep_until(self.clock.now().after(wait)).await;
        }
    }

    async fn send(&self, request: &Request) -> Result<Response, Refusal> {
        let post = self.http.post(request.url.clone()).headers(request.headers.clone()).body(request.body.clone());
        let sent = tokio::select! {
            sent = post.send() => sent,
            () = self.clock.sleep_until(self.clock.now().after(TO_BEGIN)) => {
                let why = format!("did not answer within {} seconds", TO_BEGIN.as_secs());
                return Err(Refusal { why, again: None });
            }
        };
        sent.map_err(|error| Refusal {
            why: format!("cannot be reached: {}", cause(&error)),
            again: error.is_connect().then_some(None),
        })
    }

    /// The answer, if it is one to listen to.
    async fn refusal(&self, response: Response) -> Result<Response, Refusal> {
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if status.is_success() && !kind.starts_with("application/json") {
            return Ok(response);
        }
        let worth_it = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let again = worth_it.then(|| self.retry_after(response.headers()));
        let said = self.read_error(response).await;
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        let why = if status.is_success() {
            format!("answered with no stream of events{said}")
        } else {
            format!("answered with status {status}{said}")
        };
        Err(Refusal { why, again })
    }

    /// How long the server asks to wait: seconds or a date, RFC 9110, section 10.2.3.
    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse::<u64>() {
            return Some(Duration::from_secs(seconds));
        }
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        let now = self.clock.now().as_millis();
        Some(Duration::from_millis(u64::try_from(date.as_millisecond() - now).unwrap_or_default()))
    }

    /// What an answer says that is no stream.
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
        tokio::select! {
            () = read => {}
            () = self.clock.sleep_until(self.clock.now().after(TO_GO_ON)) => {}
        }
        match serde_json::from_slice::<Value>(&body) {
            Ok(body) => say_error(&body),
            Err(_) => short(&String::from_utf8_lossy(&body)),
        }
    }

    /// A sentence about the server, without secrets in it.
    fn about(&self, who: &str, what: &str) -> String {
        self.secrets.redact(&format!("{who} {what}"))
    }
}

/// Why there is no answer to listen to.
struct Refusal {
    why: String,
    /// Whether to try again, and when, if the server says.
    again: Option<Option<Duration>>,
}

/// An answer being listened to. Dropping it ends the request.
pub(super) struct Answer<'a> {
    upstream: &'a Upstream<'a>,
    who: String,
    response: Response,
    /// None when the answer has ended.
    decoder: Option<SseDecoder>,
    /// Why nothing more is read.
    fault: Option<SseTooLarge>,
}

impl<'a> Answer<'a> {
    fn new(upstream: &'a Upstream<'a>, who: String, response: Response) -> Self {
        Self { upstream, who, response, decoder: Some(SseDecoder::new(LIMITS)), fault: None }
    }

    /// The data of the next event; none when the answer has ended.
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
                // What came whole before a fault is still heard.
                Some(chunk) => self.fault = self.decoder.as_mut().and_then(|decoder| decoder.feed(&chunk).err()),
                // The last event may lack its blank line.
                None => return Ok(self.decoder.take().and_then(SseDecoder::finish).map(|event| event.data)),
            }
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        let clock = self.upstream.clock;
        let chunk = tokio::select! {
            chunk = self.response.chunk() => chunk,
            () = clock.sleep_until(clock.now().after(TO_GO_ON)) => {
                return Err(self.broke_off(&format!("nothing came for {} seconds", TO_GO_ON.as_secs())));
            }
        };
        chunk.map_err(|error| self.broke_off(&cause(&error)))
    }

    /// A sentence about an answer that did not come to its end.
    pub(super) fn broke_off(&self, why: &str) -> String {
        self.upstream.about(&self.who, &format!("broke off its answer: {why}"))
    }

    /// A sentence about an answer that cannot be used.
    pub(super) fn unusable(&self, why: &str) -> String {
        self.upstream.about(&self.who, &format!("answered with {why}"))
    }
}
