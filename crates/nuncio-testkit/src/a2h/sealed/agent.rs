//! A small agent on the real peer library, which records what it receives.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nuncio_a2h::client::{AgentToken, HttpRelay, RelayAddress};
use nuncio_a2h::peer::{Inbound, OnMessage, Peer, PeerConfig, Refused, SendError, ToolError};
use nuncio_core::bundle::SealMode;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::fetch::Trust;
use nuncio_identity::seal::{Keep, NewParty, Party};
use nuncio_server::SystemEntropy;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::Way;

/// How the agent receives events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    Socket,
    Polling,
    /// By webhook, with stateless keys.
    Hooks,
}

/// An agent that exchanges sealed messages.
#[derive(Debug)]
pub struct SealedAgent {
    pub peer: Peer,
    /// Opened messages.
    pub heard: Arc<Mutex<Vec<Inbound>>>,
    /// Messages that could not be opened.
    pub refused: Arc<Mutex<Vec<Refused>>>,
    stop: CancellationToken,
}

impl SealedAgent {
    /// Starts the agent with its keys in `keep`.
    pub async fn start(way: &Way, url: &str, (id, token): (&str, &str), keep: Arc<dyn Keep>, reached: Reached) -> Self {
        let Way { fetch, dial, clock } = way.clone();
        let id = AgentId::parse(id).unwrap();
        let party = match Party::load(Arc::clone(&keep)).unwrap() {
            Some(party) => party,
            None => {
                let device = DeviceId::parse(&random_name(&SystemEntropy, "dev_")).unwrap();
                let mode = if reached == Reached::Hooks { SealMode::Stateless } else { SealMode::Stateful };
                let named = Some((Recipient::Agent(id.clone()), device));
                Party::create(Arc::clone(&keep), &NewParty { named, mode, now: clock.now() }).unwrap()
            }
        };
        let address = RelayAddress { url: Url::parse(url).unwrap(), trust: Trust::Configured };
        let token = Arc::new(AgentToken::new(id, token.to_owned()));
        let relay = match reached {
            Reached::Socket => HttpRelay::by_socket(address, token, fetch, dial),
            Reached::Polling | Reached::Hooks => HttpRelay::by_polling(address, token, fetch),
        };
        let (heard, refused) = <(Arc<Mutex<Vec<Inbound>>>, Arc<Mutex<Vec<Refused>>>)>::default();
        let ears = Ears { heard: Arc::clone(&heard), refused: Arc::clone(&refused) };
        let (relay, entropy, handler) = (Arc::new(relay), Arc::new(SystemEntropy), Arc::new(ears));
        let peer = Peer::new(PeerConfig { relay, keep, party, clock, entropy, handler });
        peer.publish_keys().await.unwrap();
        let stop = CancellationToken::new();
        match reached {
            Reached::Hooks => tokio::spawn(peer.clone().run_hooked(stop.clone())),
            Reached::Socket | Reached::Polling => tokio::spawn(peer.clone().run(stop.clone())),
        };
        Self { peer, heard, refused, stop }
    }

    /// Calls a tool on a person's device.
    pub async fn call(&self, person: &str, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        let conversation = self.peer.conversation_with(&of(person)).await.map_err(ToolError::from)?;
        self.peer.call_tool(&conversation.id, tool, arguments).await
    }

    /// Sends a text message to a person.
    pub async fn say(&self, person: &str, payload: Value) -> Result<u64, SendError> {
        let conversation = self.peer.conversation_with(&of(person)).await?;
        self.peer.send(&conversation.id, nuncio_core::conversation::ContentType::Text, payload).await
    }
}

fn of(person: &str) -> Recipient {
    Recipient::Person(PersonName::parse(person).unwrap())
}

impl Drop for SealedAgent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Debug)]
struct Ears {
    heard: Arc<Mutex<Vec<Inbound>>>,
    refused: Arc<Mutex<Vec<Refused>>>,
}

#[async_trait]
impl OnMessage for Ears {
    async fn on_message(&self, _: &Peer, message: Inbound) {
        self.heard.lock().unwrap().push(message);
    }

    async fn on_refused(&self, _: &Peer, refused: Refused) {
        self.refused.lock().unwrap().push(refused);
    }
}
