//! The way to people's devices: each agent that has tools there is at a relay under its own keys, calls those
//! tools sealed, and answers what people write to it.
//!
//! Architecture Invariant: where relay and agent run apart, the relay reads nothing of this. Here, in one
//! process, whoever runs it could; `docs/sealing.md` says so.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use async_trait::async_trait;
use nuncio_a2h::client::{AgentToken, HttpRelay, LocalRelay, Relay, RelayAddress};
use nuncio_a2h::peer::{CallOptions, Peer, PeerConfig, ToolError};
use nuncio_backend::fetch::GuardedFetch;
use nuncio_backend::runners::Runners;
use nuncio_core::Code;
use nuncio_core::agent::Agent as Declared;
use nuncio_core::bundle::SealMode;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, AgentName, CallId, DeviceId, ExecutionId, PersonName};
use nuncio_engine::Engine;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::fetch::Trust;
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use nuncio_engine::ports::{Clock, Runner};
use nuncio_identity::did::DidUrl;
use nuncio_identity::seal::{KeyStore, KeyStoreError, NewSealIdentity, SealIdentity};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dids::{DidSubject, Dids};
use crate::error::StartError;
use crate::settings::RelaySetting;
use crate::system::SystemEntropy;

mod preview;
mod sealed_messages;
mod seals;

use sealed_messages::SealedMessages;
pub(crate) use seals::SealFolder;

/// Runs tools: those of people's devices itself, all others where they run.
#[derive(Debug)]
pub(crate) struct Devices {
    others: Arc<Runners>,
    seals: SealFolder,
    /// The relays of agents whose people are elsewhere.
    elsewhere: Vec<RelaySetting>,
    fetch: Arc<GuardedFetch>,
    clock: Arc<dyn Clock>,
    agents: RwLock<HashMap<AgentName, Peer>>,
    stop: OnceLock<CancellationToken>,
    tasks: TaskTracker,
}

