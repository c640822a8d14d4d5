//! A client of any AAP v3 server, also of one that does not keep to the letter.
//!
//! [`Client`] makes single requests and hides nothing. [`Conversation`] keeps what was said and which
//! calls wait for an answer, and gets over what servers are known to do wrong.

use std::time::Duration;

use futures_util::StreamExt as _;
use nuncio_core::message::Message;
use nuncio_core::turn::StreamMode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

mod conversation;
mod error;
mod event;
mod key;
mod meta;
mod session;
mod stream;
mod tolerant;
mod turn;

pub use conversation::{Conversation, Ended, Exchange, Pending, Received, Update};
pub use error::ClientError;
pub use event::{StopError, TurnEvent, TurnStop};
pub use key::ApiKey;
pub use meta::{AgentInfo, Meta, OptionInfo, Supports, ToolSpec};
pub use session::{AgentConfig, HistoryKind, NewSession, SessionInfo, SessionsPage};
pub use stream::{Told, TurnStream};
pub use turn::{AgentOverride, TurnBody};

/// The version of the protocol this client speaks.
pub const VERSION: u64 = 3;

/// How long an answer may take that needs no thinking.
const SHORT: Duration = Duration::from_secs(60);
/// How large an answer may be.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// How much of an error's text is read.
const MAX_ERROR: usize = 16 * 1024;

/// A client of one AAP server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    base: Url,
    key: Option<ApiKey>,
    http: reqwest::Client,
}

impl Client {
    /// A client of the server at `base`, below which AAP's paths begin.
    ///
    /// The address is taken to be one that the user or the operator named: give it an `http` that
    /// follows no redirects and uses no proxies, so that the key reaches nobody else.
    #[must_use]
    pub fn new(base: Url, key: Option<ApiKey>, http: reqwest::Client) -> Self {
        Self { base, key, http }
    }

    /// Where the server is.
    #[must_use]
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// `GET /meta`
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or does not speak AAP v3.
    pub async fn meta(&self) -> Result<Meta, ClientError> {
        let meta: Meta = self.json(self.request(Method::GET, &["meta"])?.timeout(SHORT)).await?;
        if meta.version == VERSION {
            return Ok(meta);
        }
        Err(ClientError::NotAap(format!("it speaks version {} of the protocol, and we {VERSION}", meta.version)))
    }

    /// `GET /sessions`: one page, from the beginning or behind the one before.
    ///
    /// # Errors
    /// As for any request.
    pub async fn sessions(&self, after: Option<&str>) -> Result<SessionsPage, ClientError> {
        let mut request = self.request(Method::GET, &["sessions"])?.timeout(SHORT);
        if let Some(after) = after {
            request = request.query(&[("after", after)]);
        }
        self.json(request).await
    }

