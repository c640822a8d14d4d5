//! Sends one HTTP request of the ANP client and authenticates it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nuncio_core::json;
use nuncio_engine::ports::fetch::{FetchRequest, FetchResponse};
use nuncio_engine::ports::{Clock, Fetch};
use nuncio_identity::challenge::{self, DidAuthChallenge, IssuedAccessToken};
use serde_json::Value;
use url::Url;

use super::BearerToken;
use super::error::{ClientError, ClientErrorReason, IDENTIFY_YOURSELF, display_url, plain};
use super::sign::RequestSigner;
use super::target::UserNamedHost;
use super::tokens::TokenCache;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthTiming {
    /// The client sends credentials only after the server asked for them.
    WhenAsked,
    AtOnce,
}

#[derive(Debug)]
pub(super) struct ClientRequest<'a> {
    pub(super) url: &'a Url,
    pub(super) named_host: &'a UserNamedHost,
    /// JSON body of a `POST` request; `None` sends a `GET` request.
    pub(super) body: Option<Bytes>,
    pub(super) auth_timing: AuthTiming,
    pub(super) max_bytes: usize,
    pub(super) timeout: Duration,
}

/// Sends requests with the credentials of the client. Clones share the tokens that servers granted.
#[derive(Debug, Clone)]
pub(super) struct AuthenticatingHttpClient {
    pub(super) fetch: Arc<dyn Fetch>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) signer: Option<Arc<dyn RequestSigner>>,
    pub(super) bearer: Option<BearerToken>,
    pub(super) tokens: Arc<TokenCache>,
    /// Time limit for one request with its response, unless the request has its own.
    pub(super) timeout: Duration,
}

impl AuthenticatingHttpClient {
    /// Sends a request, and repeats it once with a signature if the server asks for one. A redirect is an error; any
    /// other status is returned.
    pub(super) async fn exchange(&self, outgoing: &ClientRequest<'_>) -> Result<FetchResponse, ClientError> {
        let request = self.request(outgoing)?;
        let first = self.with_credentials(request.clone(), outgoing)?;
        let has = |name: &str| first.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
        let (by_token, by_signature) = (has("authorization"), has("signature"));
        let answer = self.send(first).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        let Some(signer) = &self.signer else { return Ok(answer) };
        if by_token && self.bearer.is_none() {
            self.tokens.forget(outgoing.url, &signer.did());
        }
        let challenge_sent = answer.header("www-authenticate").and_then(DidAuthChallenge::read);
        // After a refused signature, another attempt is made only if the challenge allows it.
        if by_signature && !challenge_sent.as_ref().is_some_and(DidAuthChallenge::is_retryable) {
            return Ok(answer);
        }
        let components = answer.header("accept-signature").map(challenge::accepted_components).unwrap_or_default();
        let nonce = challenge_sent.and_then(|challenge_sent| challenge_sent.nonce);
        let mut again = request;
        signer.sign(&mut again, nonce.as_deref(), &components).map_err(|why| cannot_sign(outgoing.url, &why))?;
        self.send(again).await
    }

