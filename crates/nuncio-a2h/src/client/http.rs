//! Client of a relay over the network: HTTP requests, and events by WebSocket or long polling.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nuncio_core::ErrorCode;
use nuncio_core::bundle::{KeyBundle, KeyBundleId, OneTimeKey};
use nuncio_core::conversation::Conversation;
use nuncio_core::ids::{AgentId, ConversationId, MessageId};
use nuncio_core::notification::RelayParty;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest, FetchResponse};
use nuncio_engine::ports::{Fetch, WebSocketDialer};
use nuncio_engine::relay::MessageToPost;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc};
use url::Url;

use super::read::{self, kind_of_two};
use super::relay_identity::{RelayClientIdentity, RelayCredentials};
use super::socket::RelayConnection;
use super::{RelayClient, RelayClientError, RelayEvent};
use crate::wire::Page;
use crate::wire::agent::AgentAccountView;
use crate::wire::conversation::OpenConversationRequest;
use crate::wire::frame::ClientFrame;
use crate::wire::keys::{PublishedKeysStatus, RegisterKeysRequest};
use crate::wire::message::{
    PostMessageRequest, PostedMessageView, SealedBytes, ToolCallClaimRequest, ToolCallClaimView,
};
use crate::wire::stream::StreamFrame;

pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the relay may delay the answer to a poll while there are no events.
const POLL_DURATION: Duration = Duration::from_secs(25);
const MAX_QUEUED_STREAM_FRAMES: usize = 256;
/// Limit of one relay response, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone)]
pub struct RelayAddress {
    /// Base URL of the relay, such as `https://relay.example`.
    pub url: Url,
    /// Whether the operator of this program configured the relay's address; private addresses are then allowed.
    pub trust: AddressTrust,
}

/// Client of a relay over the network, with the identity of one agent or device.
#[derive(Debug)]
pub struct HttpRelayClient {
    address: RelayAddress,
    me: RelayParty,
    credentials: Arc<dyn RelayCredentials>,
    fetch: Arc<dyn Fetch>,
    /// Opens WebSocket connections; without it, events are polled.
    dial: Option<Arc<dyn WebSocketDialer>>,
    connection: Mutex<Option<RelayConnection>>,
    /// Queue of outgoing stream frames; `None` unless an open connection accepts streams.
    streaming: std::sync::Mutex<Option<mpsc::Sender<String>>>,
}

impl HttpRelayClient {
    /// Client that receives its events by WebSocket.
    #[must_use]
    pub fn by_socket(
        address: RelayAddress,
        credentials: Arc<dyn RelayCredentials>,
        fetch: Arc<dyn Fetch>,
        dial: Arc<dyn WebSocketDialer>,
    ) -> Self {
        Self { dial: Some(dial), ..Self::by_polling(address, credentials, fetch) }
    }

    /// Client that receives its events by long polling; for agents only.
    #[must_use]
    pub fn by_polling(address: RelayAddress, credentials: Arc<dyn RelayCredentials>, fetch: Arc<dyn Fetch>) -> Self {
        let me = credentials.who().recipient();
        let (connection, streaming) = (Mutex::default(), std::sync::Mutex::default());
        Self { address, me, credentials, fetch, dial: None, connection, streaming }
    }

    /// Sends a request to a path below `/a2h` and returns the `data` of the answer.
    pub async fn ask(&self, method: &'static str, path: &str, body: Option<Value>) -> Result<Value, RelayClientError> {
        Ok(self.ask_whole(method, path, body, REQUEST_TIMEOUT).await?["data"].take())
    }