    /// `POST /sessions`: the new session's id.
    ///
    /// # Errors
    /// As for any request.
    pub async fn create_session(&self, new: &NewSession) -> Result<String, ClientError> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Created {
            session_id: String,
        }
        let request = self.request(Method::POST, &["sessions"])?.timeout(SHORT).json(new);
        let created: Created = self.json(request).await?;
        Ok(created.session_id)
    }

    /// `GET /sessions/:id`
    ///
    /// # Errors
    /// As for any request.
    pub async fn session(&self, session: &str) -> Result<SessionInfo, ClientError> {
        self.json(self.request(Method::GET, &["sessions", session])?.timeout(SHORT)).await
    }

    /// `DELETE /sessions/:id`
    ///
    /// # Errors
    /// As for any request.
    pub async fn delete_session(&self, session: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &["sessions", session])?.timeout(SHORT);
        accepted(send(request).await?).await.map(drop)
    }

    /// `GET /sessions/:id/history`. Messages that cannot be read are left out, and a tool's answer
    /// that was stored twice is there once.
    ///
    /// # Errors
    /// As for any request.
    pub async fn history(&self, session: &str, kind: HistoryKind) -> Result<Vec<Message>, ClientError> {
        let request = self.request(Method::GET, &["sessions", session, "history"])?.timeout(SHORT);
        let mut answer: Value = self.json(request.query(&[("type", kind.as_str())])).await?;
        match answer.pointer_mut(&format!("/history/{}", kind.as_str())).map(Value::take) {
            Some(Value::Array(messages)) => Ok(tolerant::messages(messages)),
            _ => Err(ClientError::NotAap(format!("it answered without history.{}", kind.as_str()))),
        }
    }

    /// `POST /sessions/:id/turns`: what happens, as it happens. A server that answers all at once is
    /// read as if it had streamed.
    ///
    /// # Errors
    /// As for any request. What fails later is told by the stream.
    pub async fn turn(&self, session: &str, body: &TurnBody) -> Result<TurnStream, ClientError> {
        let mut request = self.request(Method::POST, &["sessions", session, "turns"])?.json(body);
        if body.stream != StreamMode::None {
            request = request.header(ACCEPT, "text/event-stream");
        }
        let response = accepted(send(request).await?).await?;
        if is_stream(response.headers(), body.stream != StreamMode::None) {
            return Ok(TurnStream::of_events(response));
        }
        Ok(TurnStream::of_answer(read_json(response).await?))
    }

    /// `GET /sessions/:id/stream`, Nuncio's own: continues the last turn's stream, or behind an event.
    ///
    /// # Errors
    /// As for any request; 404 from a server that does not have it.
    pub async fn resume(&self, session: &str, last_event_id: Option<&str>) -> Result<TurnStream, ClientError> {
        let mut request = self.request(Method::GET, &["sessions", session, "stream"])?;
        if let Some(last) = last_event_id {
            request = request.header("Last-Event-ID", last);
        }
        Self::stream(request).await
    }

    /// `GET /sessions/:id/stream?running=true`, Nuncio's own: the turn that runs, from its beginning.
    ///
    /// # Errors
    /// As for any request; 404 when no turn runs, and from a server that does not have it.
    pub async fn running(&self, session: &str) -> Result<TurnStream, ClientError> {
        let request = self.request(Method::GET, &["sessions", session, "stream"])?;
        Self::stream(request.query(&[("running", "true")])).await
    }

    async fn stream(request: RequestBuilder) -> Result<TurnStream, ClientError> {
        let request = request.header(ACCEPT, "text/event-stream");
        let response = accepted(send(request).await?).await?;
        if is_stream(response.headers(), false) {
            return Ok(TurnStream::of_events(response));
        }
        Err(ClientError::NotAap("it continues a stream with something that is none".to_owned()))
    }

    /// `POST /sessions/:id/cancel`, Nuncio's own: stops the running turn.
    ///
    /// # Errors
    /// As for any request; 404 when no turn runs, and from a server that does not have it.
    pub async fn cancel(&self, session: &str) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &["sessions", session, "cancel"])?.timeout(SHORT);
        accepted(send(request).await?).await.map(drop)
    }

    /// A request to a path below the base; the parts may hold anything.
    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ClientError> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => segments.pop_if_empty().extend(path),
            Err(()) => return Err(ClientError::NotAap(format!("{} is no address of a server", self.base))),
        };
        let request = self.http.request(method, url);
        Ok(match &self.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        })
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        read_json(accepted(send(request).await?).await?).await
    }
}

async fn send(request: RequestBuilder) -> Result<Response, ClientError> {
    request.send().await.map_err(|error| ClientError::unreachable(&error))
}

/// The response, unless it is a refusal.
async fn accepted(response: Response) -> Result<Response, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let mut body = response.bytes_stream();
    let mut text = Vec::new();
    // What cannot be read of an error's text is not worth another error.
    while let Some(Ok(chunk)) = body.next().await {
        text.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR - text.len())]);
        if text.len() == MAX_ERROR {
            break;
        }
    }
    Err(ClientError::refused(status.as_u16(), &text))
}

async fn read_json<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    let mut body = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| ClientError::broken(&error))?;
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(ClientError::TooLarge(format!("the answer is larger than {MAX_ANSWER} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ClientError::NotAap(format!("its answer is not what the protocol says: {error}")))
}

/// Whether an answer is a stream of events; one that does not say is what was asked for.
fn is_stream(headers: &HeaderMap, asked: bool) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    if kind.contains("event-stream") { true } else { asked && !kind.contains("json") }
}