    fn request(&self, outgoing: &ClientRequest<'_>) -> Result<FetchRequest, ClientError> {
        let mut url = outgoing.url.clone();
        url.set_fragment(None);
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("{} is not an http: or https: address", plain(url.as_str()));
            return Err(ClientError::new(ClientErrorReason::Refused, message));
        }
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        if outgoing.body.is_some() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        Ok(FetchRequest {
            method: if outgoing.body.is_some() { "POST" } else { "GET" },
            trust: outgoing.named_host.trust(&url),
            url,
            headers,
            body: outgoing.body.clone(),
            timeout: outgoing.timeout,
            max_bytes: outgoing.max_bytes,
        })
    }

    /// Adds credentials to a request: the user's token for the named host or, if the request authenticates at once, a
    /// token that the server granted or a signature.
    fn with_credentials(
        &self,
        mut request: FetchRequest,
        outgoing: &ClientRequest<'_>,
    ) -> Result<FetchRequest, ClientError> {
        let bearer = |token: &str| ("authorization".to_owned(), format!("Bearer {token}"));
        if let Some(token) = self.bearer.as_ref().filter(|_| outgoing.named_host.is_origin_of(outgoing.url)) {
            request.headers.push(bearer(&token.0));
            return Ok(request);
        }
        let at_once = outgoing.auth_timing == AuthTiming::AtOnce;
        let Some(signer) = self.signer.as_ref().filter(|_| at_once) else { return Ok(request) };
        match self.tokens.get(outgoing.url, &signer.did(), self.clock.now()) {
            Some(token) => request.headers.push(bearer(&token)),
            None => signer.sign(&mut request, None, &[]).map_err(|why| cannot_sign(outgoing.url, &why))?,
        }
        Ok(request)
    }

    async fn send(&self, request: FetchRequest) -> Result<FetchResponse, ClientError> {
        let url = request.url.clone();
        let answer = self.fetch.fetch(request).await.map_err(|error| ClientError::unfetched(&error))?;
        if (300..400).contains(&answer.status) {
            return Err(ClientError::redirected(&url, &answer));
        }
        if let (Some(signer), Some(grant)) =
            (&self.signer, answer.header("authentication-info").and_then(IssuedAccessToken::read))
            && answer.status == 200
        {
            self.tokens.put(&url, &signer.did(), grant, self.clock.now());
        }
        Ok(answer)
    }

    /// Fetches a JSON document, with limits on size and depth.
    pub(super) async fn document(
        &self,
        url: &Url,
        named_host: &UserNamedHost,
        max_bytes: usize,
    ) -> Result<Value, ClientError> {
        let (auth_timing, timeout) = (AuthTiming::WhenAsked, self.timeout);
        let request = ClientRequest { url, named_host, body: None, auth_timing, max_bytes, timeout };
        let answer = self.exchange(&request).await?;
        let body = json_body(url, &answer, self.signer.is_some())?;
        json::read(body, max_bytes).map_err(|unreadable| {
            let message = format!("{} is not a document: it {}", display_url(url), plain(&unreadable.to_string()));
            ClientError::new(ClientErrorReason::InvalidDocument, message).advice("only its publisher can correct it")
        })
    }
}

/// Returns the body of a response that must have status 200 and a JSON content type.
pub(super) fn json_body<'a>(url: &Url, answer: &'a FetchResponse, signed: bool) -> Result<&'a [u8], ClientError> {
    if answer.status != 200 {
        return Err(status_error(url, answer, signed));
    }
    ClientError::check_json_type(url, answer, "it must be")?;
    Ok(&answer.body)
}

/// Error for a response with a status other than 200.
pub(super) fn status_error(url: &Url, answer: &FetchResponse, signed: bool) -> ClientError {
    let (address, status) = (display_url(url), answer.status);
    let challenge_sent = answer.header("www-authenticate").and_then(DidAuthChallenge::read);
    let why = challenge_sent.and_then(|challenge_sent| challenge_sent.description.or(challenge_sent.error));
    let why = why.map(|why| format!(": {}", plain(&why))).unwrap_or_default();
    match status {
        401 => {
            let advice = if signed { "it did not accept our signature" } else { IDENTIFY_YOURSELF };
            ClientError::new(ClientErrorReason::IdentityNeeded, format!("{address} requires authentication{why}"))
                .advice(advice)
        }
        403 => ClientError::new(ClientErrorReason::Forbidden, format!("{address} refused access{why}")),
        409 => superseded(&address, &answer.body),
        _ => ClientError::new(ClientErrorReason::Answered, format!("{address} answered {status}{why}")),
    }
    .answered(status)
}

/// Error for a response that says that the client's own DID was superseded.
fn superseded(address: &str, body: &[u8]) -> ClientError {
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| response.get(name).and_then(Value::as_str).map(plain);
    match (text("code").as_deref(), text("requestedDid"), text("currentDid")) {
        (Some("did_superseded"), Some(requested), Some(current)) => {
            let message = format!("according to {address}, {requested} was replaced by {current}");
            ClientError::new(ClientErrorReason::Superseded, message).details(response)
        }
        _ => ClientError::new(ClientErrorReason::Answered, format!("{address} answered 409")),
    }
}

fn cannot_sign(url: &Url, why: &str) -> ClientError {
    ClientError::new(
        ClientErrorReason::CannotSign,
        format!("the request to {} cannot be signed: {}", display_url(url), plain(why)),
    )
}
