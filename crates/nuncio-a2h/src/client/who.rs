//! Who we are at a relay, and how we show it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::person::Assertion;
use nuncio_core::signature::Signature;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::{Outgoing, Trust};
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use url::Url;

use super::{RelayError, http, read};

/// How long before its end a token is worth a new one.
const EARLY: Duration = Duration::from_secs(60);

/// Signs with a device's key.
pub type Sign = Arc<dyn Fn(&[u8]) -> Signature + Send + Sync>;

/// Who we are, and what shows it.
#[async_trait]
pub trait Credentials: fmt::Debug + Send + Sync + 'static {
    /// Who.
    fn who(&self) -> &Who;
    /// A token that is good now.
    async fn token(&self) -> Result<String, RelayError>;
}

/// Who someone is at a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// An agent.
    Agent(AgentId),
    /// A device of a person.
    Device(PersonName, DeviceId),
}

impl Who {
    /// Who takes part in conversations.
    #[must_use]
    pub fn recipient(&self) -> Recipient {
        match self {
            Self::Agent(id) => Recipient::Agent(id.clone()),
            Self::Device(person, _) => Recipient::Person(person.clone()),
        }
    }
}

/// An agent's token, which stays.
pub struct AgentToken {
    who: Who,
    token: String,
}

impl AgentToken {
    /// The token of that agent.
    #[must_use]
    pub fn new(agent: AgentId, token: String) -> Self {
        Self { who: Who::Agent(agent), token }
    }
}

impl fmt::Debug for AgentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentToken of {:?}", self.who)
    }
}

#[async_trait]
impl Credentials for AgentToken {
    fn who(&self) -> &Who {
        &self.who
    }

    async fn token(&self) -> Result<String, RelayError> {
        Ok(self.token.clone())
    }
}

/// A person's device, which earns a token of five minutes whenever it needs one.
pub struct DeviceLogin {
    /// The device.
    pub who: Who,
    /// The relay's root.
    pub url: Url,
    /// Whether whoever runs this named it.
    pub trust: Trust,
    /// What the device signs for.
    pub audience: String,
    /// Signs with its key.
    pub sign: Sign,
    /// The way there.
    pub fetch: Arc<dyn Fetch>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The token it has, and until when.
    pub earned: Mutex<Option<(String, Timestamp)>>,
}

impl fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceLogin of {:?}", self.who)
    }
}

#[derive(Deserialize)]
struct Earned {
    access_token: String,
    expires_at: Timestamp,
}

#[async_trait]
impl Credentials for DeviceLogin {
    fn who(&self) -> &Who {
        &self.who
    }

    async fn token(&self) -> Result<String, RelayError> {
        let mut earned = self.earned.lock().await;
        let now = self.clock.now();
        if let Some((token, until)) = &*earned
            && now.after(EARLY) < *until
        {
            return Ok(token.clone());
        }
        let Who::Device(_, device) = &self.who else {
            return Err(RelayError::Unreachable("only devices earn tokens".to_owned()));
        };
        let mut nonce = [0; 16];
        self.entropy.fill(&mut nonce);
        let assertion = Assertion {
            device_id: device.clone(),
            audience: self.audience.clone(),
            at: now,
            nonce: Digest::of_bytes(&nonce).to_string(),
        };
        let signature = (self.sign)(&assertion.message());
        let mut body = json!(assertion);
        body["signature"] = json!(signature);
        let answer = ask(&*self.fetch, &self.url, self.trust, "/auth/token", Some(&body)).await?;
        let fresh: Earned = read::read(answer)?;
        *earned = Some((fresh.access_token.clone(), fresh.expires_at));
        Ok(fresh.access_token)
    }
}

/// Asks something that nobody needs to be known for.
pub(super) async fn ask(
    fetch: &dyn Fetch,
    url: &Url,
    trust: Trust,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, RelayError> {
    let outgoing = Outgoing {
        method: if body.is_some() { "POST" } else { "GET" },
        url: http::below(url, path)?,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.map(|body| Bytes::from(body.to_string())),
        trust,
        timeout: http::TIME,
        max_bytes: 64 * 1024,
    };
    let answer = fetch.fetch(outgoing).await.map_err(|why| RelayError::Unreachable(why.to_string()))?;
    Ok(http::understood(&answer)?["data"].take())
}
