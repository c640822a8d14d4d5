//! Sends one HTTP request of the skill client and reads the response.

use std::time::Duration;

use bytes::Bytes;
use nuncio_core::json::read;
use nuncio_engine::ports::fetch::{FetchRequest, FetchResponse};
use serde_json::Value;
use url::Url;

use super::SkillConsumer;
use super::backoff::retry_after;
use super::credential::InvocationAuth;
use super::error::{ConsumerErrorReason, SkillConsumerError, display_url, plain, refusal};
use super::target::UserNamedHost;
use crate::validate::{
    IncompatibleProtocolVersion, ValidationReport, WireDocument, check, declared_protocol, parse_value,
};
use crate::wire::PROTOCOL_VERSION;

/// An HTTP request of the skill client before it is sent.
#[derive(Debug)]
pub(super) struct OutgoingRequest<'a> {
    pub(super) method: &'static str,
    pub(super) url: &'a Url,
    pub(super) named_host: &'a UserNamedHost,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Bytes>,
    pub(super) max_bytes: usize,
    pub(super) timeout: Duration,
}

impl<'a> OutgoingRequest<'a> {
    /// A `GET` request for a JSON document.
    pub(super) fn get(url: &'a Url, named_host: &'a UserNamedHost, max_bytes: usize, timeout: Duration) -> Self {
        let headers = vec![("accept".to_owned(), "application/json".to_owned())];
        Self { method: "GET", url, named_host, headers, body: None, max_bytes, timeout }
    }
}

/// A fetched document with its response headers and warnings.
#[derive(Debug)]
pub(super) struct FetchedDocument<T> {
    pub(super) document: T,
    pub(super) warnings: Vec<String>,
    pub(super) answer: FetchResponse,
}

impl SkillConsumer {
    /// Sends a request. A redirect is an error; any other status is returned.
    pub(super) async fn send_request(&self, request: OutgoingRequest<'_>) -> Result<FetchResponse, SkillConsumerError> {
        let OutgoingRequest { method, url, named_host, headers, body, max_bytes, timeout } = request;
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("{} is not an http: or https: address", plain(url.as_str()));
            return Err(SkillConsumerError::new(ConsumerErrorReason::Refused, message));
        }
        let trust = named_host.trust(url);
        let request = FetchRequest { method, url: url.clone(), headers, body, trust, timeout, max_bytes };
        let answer = self.fetch.fetch(request).await.map_err(|error| SkillConsumerError::unfetched(&error))?;
        if (300..400).contains(&answer.status) && answer.status != 304 {
            return Err(SkillConsumerError::redirected(url, &answer));
        }
        Ok(answer)
    }

    /// Downloads a document without parsing it; fails if it has more than `max_bytes`.
    pub async fn download(&self, url: &Url, max_bytes: usize) -> Result<Bytes, SkillConsumerError> {
        let named_host = super::SkillTarget::Descriptor(url.clone()).named_host();
        let request = OutgoingRequest::get(url, &named_host, max_bytes, self.options.exchange);
        let answer = self.send_request(request).await?;
        self.check_status(url, &answer)?;
        Ok(answer.body)
    }

    /// Fetches and validates a document.
    pub(super) async fn document<T: WireDocument>(
        &self,
        url: &Url,
        named_host: &UserNamedHost,
        headers: Vec<(String, String)>,
    ) -> Result<FetchedDocument<T>, SkillConsumerError> {
        let mut request = OutgoingRequest::get(url, named_host, T::KIND.max_bytes(), self.options.exchange);
        request.headers.extend(headers);
        let answer = self.send_request(request).await?;
        let value = self.json::<T>(url, &answer)?;
        if let Some(descriptor) = declared_protocol(&value)
            && let Err(error) = self.options.rule.check(descriptor, PROTOCOL_VERSION)
        {
            return Err(incompatible(url, error, &value));
        }
        let (document, warnings) = valid(url, value)?;
        Ok(FetchedDocument { document, warnings, answer })
    }

    /// Sends a request with the authentication of an invocation; repeats it once with a new token after status 401.
    pub(super) async fn send_authenticated<'a>(
        &self,
        auth: &InvocationAuth,
        endpoint: &Url,
        request: impl Fn() -> OutgoingRequest<'a>,
    ) -> Result<FetchResponse, SkillConsumerError> {
        let send = async || {
            let mut request = request();
            let body = request.body.as_deref().unwrap_or_default();
            let headers = self.auth_headers(auth, endpoint, request.method, request.url, body).await?;
            request.headers.extend(headers);
            self.send_request(request).await
        };
        let answer = send().await?;
        match auth {
            InvocationAuth::Bearer(source) if answer.status == 401 => {
                self.replace_token(source).await?;
                send().await
            }
            _ => Ok(answer),
        }
    }

    /// Fails unless the response is a success.
    pub(super) fn check_status(&self, url: &Url, answer: &FetchResponse) -> Result<(), SkillConsumerError> {
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        Err(refusal(url, answer.status, &answer.body, retry_after(answer, self.clock.now())))
    }

    /// Parses the JSON body of a successful response.
    pub(super) fn json<T: WireDocument>(&self, url: &Url, answer: &FetchResponse) -> Result<Value, SkillConsumerError> {
        self.check_status(url, answer)?;
        SkillConsumerError::check_json_type(url, answer, &format!("a {} is", T::KIND))?;
        read(&answer.body, T::KIND.max_bytes())
            .map_err(|why| SkillConsumerError::invalid(url, &ValidationReport::unreadable(T::KIND, &why)))
    }
}

/// Validates a parsed document and returns it with its warnings.
pub(super) fn valid<T: WireDocument>(url: &Url, value: Value) -> Result<(T, Vec<String>), SkillConsumerError> {
    let warnings = check(T::KIND, &value).warnings.iter().map(|fault| plain(&fault.to_string())).collect();
    let document = parse_value(value).map_err(|report| SkillConsumerError::invalid(url, &report))?;
    Ok((document, warnings))
}

fn incompatible(url: &Url, mut error: IncompatibleProtocolVersion, document: &Value) -> SkillConsumerError {
    let changelog = document.pointer("/protocol/changelog_url").and_then(Value::as_str);
    error.upgrade_url = changelog.map(plain);
    SkillConsumerError::new(ConsumerErrorReason::Incompatible, format!("{}: {error}", display_url(url)))
        .details(error.details())
        .advice("a newer consumer is needed; nothing was invoked")
}
