//! Client for AAP v3 servers, tolerant of known deviations from the specification.
//!
//! [`Client`] sends single requests. [`AapConversation`] tracks the messages and pending calls of a session and recovers
//! from known server faults.

use std::time::Duration;

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
mod stream;
mod tolerant;

pub use conversation::{AapConversation, TurnCompleteness, TurnEnd, TurnUpdate, TurnUpdateStream, UnansweredCall};
pub use error::ClientError;
pub use event::{TurnEvent, TurnStop, TurnStopError};
pub use key::ApiKey;
pub use stream::{ResumableEvent, TurnStream};

pub use crate::wire::meta::{AgentInfo, MetaResponse, OptionInfo, ToolSpec, VERSION};
pub use crate::wire::session::{AgentConfig, HistoryKind, NewSession, SessionInfo, SessionsPage};
use crate::wire::session::{CreatedSession, HistoryResponse};
pub use crate::wire::turn::{AgentOverride, TurnBody};

/// Timeout of all requests except turns and event streams.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Size limit of a JSON response, in bytes.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;
/// Maximum number of bytes read from an error response.
const MAX_ERROR: usize = 16 * 1024;

/// Client of one AAP server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    base: Url,
    key: Option<ApiKey>,
    http: reqwest::Client,
}

impl Client {
    /// Creates a client for the server whose AAP paths are below `base`.
    ///
    /// The address must come from the user or the operator. `http` must not follow redirects or use proxies, so that
    /// the key reaches only this server.
    #[must_use]
    pub fn new(base: Url, key: Option<ApiKey>, http: reqwest::Client) -> Self {
        Self { base, key, http }
    }

    #[must_use]
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Sends `GET /meta`. Fails if the server does not speak AAP v3.
    pub async fn meta(&self) -> Result<MetaResponse, ClientError> {
        let meta: MetaResponse = self.json(self.request(Method::GET, &["meta"])?.timeout(REQUEST_TIMEOUT)).await?;
        if meta.version == VERSION {
            return Ok(meta);
        }
        Err(ClientError::NotAap(format!(
            "it uses version {} of the protocol, and this client supports version {VERSION}",
            meta.version
        )))
    }

    /// Sends `GET /sessions` for the first page, or for the page after the cursor `after`.
    pub async fn sessions(&self, after: Option<&str>) -> Result<SessionsPage, ClientError> {
        let mut request = self.request(Method::GET, &["sessions"])?.timeout(REQUEST_TIMEOUT);
        if let Some(after) = after {
            request = request.query(&[("after", after)]);
        }
        self.json(request).await
    }

    /// Sends `POST /sessions` and returns the id of the new session.
    pub async fn create_session(&self, new: &NewSession) -> Result<String, ClientError> {
        let request = self.request(Method::POST, &["sessions"])?.timeout(REQUEST_TIMEOUT).json(new);
        let created: CreatedSession = self.json(request).await?;
        Ok(created.session_id)
    }

    /// Sends `GET /sessions/:id`.
    pub async fn session(&self, session: &str) -> Result<SessionInfo, ClientError> {
        self.json(self.request(Method::GET, &["sessions", session])?.timeout(REQUEST_TIMEOUT)).await
    }

