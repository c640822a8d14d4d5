//! Fetches one document of a followed domain with a conditional request and validates it.

use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_core::{address, json};
use nuncio_engine::follow::ServerOrigin;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::{Clock, Fetch};
use url::{Host, Url};

use crate::client::{display_url, plain, retry_after};
use crate::validate::{DocumentFault, WireDocument, compatibility, declared_protocol, parse_value};
use crate::wire::PROTOCOL_VERSION;

/// Timeout of one request of the crawler and its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of requests at the start of a visit that are sent without a pause.
const AT_ONCE: u32 = 20;
/// Pause before each further request of a visit.
const REQUEST_PAUSE: Duration = Duration::from_millis(100);
/// Documents above this size, in bytes, are parsed on a blocking thread.
const BLOCKING_PARSE_BYTES: usize = 64 * 1024;

/// Failure to fetch a document of a followed domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchFailure {
    pub(super) why: String,
    pub(super) kind: FetchFailureKind,
    /// Delay from the host's `Retry-After` header.
    pub(super) retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchFailureKind {
    /// The host answered 404 or 410 for the document.
    Gone,
    /// The document cannot be fetched at present.
    Unreachable,
    /// The document was fetched and is invalid.
    Unusable,
}

impl FetchFailure {
    pub(super) fn unusable(why: impl Into<String>) -> Self {
        Self { why: why.into(), kind: FetchFailureKind::Unusable, retry_after: None }
    }
}

/// Fetched document, or the confirmation that the stored copy is current.
#[derive(Debug)]
pub(super) enum ConditionalFetchResult<T> {
    Same,
    New { document: T, etag: Option<String>, answer: FetchResponse },
}

/// Fetches documents of one domain sequentially.
pub(super) struct DomainDocumentReader<'a> {
    pub(super) domain: ServerOrigin,
    pub(super) fetch: &'a dyn Fetch,
    pub(super) clock: &'a dyn Clock,
    requests: u32,
}

