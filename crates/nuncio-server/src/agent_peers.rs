//! Connects served agents to their relays. An agent with tools on people's devices registers its own keys at the relay,
//! seals the calls of these tools and answers the messages of people.
//!
//! Architecture Invariant: a relay in another process can read none of these messages. If the relay is in the same
//! process, its operator could read them (`docs/sealing.md`).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_a2h::client::{
    AgentRelayCredentials, HttpRelayClient, InProcessRelayClient, RelayAddress, RelayClient, RelayClientError,
};
use nuncio_a2h::peer::{Peer, PeerConfig, SendError};
use nuncio_backend::fetch::GuardedFetch;
use nuncio_backend::runners::ConnectedAgentLookup;
use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;
use nuncio_core::bundle::SealMode;
use nuncio_core::ids::{AgentId, AgentName, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_engine::Engine;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_engine::secret_cipher::KEY_BYTES;
use nuncio_identity::did::DidUrl;
use nuncio_identity::seal::{KeyStore, KeyStoreError, NewSealIdentity, SealIdentity};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::dids::{DidSubject, Dids};
use crate::error::OperatorError;
use crate::settings::RemoteRelaySetting;
use crate::system::SystemEntropy;

mod preview;
mod sealed_messages;
mod seals;

use sealed_messages::SealedMessageHandler;
pub(crate) use seals::AgentKeyStoreFolder;

/// The connected agents that have device tools. Dropping this value disconnects them.
#[derive(Debug)]
pub(crate) struct AgentPeers {
    engine: Engine,
    seals: AgentKeyStoreFolder,
    /// Relays of agents whose people have accounts on another server.
    remote_relays: Vec<RemoteRelaySetting>,
    fetch: Arc<GuardedFetch>,
    peers: RwLock<HashMap<AgentName, Peer>>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    tasks: TaskTracker,
}

impl AgentPeers {
    /// Agents stay connected until `stop`.
    pub(crate) fn new(
        engine: Engine,
        seals: AgentKeyStoreFolder,
        remote_relays: Vec<RemoteRelaySetting>,
        fetch: Arc<GuardedFetch>,
        stop: &CancellationToken,
    ) -> Self {
        let stop = stop.child_token();
        Self {
            engine,
            seals,
            remote_relays,
            fetch,
            peers: RwLock::default(),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            tasks: TaskTracker::new(),
        }
    }

    /// Waits until all agents have stopped.
    pub(crate) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Connects an agent to its relay if it has device tools and is not connected yet. Creates its keys if it has none.
    pub(crate) fn connect(&self, dids: &Dids, agent: &Agent) -> Result<(), OperatorError> {
        let name = &agent.name;
        if agent.device_tools().next().is_none() || self.peer(name).is_some() {
            return Ok(());
        }
        let unusable = |why: &KeyStoreError| {
            let message = format!("the keys of agent {name} for people's devices cannot be used: {why}");
            OperatorError::new(ErrorCode::DataDirUnusable, message)
        };
        let relay = self.relay(name)?;
        let key_store = self.seals.open(name).map_err(|why| unusable(&why))?;
        let seal_identity =
            self.seal_identity(Arc::clone(&key_store) as _, relay.me(), name, dids).map_err(|why| unusable(&why))?;
        let handler = Arc::new(SealedMessageHandler { engine: self.engine.clone(), agent: name.clone() });
        let entropy = Arc::new(SystemEntropy);
        let clock = Arc::clone(self.engine.clock());
        let peer = Peer::new(PeerConfig { relay, key_store, seal_identity, clock, entropy, handler });
        self.tasks.spawn(peer.clone().run(self.stop.clone()));
        self.peers.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), peer);
        Ok(())
    }

    fn relay(&self, name: &AgentName) -> Result<Arc<dyn RelayClient>, OperatorError> {
        let Some(setting) = self.remote_relays.iter().find(|setting| setting.agent == *name) else {
            return Ok(Arc::new(InProcessRelayClient::new(self.engine.clone(), AgentId::from(name.clone()))));
        };
        let address = RelayAddress { url: setting.url.clone(), trust: AddressTrust::Configured };
        let token = Arc::new(AgentRelayCredentials::new(setting.agent_id.clone(), setting.token()?));
        let fetch = Arc::clone(&self.fetch);
        Ok(Arc::new(HttpRelayClient::by_socket(address, token, Arc::clone(&fetch) as _, fetch as _)))
    }

    /// The number that the owner of an agent and a person compare, to know that nobody intercepts their messages.
    pub(crate) async fn safety_number(&self, agent: &AgentName, person: &PersonName) -> Result<String, OperatorError> {
        let absent = || {
            let message = format!(
                "agent {agent} is not connected to people's devices here: the name is wrong, no server runs in this data \
                 directory, or the agent has no tool with `run = {{ device = true }}`"
            );
            OperatorError::new(ErrorCode::UnknownAgent, message)
        };
        let peer = self.peer(agent).ok_or_else(absent)?;
        let number = peer.keys().safety_number(&RelayParty::Person(person.clone())).await;
        let number = match number {
            Err(SendError::NoDevice(_) | SendError::Meet(_)) => None,
            Err(SendError::Relay(RelayClientError::Refused { code: ErrorCode::PersonNotFound, .. })) => {
                let message = format!("there is no person {person}, or they do not use agent {agent}");
                return Err(OperatorError::new(ErrorCode::PersonNotFound, message));
            }
            number => number.map_err(|error| OperatorError::new(ErrorCode::EndpointUnreachable, error.to_string()))?,
        };
        let none = || {
            let message = format!("{person} has no device with keys, so there is no safety number to compare yet");
            OperatorError::new(ErrorCode::KeysNotFound, message)
        };
        number.ok_or_else(none)
    }

    /// Encrypts the keys of all agents under a new secret key.
    pub(crate) fn change_secret_key(&self, secret: &[u8; KEY_BYTES]) -> Result<(), KeyStoreError> {
        self.seals.change_secret_key(secret)
    }

    /// Deletes the data that agents store about a person: keys, sessions and unhandled messages.
    pub(crate) fn forget_person(&self, name: &PersonName, devices: &[DeviceId]) -> Result<(), OperatorError> {
        let unusable = |why: KeyStoreError| OperatorError::new(ErrorCode::DataDirUnusable, why.to_string());
        let mut texts = vec![RelayParty::Person(name.clone()).to_string()];
        texts.extend(devices.iter().map(ToString::to_string));
        let open = self.peers.read().unwrap_or_else(PoisonError::into_inner).clone();
        for peer in open.values() {
            peer.forget(&texts).map_err(unusable)?;
        }
        for name in self.seals.agents().filter(|name| !open.contains_key(name)) {
            self.seals.open(&name).and_then(|store| store.forget(&texts)).map_err(unusable)?;
        }
        Ok(())
    }

    /// The seal identity of an agent: its keys, created at first use, with a proof by its DID.
    fn seal_identity(
        &self,
        key_store: Arc<dyn KeyStore>,
        me: &RelayParty,
        name: &AgentName,
        dids: &Dids,
    ) -> Result<SealIdentity, KeyStoreError> {
        let now = self.engine.now();
        let mut seal_identity = match SealIdentity::load(Arc::clone(&key_store))? {
            Some(seal_identity) => seal_identity,
            None => {
                let device = DeviceId::parse(&random_name(&SystemEntropy, "dev_"));
                let device = device.map_err(|why| KeyStoreError(why.to_string()))?;
                let new = NewSealIdentity { named: Some((me.clone(), device)), mode: SealMode::Stateful, now };
                SealIdentity::create(key_store, &new)?
            }
        };
        if let Some((owner, device)) = seal_identity.owner_device()
            && owner != me
        {
            // The agent was at another relay before, under another id.
            let device = device.clone();
            seal_identity.set_owner_device(me.clone(), device, now)?;
        }
        if let Some(own) = dids.of(&DidSubject::Agent(name.clone()))
            && let Ok(by) = DidUrl::parse(own.key_id())
        {
            seal_identity.add_did_proof(&by, own.key()).map_err(|why| KeyStoreError(why.to_string()))?;
        }
        Ok(seal_identity)
    }
}

impl ConnectedAgentLookup for AgentPeers {
    fn peer(&self, agent: &AgentName) -> Option<Peer> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).get(agent).cloned()
    }
}

/// Compiles the examples of the documentation page as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sealed-tools.md")]
struct SealedToolsPageExamples;