    /// `GET` of a path below `/a2h`; returns the `data` of the answer.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RelayClientError> {
        read::read(self.ask("GET", path, None).await?)
    }

    /// `GET` of a path below `/a2h`; returns the whole answer, which for a list includes `next_cursor`.
    pub async fn page<T: DeserializeOwned>(&self, path: &str) -> Result<T, RelayClientError> {
        read::read(self.ask_whole("GET", path, None, REQUEST_TIMEOUT).await?)
    }

    /// Sends a JSON body to a path below `/a2h`; returns the `data` of the answer.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, RelayClientError> {
        read::read(self.ask(method, path, Some(read::body(body))).await?)
    }

    /// Sends a request and returns the whole response body; a missing signature gives [`RelayClientError::Unsigned`].
    async fn ask_whole(
        &self,
        method: &'static str,
        path: &str,
        body: Option<Value>,
        timeout: Duration,
    ) -> Result<Value, RelayClientError> {
        let token = self.credentials.token().await?;
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
        if body.is_some() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let outgoing = FetchRequest {
            method,
            url: below(&self.address.url, path)?,
            headers,
            body: body.map(|body| Bytes::from(body.to_string())),
            trust: self.address.trust,
            timeout,
            max_bytes: MAX_ANSWER,
        };
        let answer = self.fetch.fetch(outgoing).await.map_err(|why| RelayClientError::Unreachable(why.to_string()))?;
        understood(&answer)
    }

    async fn connect(
        &self,
        dial: &dyn WebSocketDialer,
        after: Option<u64>,
    ) -> Result<RelayConnection, RelayClientError> {
        let token = self.credentials.token().await?;
        let (path, agent_id) = match self.credentials.who() {
            RelayClientIdentity::Agent(agent) => (format!("/ws/agent?agent_id={agent}"), Some(agent.clone())),
            RelayClientIdentity::Device(..) => ("/ws/human".to_owned(), None),
        };
        let (outgoing, streams) = mpsc::channel(MAX_QUEUED_STREAM_FRAMES);
        let url = below(&self.address.url, &path)?;
        let auth = ClientFrame::Auth { token, agent_id, after };
        let connection = RelayConnection::open(dial, url, self.address.trust, auth, streams).await?;
        *self.streaming() = connection.streams.then_some(outgoing);
        Ok(connection)
    }

    fn streaming(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<String>>> {
        self.streaming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn poll(&self, after: Option<u64>) -> Result<Vec<RelayEvent>, RelayClientError> {
        loop {
            let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
            let path = format!("/agents/{}/messages/poll?wait={}{after}", self.me.id(), POLL_DURATION.as_secs());
            let page: Page<Value> =
                read::read(self.ask_whole("GET", &path, None, POLL_DURATION + REQUEST_TIMEOUT).await?)?;
            let events = page.data.into_iter().filter_map(|event| read::event(event).transpose());
            let events: Vec<_> = events.collect::<Result<_, _>>()?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}

#[async_trait]
impl RelayClient for HttpRelayClient {
    fn me(&self) -> &RelayParty {
        &self.me
    }

    async fn register_keys(&self, bundle: Option<KeyBundle>, keys: Vec<OneTimeKey>) -> Result<usize, RelayClientError> {
        let path = match self.credentials.who() {
            RelayClientIdentity::Agent(agent) => format!("/agents/{agent}/keys/register"),
            RelayClientIdentity::Device(_, device) => format!("/users/me/devices/{device}/keys"),
        };
        let held: PublishedKeysStatus =
            self.send("POST", &path, &RegisterKeysRequest { bundle, one_time_keys: keys }).await?;
        Ok(held.one_time_keys)
    }

    async fn keys_of(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, RelayClientError> {
        let path = match owner {
            RelayParty::Person(name) => format!("/keys/users/{name}/devices"),
            RelayParty::Agent(id) => format!("/keys/agents/{id}"),
        };
        self.get(&path).await
    }

    async fn one_time_key(&self, id: &KeyBundleId) -> Result<OneTimeKey, RelayClientError> {
        let path = format!("/keys/devices/{}/one-time-key?owner={}", id.device, id.owner);
        self.send("POST", &path, &Map::new()).await
    }

    async fn conversation(&self, id: &ConversationId) -> Result<Conversation, RelayClientError> {
        Ok(read::conversation(self.get(&format!("/conversations/{id}")).await?))
    }

    async fn conversation_with(&self, other: &RelayParty) -> Result<Conversation, RelayClientError> {
        let kind = kind_of_two(&self.me, other)?;
        let body = OpenConversationRequest { kind, with: vec![other.clone().into()] };
        Ok(read::conversation(self.send("POST", "/conversations", &body).await?))
    }

    async fn post(&self, conversation: &ConversationId, post: MessageToPost) -> Result<u64, RelayClientError> {
        let envelope = SealedBytes(post.envelope).to_envelope();
        let body = PostMessageRequest {
            client_message_id: post.client_id,
            content_type: post.content_type,
            msg_subtype: post.subtype,
            envelope: &envelope,
        };
        let path = format!("/conversations/{conversation}/messages");
        let receipt: PostedMessageView = self.send("POST", &path, &body).await?;
        Ok(receipt.conversation_seq)
    }

    async fn events(&self, after: Option<u64>) -> Result<Vec<RelayEvent>, RelayClientError> {
        let Some(dial) = &self.dial else { return self.poll(after).await };
        let mut slot = self.connection.lock().await;
        // The connection is taken out while it is read, so that a broken one, or one without reader, is not reused.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.connect(&**dial, after).await?,
        };
        let events = connection.next(&*self.credentials).await?;
        *slot = Some(connection);
        Ok(events)
    }

    async fn acknowledge(&self, seq: u64) -> Result<(), RelayClientError> {
        match self.connection.lock().await.as_mut() {
            Some(connection) => connection.acknowledge(seq).await,
            // With polling, the next poll acknowledges the received events.
            None => Ok(()),
        }
    }

    async fn claim(&self, message: &MessageId) -> Result<bool, RelayClientError> {
        let path = format!("/messages/{message}/claim");
        match self.send::<ToolCallClaimView>("POST", &path, &ToolCallClaimRequest::default()).await {
            Err(RelayClientError::Refused { code: ErrorCode::MessageClaimed, .. }) => Ok(false),
            other => other.map(|_| true),
        }
    }

    async fn manifest(&self, agent: &AgentId) -> Result<Value, RelayClientError> {
        let view: AgentAccountView = self.get(&format!("/agents/{agent}")).await?;
        Ok(view.capability_manifest.unwrap_or_default())
    }

    fn streams(&self) -> bool {
        self.streaming().as_ref().is_some_and(|outgoing| !outgoing.is_closed())
    }

    async fn stream(&self, frame: StreamFrame) -> Result<(), RelayClientError> {
        let frame = read::body(&ClientFrame::from(frame)).to_string();
        let sent = self.streaming().as_ref().is_some_and(|outgoing| outgoing.try_send(frame).is_ok());
        match sent {
            true => Ok(()),
            false => Err(RelayClientError::Unreachable("there is no connection, or it is too slow".to_owned())),
        }
    }
}

/// URL of a path below `/a2h`.
pub(super) fn below(root: &Url, path: &str) -> Result<Url, RelayClientError> {
    let root = root.as_str().trim_end_matches('/');
    Url::parse(&format!("{root}/a2h{path}")).map_err(|why| RelayClientError::Unreachable(why.to_string()))
}

pub(super) fn understood(answer: &FetchResponse) -> Result<Value, RelayClientError> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if (200..300).contains(&answer.status) {
        return Ok(body);
    }
    let error = &body["error"];
    let message = nuncio_core::text::plain(error["message"].as_str().unwrap_or("it does not say why"));
    let code = error["code"].as_str().map(str::to_lowercase).and_then(|code| ErrorCode::parse(&code));
    Err(match (answer.status, code) {
        (429, _) => {
            let seconds = answer.header("retry-after").and_then(|text| text.parse().ok()).unwrap_or(1);
            RelayClientError::TooMany { seconds, message }
        }
        (500.., _) => RelayClientError::Unreachable(format!("it answered {}: {message}", answer.status)),
        (_, Some(ErrorCode::ConsentUnsigned)) => RelayClientError::Unsigned(error["params"]["entry"].clone()),
        (_, Some(code)) => RelayClientError::Refused { code, message },
        (status, None) => RelayClientError::Refused {
            code: ErrorCode::EndpointUnreachable,
            message: format!("the relay answered {status}: {message}"),
        },
    })
}
