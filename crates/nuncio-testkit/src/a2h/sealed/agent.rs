//! A test agent on the real peer library, which records every message it receives.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nuncio_a2h::client::{AgentRelayCredentials, HttpRelayClient, RelayAddress};
use nuncio_a2h::peer::{DeviceCallError, InboundMessage, Peer, PeerConfig, PeerHandler, SendError, UnopenableMessage};
use nuncio_core::bundle::SealMode;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_identity::seal::{KeyStore, NewSealIdentity, SealIdentity};
use nuncio_server::SystemEntropy;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::PeerDependencies;

/// How the test agent receives events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentTransport {
    Socket,
    Polling,
    /// The agent receives events by webhook and has stateless keys.
    Hooks,
}

/// A test agent that exchanges sealed messages.
#[derive(Debug)]
pub struct SealedAgent {
    pub peer: Peer,
    /// Messages that the agent opened.
    pub heard: Arc<Mutex<Vec<InboundMessage>>>,
    /// Messages that the agent could not open.
    pub refused: Arc<Mutex<Vec<UnopenableMessage>>>,
    stop: CancellationToken,
}

impl SealedAgent {
    /// Starts the test agent with its keys in `key_store`.
    pub async fn start(
        network: &PeerDependencies,
        url: &str,
        (id, token): (&str, &str),
        key_store: Arc<dyn KeyStore>,
        reached: AgentTransport,
    ) -> Self {
        let PeerDependencies { fetch, dial, clock } = network.clone();
        let id = AgentId::parse(id).unwrap();
        let seal_identity = match SealIdentity::load(Arc::clone(&key_store)).unwrap() {
            Some(seal_identity) => seal_identity,
            None => {
                let device = DeviceId::parse(&random_name(&SystemEntropy, "dev_")).unwrap();
                let mode = if reached == AgentTransport::Hooks { SealMode::Stateless } else { SealMode::Stateful };
                let named = Some((RelayParty::Agent(id.clone()), device));
                SealIdentity::create(Arc::clone(&key_store), &NewSealIdentity { named, mode, now: clock.now() })
                    .unwrap()
            }
        };
        let address = RelayAddress { url: Url::parse(url).unwrap(), trust: AddressTrust::Configured };
        let token = Arc::new(AgentRelayCredentials::new(id, token.to_owned()));
        let relay = match reached {
            AgentTransport::Socket => HttpRelayClient::by_socket(address, token, fetch, dial),
            AgentTransport::Polling | AgentTransport::Hooks => HttpRelayClient::by_polling(address, token, fetch),
        };
        let (heard, refused) = <(Arc<Mutex<Vec<InboundMessage>>>, Arc<Mutex<Vec<UnopenableMessage>>>)>::default();
        let handler = RecordingHandler { heard: Arc::clone(&heard), refused: Arc::clone(&refused) };
        let (relay, entropy, handler) = (Arc::new(relay), Arc::new(SystemEntropy), Arc::new(handler));
        let peer = Peer::new(PeerConfig { relay, key_store, seal_identity, clock, entropy, handler });
        peer.keys().publish_keys().await.unwrap();
        let stop = CancellationToken::new();
        match reached {
            AgentTransport::Hooks => tokio::spawn(peer.clone().run_with_webhook(stop.clone())),
            AgentTransport::Socket | AgentTransport::Polling => tokio::spawn(peer.clone().run(stop.clone())),
        };
        Self { peer, heard, refused, stop }
    }

    /// Calls a tool on a person's device.
    pub async fn call(&self, person: &str, tool: &str, arguments: Value) -> Result<Value, DeviceCallError> {
        let conversation = self.peer.conversation_with(&of(person)).await.map_err(DeviceCallError::from)?;
        self.peer.calls().call_tool(&conversation.id, tool, arguments).await
    }

    /// Sends a text message to a person; returns its number in the conversation.
    pub async fn say(&self, person: &str, payload: Value) -> Result<u64, SendError> {
        let conversation = self.peer.conversation_with(&of(person)).await?;
        self.peer.outbox().send(&conversation.id, nuncio_core::conversation::ContentType::Text, payload).await
    }
}

fn of(person: &str) -> RelayParty {
    RelayParty::Person(PersonName::parse(person).unwrap())
}

impl Drop for SealedAgent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Debug)]
struct RecordingHandler {
    heard: Arc<Mutex<Vec<InboundMessage>>>,
    refused: Arc<Mutex<Vec<UnopenableMessage>>>,
}

#[async_trait]
impl PeerHandler for RecordingHandler {
    async fn on_message(&self, _: &Peer, message: InboundMessage) {
        self.heard.lock().unwrap().push(message);
    }

    async fn on_refused(&self, _: &Peer, refused: UnopenableMessage) {
        self.refused.lock().unwrap().push(refused);
    }
}
