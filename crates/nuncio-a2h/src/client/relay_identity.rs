//! Identity of an agent or device at a relay, and its credentials.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::opaque_debug;
use nuncio_core::person::DeviceAssertion;
use nuncio_core::signature::Signature;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use super::{RelayClientError, http, read};
use crate::wire::auth::{TokenRequest, TokenView};

/// How long before its expiry a token is renewed.
const RENEWAL_MARGIN: Duration = Duration::from_secs(60);

pub type SignFn = Arc<dyn Fn(&[u8]) -> Signature + Send + Sync>;

#[async_trait]
pub trait RelayCredentials: fmt::Debug + Send + Sync + 'static {
    fn who(&self) -> &RelayClientIdentity;
    /// Currently valid access token for the relay.
    async fn token(&self) -> Result<String, RelayClientError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayClientIdentity {
    Agent(AgentId),
    Device(PersonName, DeviceId),
}

impl RelayClientIdentity {
    /// The agent, or the person who owns the device, as a conversation member.
    #[must_use]
    pub fn recipient(&self) -> RelayParty {
        match self {
            Self::Agent(id) => RelayParty::Agent(id.clone()),
            Self::Device(person, _) => RelayParty::Person(person.clone()),
        }
    }
}

/// Long-lived token of an agent.
pub struct AgentRelayCredentials {
    who: RelayClientIdentity,
    token: String,
}

impl AgentRelayCredentials {
    #[must_use]
    pub fn new(agent: AgentId, token: String) -> Self {
        Self { who: RelayClientIdentity::Agent(agent), token }
    }
}

opaque_debug!(AgentRelayCredentials);

#[async_trait]
impl RelayCredentials for AgentRelayCredentials {
    fn who(&self) -> &RelayClientIdentity {
        &self.who
    }

    async fn token(&self) -> Result<String, RelayClientError> {
        Ok(self.token.clone())
    }
}

/// Login of a person's device: requests a new access token with a signature when the current one is about to expire.
pub struct DeviceRelayCredentials {
    pub who: RelayClientIdentity,
    pub url: Url,
    /// Whether the operator of this program configured the relay's address; private addresses are then allowed.
    pub trust: AddressTrust,
    /// Server name that the signed login contains.
    pub audience: String,
    pub sign: SignFn,
    pub fetch: Arc<dyn Fetch>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Current access token and its expiry; `None` before the first login.
    pub earned: Mutex<Option<(String, Timestamp)>>,
}

opaque_debug!(DeviceRelayCredentials);

#[async_trait]
impl RelayCredentials for DeviceRelayCredentials {
    fn who(&self) -> &RelayClientIdentity {
        &self.who
    }

    async fn token(&self) -> Result<String, RelayClientError> {
        let mut earned = self.earned.lock().await;
        let now = self.clock.now();
        if let Some((token, until)) = &*earned
            && now.after(RENEWAL_MARGIN) < *until
        {
            return Ok(token.clone());
        }
        let RelayClientIdentity::Device(_, device) = &self.who else {
            return Err(RelayClientError::Unreachable("only devices get tokens by login".to_owned()));
        };
        let mut nonce = [0; 16];
        self.entropy.fill(&mut nonce);
        let assertion = DeviceAssertion {
            device_id: device.clone(),
            audience: self.audience.clone(),
            at: now,
            nonce: Digest::of_bytes(&nonce).to_string(),
        };
        let signature = (self.sign)(&assertion.message());
        let DeviceAssertion { device_id, audience, at, nonce } = assertion;
        let request = TokenRequest { device_id, audience, at, nonce, signature };
        let answer = ask(&*self.fetch, &self.url, self.trust, "/auth/token", Some(read::body(&request))).await?;
        let fresh: TokenView = read::read(answer)?;
        *earned = Some((fresh.access_token.clone(), fresh.expires_at));
        Ok(fresh.access_token)
    }
}

/// Sends a request without credentials, and returns the `data` of the answer.
pub(super) async fn ask(
    fetch: &dyn Fetch,
    url: &Url,
    trust: AddressTrust,
    path: &str,
    body: Option<Value>,
) -> Result<Value, RelayClientError> {
    let outgoing = FetchRequest {
        method: if body.is_some() { "POST" } else { "GET" },
        url: http::below(url, path)?,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.map(|body| Bytes::from(body.to_string())),
        trust,
        timeout: http::REQUEST_TIMEOUT,
        max_bytes: 64 * 1024,
    };
    let answer = fetch.fetch(outgoing).await.map_err(|why| RelayClientError::Unreachable(why.to_string()))?;
    Ok(http::understood(&answer)?["data"].take())
}