impl<'a> DomainDocumentReader<'a> {
    pub(super) fn new(domain: ServerOrigin, fetch: &'a dyn Fetch, clock: &'a dyn Clock) -> Self {
        Self { domain, fetch, clock, requests: 0 }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Fetches a document unless it still has the given `ETag`.
    pub(super) async fn read<T: WireDocument + Send + 'static>(
        &mut self,
        url: &Url,
        etag: Option<&str>,
    ) -> Result<ConditionalFetchResult<T>, FetchFailure> {
        let answer = self.get(url, etag, T::KIND.max_bytes()).await?;
        match answer.status {
            200 => {}
            304 if etag.is_some() => return Ok(ConditionalFetchResult::Same),
            status => return Err(self.refusal(url, status, &answer)),
        }
        if !json::is_json(answer.header("content-type").unwrap_or_default()) {
            let kind = plain(answer.header("content-type").unwrap_or("no type"));
            return Err(FetchFailure::unusable(format!(
                "{} is of type {kind}, not application/json",
                display_url(url)
            )));
        }
        let document = match answer.body.len() {
            ..=BLOCKING_PARSE_BYTES => parse(&answer.body),
            _ => {
                let body = answer.body.clone();
                let parsed = tokio::task::spawn_blocking(move || parse(&body)).await;
                parsed.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        let document = document.map_err(|what| {
            FetchFailure::unusable(format!(
                "{} is not a valid {}: {}",
                display_url(url),
                T::KIND.as_str(),
                plain(&what)
            ))
        })?;
        let etag = answer.header("etag").filter(|etag| is_tag(etag)).map(str::to_owned);
        Ok(ConditionalFetchResult::New { document, etag, answer })
    }

    async fn get(&mut self, url: &Url, etag: Option<&str>, max_bytes: usize) -> Result<FetchResponse, FetchFailure> {
        let Some(trust) = trust(&self.domain, url) else {
            let why = format!("{} is neither on {} nor below it", display_url(url), self.domain);
            return Err(FetchFailure::unusable(why));
        };
        self.requests += 1;
        if self.requests > AT_ONCE {
            self.clock.sleep_until(self.now().after(REQUEST_PAUSE)).await;
        }
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        headers.extend(etag.map(|etag| ("if-none-match".to_owned(), etag.to_owned())));
        let request = FetchRequest {
            method: "GET",
            url: url.clone(),
            headers,
            body: None,
            trust,
            timeout: REQUEST_TIMEOUT,
            max_bytes,
        };
        let late = FetchError::TooSlow { url: display_url(url), limit: REQUEST_TIMEOUT };
        let answer = tokio::select! {
            answer = self.fetch.fetch(request) => answer,
            () = self.clock.sleep_until(self.now().after(REQUEST_TIMEOUT)) => Err(late),
        };
        answer.map_err(|error| {
            let kind = match error {
                FetchError::TooLarge { .. } => FetchFailureKind::Unusable,
                _ => FetchFailureKind::Unreachable,
            };
            FetchFailure { why: plain(&error.to_string()), kind, retry_after: None }
        })
    }

    fn refusal(&self, url: &Url, status: u16, answer: &FetchResponse) -> FetchFailure {
        let hint = match status {
            300..400 => "; redirects are not followed",
            _ => "",
        };
        let kind = match status {
            404 | 410 => FetchFailureKind::Gone,
            _ => FetchFailureKind::Unreachable,
        };
        let retry_after = retry_after(answer, self.now());
        FetchFailure { why: format!("{} answered {status}{hint}", display_url(url)), kind, retry_after }
    }
}

/// Parses a document of a supported version; the error describes the fault.
fn parse<T: WireDocument>(body: &[u8]) -> Result<T, String> {
    let joined = |faults: &[DocumentFault]| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let value = json::read(body, T::KIND.max_bytes()).map_err(|why| joined(&DocumentFault::unreadable(&why)))?;
    if let Some(version) = declared_protocol(&value) {
        compatibility(version, PROTOCOL_VERSION).map_err(|error| error.to_string())?;
    }
    parse_value(value).map_err(|report| joined(&report.errors))
}

/// Trust level of a URL in the index of a followed domain; `None` for hosts outside of the domain, to which the crawler
/// does not connect. Loopback names count as one host, and their ports are distinguished.
fn trust(domain: &ServerOrigin, url: &Url) -> Option<AddressTrust> {
    let same_port = domain.url().port_or_known_default() == url.port_or_known_default();
    if domain.is_local() {
        return (address::is_local(url) && same_port).then_some(AddressTrust::Configured);
    }
    let below = match (domain.url().host(), url.host()) {
        (Some(Host::Domain(followed)), Some(Host::Domain(other))) => {
            other.strip_suffix(followed).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
        (followed, other) => followed == other,
    };
    below.then_some(AddressTrust::Stranger)
}

/// Whether an `ETag` can be sent in `If-None-Match`.
fn is_tag(etag: &str) -> bool {
    (1..=256).contains(&etag.len()) && etag.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crawler_fetches_only_from_followed_domain_and_its_subdomains() {
        let trust = |domain: &str, url: &str| trust(&ServerOrigin::parse(domain).unwrap(), &url.parse().unwrap());
        for url in ["https://example.com/x", "https://example.com:8443/x", "https://api.example.com/x"] {
            assert_eq!(trust("example.com", url), Some(AddressTrust::Stranger), "{url}");
        }
        for url in ["https://badexample.com/", "https://com/", "http://127.0.0.1/", "https://example.com.evil.example/"]
        {
            assert_eq!(trust("example.com", url), None, "{url}");
        }
        assert_eq!(
            trust("10.0.0.1", "https://10.0.0.1/x"),
            Some(AddressTrust::Stranger),
            "private unless it is allowed"
        );
        assert_eq!(trust("localhost:7400", "http://127.0.0.1:7400/x"), Some(AddressTrust::Configured));
        assert_eq!(trust("localhost:7400", "http://localhost:22/"), None);
        assert_eq!(trust("localhost:7400", "https://example.com:7400/"), None);
    }

    #[test]
    fn malformed_or_too_long_etag_is_rejected() {
        assert!(is_tag("\"a\"") && is_tag("W/\"a\""));
        assert!(!is_tag("") && !is_tag("a b") && !is_tag("é") && !is_tag(&"a".repeat(257)));
    }
}
