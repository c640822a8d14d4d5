//! One request and its answer.

use std::time::Duration;

use bytes::Bytes;
use nuncio_core::json::{essence, is_json, read};
use nuncio_engine::ports::fetch::{FetchError, Incoming, Outgoing};
use serde_json::{Value, json};
use url::Url;

use super::Consumer;
use super::backoff::retry_after;
use super::error::{ConsumerError, Reason, plain, refusal, shown};
use super::target::Named;
use crate::validate::{Document, Incompatible, Report, check, declared_protocol, parse_value};
use crate::wire::PROTOCOL_VERSION;

/// A request, not sent yet.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) method: &'static str,
    pub(super) url: &'a Url,
    pub(super) named: &'a Named,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Bytes>,
    pub(super) max_bytes: usize,
    pub(super) timeout: Duration,
}

/// A document and what else came with it.
#[derive(Debug)]
pub(super) struct Got<T> {
    pub(super) document: T,
    /// What is allowed but cannot be meant.
    pub(super) warnings: Vec<String>,
    pub(super) answer: Incoming,
}

impl Consumer {
    /// Sends a request. A redirect is an error, any other status is the asker's to judge.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Incoming, ConsumerError> {
        let Ask { method, url, named, headers, body, max_bytes, timeout } = ask;
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("{} is not an http: or https: address", plain(url.as_str()));
            return Err(ConsumerError::new(Reason::Refused, message));
        }
        let trust = named.trust(url);
        let request = Outgoing { method, url: url.clone(), headers, body, trust, timeout, max_bytes };
        let answer = self.fetch.fetch(request).await.map_err(|error| unfetched(url, error))?;
        if (300..400).contains(&answer.status) && answer.status != 304 {
            let location = answer.header("location").map(plain).unwrap_or_default();
            let message = format!("{} answered {}: it says it is at {location:?}", shown(url), answer.status);
            let details = json!({"url": shown(url), "status": answer.status, "location": location});
            let error = ConsumerError::new(Reason::Redirected, message).details(details);
            return Err(error.advice("redirects are not followed; name the final address if you trust it"));
        }
        Ok(answer)
    }

    /// Fetches whatever is at an address that was named, unread.
    ///
    /// # Errors
    /// It cannot be had, or is larger than that.
    pub async fn download(&self, url: &Url, max_bytes: usize) -> Result<Bytes, ConsumerError> {
        let named = super::Target::Descriptor(url.clone()).named();
        let headers = vec![("accept".to_owned(), "application/json".to_owned())];
        let timeout = self.options.exchange;
        let ask = Ask { method: "GET", url, named: &named, headers, body: None, max_bytes, timeout };
        let answer = self.ask(ask).await?;
        if !(200..300).contains(&answer.status) {
            return Err(refusal(url, answer.status, &answer.body, None));
        }
        Ok(answer.body)
    }

    /// Fetches a document that must be valid.
    pub(super) async fn document<T: Document>(
        &self,
        url: &Url,
        named: &Named,
        mut headers: Vec<(String, String)>,
    ) -> Result<Got<T>, ConsumerError> {
        headers.push(("accept".to_owned(), "application/json".to_owned()));
        let timeout = self.options.exchange;
        let max_bytes = T::KIND.max_bytes();
        let answer = self.ask(Ask { method: "GET", url, named, headers, body: None, max_bytes, timeout }).await?;
        let value = self.json::<T>(url, &answer)?;
        if let Some(descriptor) = declared_protocol(&value)
            && let Err(error) = self.options.rule.check(descriptor, PROTOCOL_VERSION)
        {
            return Err(incompatible(url, error, &value));
        }
        let (document, warnings) = valid(url, value)?;
        Ok(Got { document, warnings, answer })
    }

    /// The JSON of an answer that must be a good one.
    pub(super) fn json<T: Document>(&self, url: &Url, answer: &Incoming) -> Result<Value, ConsumerError> {
        if !(200..300).contains(&answer.status) {
            return Err(refusal(url, answer.status, &answer.body, retry_after(answer, self.clock.now())));
        }
        let kind = answer.header("content-type").unwrap_or_default();
        if !is_json(kind) {
            let essence = essence(kind);
            let said = if essence.is_empty() { "no type".to_owned() } else { plain(essence) };
            let message =
                format!("{} answered with {said}, where a {} is application/json", shown(url), T::KIND.name());
            return Err(ConsumerError::new(Reason::WrongType, message).details(json!({"content_type": said})));
        }
        read(&answer.body, T::KIND.max_bytes())
            .map_err(|why| ConsumerError::invalid(url, &Report::unreadable(T::KIND, &why)))
    }
}

/// A valid document, and what is odd about it.
pub(super) fn valid<T: Document>(url: &Url, value: Value) -> Result<(T, Vec<String>), ConsumerError> {
    let warnings = check(T::KIND, &value).warnings.iter().map(|fault| plain(&fault.to_string())).collect();
    let document = parse_value(value).map_err(|report| ConsumerError::invalid(url, &report))?;
    Ok((document, warnings))
}

fn incompatible(url: &Url, mut error: Incompatible, document: &Value) -> ConsumerError {
    let changelog = document.pointer("/protocol/changelog_url").and_then(Value::as_str);
    error.upgrade_url = changelog.map(plain);
    ConsumerError::new(Reason::Incompatible, format!("{}: {error}", shown(url)))
        .details(error.details())
        .advice("a newer consumer is needed; nothing was invoked")
}

fn unfetched(url: &Url, error: FetchError) -> ConsumerError {
    let place = shown(url);
    match error {
        FetchError::Refused { why, .. } => {
            ConsumerError::new(Reason::Refused, format!("{place} may not be reached: {why}"))
                .details(json!({"url": place, "reason": why}))
                .advice("the address came from a document of somebody else; name its host yourself if you trust it")
        }
        FetchError::Unreachable { why, .. } => {
            ConsumerError::new(Reason::Unreachable, format!("{place} cannot be reached: {why}"))
                .details(json!({"url": place, "reason": why}))
        }
        FetchError::TooSlow { limit, .. } => {
            ConsumerError::new(Reason::TooSlow, format!("{place} did not answer within {limit:?}"))
                .details(json!({"url": place, "timeout_ms": u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)}))
        }
        FetchError::TooLarge { limit, .. } => {
            ConsumerError::new(Reason::TooLarge, format!("{place} answered with more than {limit} bytes"))
                .details(json!({"url": place, "limit": limit}))
        }
    }
}