impl Devices {
    /// The way, for tools that run elsewhere through `others`.
    pub(crate) fn new(
        others: Arc<Runners>,
        seals: SealFolder,
        elsewhere: Vec<RelaySetting>,
        fetch: Arc<GuardedFetch>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            others,
            seals,
            elsewhere,
            fetch,
            clock,
            agents: RwLock::default(),
            stop: OnceLock::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn stop_with(&self, stop: CancellationToken) {
        let _ = self.stop.set(stop);
    }

    /// Lets go of every agent's keys, once they are told to stop.
    pub(crate) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.agents.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Brings an agent to its relay, if it has tools on people's devices and is not there yet.
    pub(crate) fn attend(&self, engine: &Engine, dids: &Dids, declared: &Declared) -> Result<(), StartError> {
        let name = &declared.name;
        if declared.device_tools().next().is_none() || self.agent(name).is_some() {
            return Ok(());
        }
        let unusable = |why: &KeyStoreError| {
            let message = format!("the keys of agent {name} for people's devices cannot be used: {why}");
            StartError::new(Code::DataDirUnusable, message)
        };
        let relay = self.relay(engine, name)?;
        let keep = Arc::new(self.seals.open(name).map_err(|why| unusable(&why))?);
        let party = self.party(Arc::clone(&keep) as _, relay.me(), name, dids).map_err(|why| unusable(&why))?;
        let handler = Arc::new(SealedMessages { engine: engine.clone(), agent: name.clone() });
        let entropy = Arc::new(SystemEntropy);
        let agent = Peer::new(PeerConfig { relay, keep, party, clock: Arc::clone(&self.clock), entropy, handler });
        let stop = self.stop.get_or_init(CancellationToken::new).clone();
        self.tasks.spawn(agent.clone().run(stop));
        self.agents.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), agent);
        Ok(())
    }

    fn agent(&self, name: &AgentName) -> Option<Peer> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn relay(&self, engine: &Engine, name: &AgentName) -> Result<Arc<dyn Relay>, StartError> {
        let Some(setting) = self.elsewhere.iter().find(|setting| setting.agent == *name) else {
            return Ok(Arc::new(LocalRelay::new(engine.clone(), AgentId::from(name.clone()))));
        };
        let address = RelayAddress { url: setting.url.clone(), trust: Trust::Configured };
        let token = Arc::new(AgentToken::new(setting.agent_id.clone(), setting.token()?));
        let fetch = Arc::clone(&self.fetch);
        Ok(Arc::new(HttpRelay::by_socket(address, token, Arc::clone(&fetch) as _, fetch as _)))
    }

    /// Deletes what agents keep of a person: keys, sessions, and messages that were not dealt with.
    pub(crate) fn forget_person(&self, name: &PersonName, devices: &[DeviceId]) -> Result<(), StartError> {
        let unusable = |why: KeyStoreError| StartError::new(Code::DataDirUnusable, why.to_string());
        let mut texts = vec![Recipient::Person(name.clone()).to_string()];
        texts.extend(devices.iter().map(ToString::to_string));
        let open = self.agents.read().unwrap_or_else(PoisonError::into_inner).clone();
        for agent in open.values() {
            agent.forget(&texts).map_err(unusable)?;
        }
        for name in self.seals.agents().filter(|name| !open.contains_key(name)) {
            self.seals.open(&name).and_then(|cabinet| cabinet.forget(&texts)).map_err(unusable)?;
        }
        Ok(())
    }

    /// The agent's keys, made at first need, vouched for by its DID.
    fn party(
        &self,
        keep: Arc<dyn KeyStore>,
        me: &Recipient,
        name: &AgentName,
        dids: &Dids,
    ) -> Result<SealIdentity, KeyStoreError> {
        let now = self.clock.now();
        let mut party = match SealIdentity::load(Arc::clone(&keep))? {
            Some(party) => party,
            None => {
                let device = DeviceId::parse(&random_name(&SystemEntropy, "dev_"));
                let device = device.map_err(|why| KeyStoreError(why.to_string()))?;
                let new = NewSealIdentity { named: Some((me.clone(), device)), mode: SealMode::Stateful, now };
                SealIdentity::create(keep, &new)?
            }
        };
        if let Some((owner, device)) = party.owner_device()
            && owner != me
        {
            // The same agent under another name: at another relay, say.
            let device = device.clone();
            party.set_owner_device(me.clone(), device, now)?;
        }
        if let Some(own) = dids.of(&DidSubject::Agent(name.clone()))
            && let Ok(by) = DidUrl::parse(own.key_id())
        {
            party.add_did_proof(&by, own.key()).map_err(|why| KeyStoreError(why.to_string()))?;
        }
        Ok(party)
    }

    async fn on_device(&self, call: RunCall) -> Result<ToolOutput, RunError> {
        let unavailable = |why: &str| RunError::Unavailable(why.to_owned());
        let agent = self.agent(&call.agent.name).ok_or_else(|| unavailable("the agent is at no relay yet"))?;
        let person = call.person.clone().ok_or_else(|| unavailable("the caller belongs to no person"))?;
        call_on(&agent, person, call).await.map(ToolOutput::json).map_err(|error| {
            let message = error.to_string();
            match error.code() {
                Code::ToolUnavailable => RunError::Unavailable(message),
                Code::ToolFailed => RunError::Failed(message),
                code => RunError::Refused { code, message },
            }
        })
    }
}

async fn call_on(agent: &Peer, person: PersonName, call: RunCall) -> Result<Value, ToolError> {
    // An execution that is begun again is the same call: the device says what became of it, and runs nothing twice.
    let execution = call.trace.get("execution_id").and_then(|id| CallId::parse(id).ok());
    let options = CallOptions {
        call_id: Some(execution.unwrap_or(call.id)),
        scope: call.tool.scope.clone(),
        timeout: Some(call.tool.timeout),
    };
    let conversation = agent.conversation_with(&Recipient::Person(person)).await?;
    let arguments = Value::Object(call.arguments);
    call.program_start.report();
    agent.call_tool_noting(&conversation.id, call.tool.name.as_str(), arguments, options, &call.sent).await
}

#[async_trait]
impl Runner for Devices {
    async fn run(&self, call: RunCall) -> Result<ToolOutput, RunError> {
        match call.tool.on_device() {
            true => self.on_device(call).await,
            false => self.others.run(call).await,
        }
    }

    async fn resolve(&self, agent: Declared) -> Result<Declared, String> {
        self.others.resolve(agent).await
    }

    async fn release(&self, agent: &Declared) {
        self.others.release(agent).await;
    }

    async fn end_leftovers(&self, executions: &[ExecutionId]) {
        self.others.end_leftovers(executions).await;
    }
}

/// The page others build agents by: what it shows compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sealed-tools.md")]
struct SealedTools;