    /// Sends `DELETE /sessions/:id`.
    pub async fn delete_session(&self, session: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &["sessions", session])?.timeout(REQUEST_TIMEOUT);
        send(request).await.map(drop)
    }

    /// Sends `GET /sessions/:id/history`. Skips unreadable messages and duplicate tool results in the response.
    pub async fn history(&self, session: &str, kind: HistoryKind) -> Result<Vec<Message>, ClientError> {
        let request = self.request(Method::GET, &["sessions", session, "history"])?.timeout(REQUEST_TIMEOUT);
        let mut answer: HistoryResponse<Value> = self.json(request.query(&[("type", kind.as_str())])).await?;
        match answer.history.remove(kind.as_str()) {
            Some(Value::Array(messages)) => Ok(tolerant::messages(messages)),
            _ => Err(ClientError::NotAap(format!("its answer has no history.{}", kind.as_str()))),
        }
    }

    /// Sends `POST /sessions/:id/turns` and returns the events of the turn. A JSON response is converted to events.
    ///
    /// # Errors
    /// Reports failures to start the turn. Later failures are items of the stream.
    pub async fn turn(&self, session: &str, body: &TurnBody) -> Result<TurnStream, ClientError> {
        let mut request = self.request(Method::POST, &["sessions", session, "turns"])?.json(body);
        if body.stream != StreamMode::None {
            request = request.header(ACCEPT, "text/event-stream");
        }
        let response = send(request).await?;
        if is_stream(response.headers(), body.stream != StreamMode::None) {
            return Ok(TurnStream::of_events(response));
        }
        Ok(TurnStream::of_answer(read_json(response).await?))
    }

    /// Sends `GET /sessions/:id/stream`, a Nuncio extension: streams the last turn, or events after `last_event_id`.
    ///
    /// # Errors
    /// Servers without the extension answer 404.
    pub async fn resume(&self, session: &str, last_event_id: Option<&str>) -> Result<TurnStream, ClientError> {
        let mut request = self.request(Method::GET, &["sessions", session, "stream"])?;
        if let Some(last) = last_event_id {
            request = request.header("Last-Event-ID", last);
        }
        Self::stream(request).await
    }

    /// Sends `GET /sessions/:id/stream?running=true`, a Nuncio extension: streams the running turn from its beginning.
    ///
    /// # Errors
    /// The server answers 404 if no turn runs or if it lacks the extension.
    pub async fn running(&self, session: &str) -> Result<TurnStream, ClientError> {
        let request = self.request(Method::GET, &["sessions", session, "stream"])?;
        Self::stream(request.query(&[("running", "true")])).await
    }

    async fn stream(request: RequestBuilder) -> Result<TurnStream, ClientError> {
        let request = request.header(ACCEPT, "text/event-stream");
        let response = send(request).await?;
        if is_stream(response.headers(), false) {
            return Ok(TurnStream::of_events(response));
        }
        Err(ClientError::NotAap("its response to a resumed stream is not an event stream".to_owned()))
    }

    /// Sends `POST /sessions/:id/cancel`, a Nuncio extension: stops the running turn.
    ///
    /// # Errors
    /// The server answers 404 if no turn runs or if it lacks the extension.
    pub async fn cancel(&self, session: &str) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &["sessions", session, "cancel"])?.timeout(REQUEST_TIMEOUT);
        send(request).await.map(drop)
    }

    /// Builds a request for a path below the base; path segments are escaped.
    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ClientError> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => segments.pop_if_empty().extend(path),
            Err(()) => return Err(ClientError::NotAap(format!("{} is not the address of a server", self.base))),
        };
        let request = self.http.request(method, url);
        Ok(match &self.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        })
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        read_json(send(request).await?).await
    }
}

/// Sends a request; fails if the server answers with an error status.
async fn send(request: RequestBuilder) -> Result<Response, ClientError> {
    let mut response = request.send().await.map_err(|error| ClientError::unreachable(&error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let mut text = Vec::new();
    // An error body that cannot be read is treated as empty.
    while let Ok(Some(chunk)) = response.chunk().await {
        text.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR - text.len())]);
        if text.len() == MAX_ERROR {
            break;
        }
    }
    Err(ClientError::refused(status.as_u16(), &text))
}

async fn read_json<T: DeserializeOwned>(mut response: Response) -> Result<T, ClientError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| ClientError::broken(&error))? {
        if bytes.len() + chunk.len() > MAX_RESPONSE {
            return Err(ClientError::TooLarge(format!("the answer is larger than {MAX_RESPONSE} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ClientError::NotAap(format!("its answer does not follow the protocol: {error}")))
}

/// Whether the response is an event stream; without a content type, whether a stream was requested.
fn is_stream(headers: &HeaderMap, stream_requested: bool) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    kind.contains("event-stream") || (stream_requested && !kind.contains("json"))
}
