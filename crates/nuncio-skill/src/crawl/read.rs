//! One document of a followed domain: asked for only if it has changed, and believed only if it is valid.

use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_core::{address, json};
use nuncio_engine::follow::Domain;
use nuncio_engine::ports::fetch::{FetchError, Incoming, Outgoing, Trust};
use nuncio_engine::ports::{Clock, Fetch};
use url::{Host, Url};

use crate::client::{plain, retry_after, shown};
use crate::validate::{Document, DocumentFault, compatibility, declared_protocol, parse_value};
use crate::wire::PROTOCOL_VERSION;

/// How long one request and its answer may take.
const EXCHANGE: Duration = Duration::from_secs(30);
/// How many requests of a visit follow each other at once; after them there is a pause before each.
const AT_ONCE: u32 = 20;
/// That pause.
const PAUSE: Duration = Duration::from_millis(100);
/// What is larger is checked where it holds up nobody.
const QUICK: usize = 64 * 1024;

/// Why a document was not had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) why: String,
    pub(super) kind: TroubleKind,
    /// How long the host wants to be left alone.
    pub(super) retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TroubleKind {
    /// The host says that it is not there.
    Gone,
    /// It cannot be had now.
    Unreachable,
    /// It was had, and is not what it must be.
    Unusable,
}

impl Trouble {
    pub(super) fn unusable(why: impl Into<String>) -> Self {
        Self { why: why.into(), kind: TroubleKind::Unusable, retry_after: None }
    }
}

/// A document, or that ours is good.
#[derive(Debug)]
pub(super) enum Got<T> {
    Same,
    New { document: T, etag: Option<String>, answer: Incoming },
}

/// Reads documents of one domain, one after the other.
pub(super) struct Reader<'a> {
    pub(super) domain: Domain,
    pub(super) fetch: &'a dyn Fetch,
    pub(super) clock: &'a dyn Clock,
    requests: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(domain: Domain, fetch: &'a dyn Fetch, clock: &'a dyn Clock) -> Self {
        Self { domain, fetch, clock, requests: 0 }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Fetches a document, unless it is still the one of that tag.
    pub(super) async fn read<T: Document + Send + 'static>(
        &mut self,
        url: &Url,
        etag: Option<&str>,
    ) -> Result<Got<T>, Trouble> {
        let answer = self.get(url, etag, T::KIND.max_bytes()).await?;
        match answer.status {
            200 => {}
            304 if etag.is_some() => return Ok(Got::Same),
            status => return Err(self.refusal(url, status, &answer)),
        }
        if !json::is_json(answer.header("content-type").unwrap_or_default()) {
            let kind = plain(answer.header("content-type").unwrap_or("no type"));
            return Err(Trouble::unusable(format!("{} is of type {kind}, not application/json", shown(url))));
        }
        let document = match answer.body.len() {
            ..=QUICK => parse(&answer.body),
            _ => {
                let body = answer.body.clone();
                let parsed = tokio::task::spawn_blocking(move || parse(&body)).await;
                parsed.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        let document = document.map_err(|what| {
            Trouble::unusable(format!("{} is no valid {}: {}", shown(url), T::KIND.name(), plain(&what)))
        })?;
        let etag = answer.header("etag").filter(|etag| is_tag(etag)).map(str::to_owned);
        Ok(Got::New { document, etag, answer })
    }

    async fn get(&mut self, url: &Url, etag: Option<&str>, max_bytes: usize) -> Result<Incoming, Trouble> {
        let Some(trust) = trust(&self.domain, url) else {
            let why = format!("{} is neither on {} nor below it", shown(url), self.domain);
            return Err(Trouble::unusable(why));
        };
        self.requests += 1;
        if self.requests > AT_ONCE {
            self.clock.sleep_until(self.now().after(PAUSE)).await;
        }
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        headers.extend(etag.map(|etag| ("if-none-match".to_owned(), etag.to_owned())));
        let request =
            Outgoing { method: "GET", url: url.clone(), headers, body: None, trust, timeout: EXCHANGE, max_bytes };
        let late = FetchError::TooSlow { url: shown(url), limit: EXCHANGE };
        let answer = tokio::select! {
            answer = self.fetch.fetch(request) => answer,
            () = self.clock.sleep_until(self.now().after(EXCHANGE)) => Err(late),
        };
        answer.map_err(|error| {
            let kind = match error {
                FetchError::TooLarge { .. } => TroubleKind::Unusable,
                _ => TroubleKind::Unreachable,
            };
            Trouble { why: plain(&error.to_string()), kind, retry_after: None }
        })
    }

    fn refusal(&self, url: &Url, status: u16, answer: &Incoming) -> Trouble {
        let said = match status {
            300..400 => "; redirects are not followed",
            _ => "",
        };
        let kind = match status {
            404 | 410 => TroubleKind::Gone,
            _ => TroubleKind::Unreachable,
        };
        let retry_after = retry_after(answer, self.now());
        Trouble { why: format!("{} answered {status}{said}", shown(url)), kind, retry_after }
    }
}

/// Reads a document of a version we know, or says what is wrong with it.
fn parse<T: Document>(body: &[u8]) -> Result<T, String> {
    let told = |faults: &[DocumentFault]| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let value = json::read(body, T::KIND.max_bytes()).map_err(|why| told(&DocumentFault::unreadable(&why)))?;
    if let Some(version) = declared_protocol(&value) {
        compatibility(version, PROTOCOL_VERSION).map_err(|error| error.to_string())?;
    }
    parse_value(value).map_err(|report| told(&report.errors))
}

/// How far an address is trusted that an index of that domain may name; not at all on other hosts, so that
/// an index cannot send us anywhere. This machine has many names, and its ports are told apart.
fn trust(domain: &Domain, url: &Url) -> Option<Trust> {
    let same_port = domain.url().port_or_known_default() == url.port_or_known_default();
    if domain.is_local() {
        return (address::is_local(url) && same_port).then_some(Trust::Configured);
    }
    let below = match (domain.url().host(), url.host()) {
        (Some(Host::Domain(followed)), Some(Host::Domain(named))) => {
            named.strip_suffix(followed).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
        (followed, named) => followed == named,
    };
    below.then_some(Trust::Stranger)
}

/// Whether a tag can be sent back.
fn is_tag(etag: &str) -> bool {
    (1..=256).contains(&etag.len()) && etag.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_leads_nowhere_but_to_its_own_host_and_below() {
        let trust = |domain: &str, url: &str| trust(&Domain::parse(domain).unwrap(), &url.parse().unwrap());
        for url in ["https://example.com/x", "https://example.com:8443/x", "https://api.example.com/x"] {
            assert_eq!(trust("example.com", url), Some(Trust::Stranger), "{url}");
        }
        for url in ["https://badexample.com/", "https://com/", "http://127.0.0.1/", "https://example.com.evil.example/"]
        {
            assert_eq!(trust("example.com", url), None, "{url}");
        }
        assert_eq!(trust("10.0.0.1", "https://10.0.0.1/x"), Some(Trust::Stranger), "private unless it is allowed");
        assert_eq!(trust("localhost:7400", "http://127.0.0.1:7400/x"), Some(Trust::Configured));
        assert_eq!(trust("localhost:7400", "http://localhost:22/"), None);
        assert_eq!(trust("localhost:7400", "https://example.com:7400/"), None);
    }

    #[test]
    fn only_tags_that_can_be_sent_back_are_kept() {
        assert!(is_tag("\"a\"") && is_tag("W/\"a\""));
        assert!(!is_tag("") && !is_tag("a b") && !is_tag("é") && !is_tag(&"a".repeat(257)));
    }
}
