//! Shared test fixtures: relay, agent, devices, a prompt with scripted answers and a tool that counts its runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_a2h::client::DeviceInvitation;
use nuncio_a2h::peer::{DeviceCallError, DeviceCallOptions};
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, CallId, ConversationId, PersonName, ScopeId};
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::prompt::{PermissionPrompt, PromptAnswer, PromptQuestion};
use nuncio_device::tools::{LocalTool, LocalToolFailure, LocalTools};
use nuncio_device::{Device, DeviceDependencies};
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_identity::seal::{KeyStore, MemoryKeyStore};
use nuncio_server::SystemEntropy;
use nuncio_server::admin::AdminCommand;
pub(crate) use nuncio_testkit::a2h::manifest;
use nuncio_testkit::a2h::{
    AgentTransport, AnonymousA2hClient, JumpingClock, PeerDependencies, SealedAgent, TestDevice,
};
use nuncio_testkit::{Gateway, eventually};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::disk::KillableKeyStore;

/// Prompt with scripted answers, which records the questions.
#[derive(Debug, Default)]
pub(crate) struct ScriptedPrompt {
    answers: Mutex<VecDeque<PromptAnswer>>,
    more: tokio::sync::Notify,
    /// Whether the prompt reports that no person is present.
    pub(crate) deserted: AtomicBool,
    pub(crate) asked: Mutex<Vec<PromptQuestion>>,
    /// Time by which the clock jumps during the next prompt, as if the machine slept.
    pub(crate) asleep: Mutex<Option<(JumpingClock, Duration)>>,
}

impl ScriptedPrompt {
    /// Queues answers; questions beyond them stay open.
    pub(crate) fn will_say(&self, answers: &[PromptAnswer]) {
        self.answers.lock().unwrap().extend(answers);
        self.more.notify_one();
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Waits until `count` questions were asked.
    pub(crate) async fn questions(&self, count: usize) {
        eventually("the person is asked", async || (self.count() == count).then_some(())).await;
    }
}

#[async_trait]
impl PermissionPrompt for ScriptedPrompt {
    async fn ask(&self, question: &PromptQuestion) -> PromptAnswer {
        self.asked.lock().unwrap().push(question.clone());
        if let Some((clock, time)) = self.asleep.lock().unwrap().take() {
            clock.jump(time);
        }
        loop {
            let said = self.answers.lock().unwrap().pop_front();
            match said {
                Some(said) => return said,
                None => self.more.notified().await,
            }
        }
    }

    fn is_attended(&self) -> bool {
        !self.deserted.load(Ordering::SeqCst)
    }
}

/// Test tool that counts its runs; `path` can make it fail, return a large result or never end.
#[derive(Debug, Default)]
pub(crate) struct CountingTool {
    runs: AtomicUsize,
}

impl CountingTool {
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl LocalTool for CountingTool {
    async fn run(&self, arguments: &Value, _: Duration) -> Result<Value, LocalToolFailure> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        match arguments["path"].as_str() {
            Some("broken") => Err(LocalToolFailure::Failed("the disk is broken".to_owned())),
            Some("large") => Ok(json!({"content": "x".repeat(70_000)})),
            Some("endless") => std::future::pending().await,
            _ => Ok(json!({"run": self.runs()})),
        }
    }
}

/// A running test device and its parts.
pub(crate) struct RunningDevice {
    pub(crate) device: Device,
    pub(crate) prompt: Arc<ScriptedPrompt>,
    pub(crate) tool: Arc<CountingTool>,
    key_store: Arc<KillableKeyStore>,
    clock: JumpingClock,
    stop: CancellationToken,
}

impl RunningDevice {
    pub(crate) fn key_store(&self) -> &dyn KeyStore {
        &*self.key_store
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Kills the device process and starts it again with the stored records; the test tool keeps its count.
    pub(crate) fn restart(self) -> Self {
        self.stop.cancel();
        let prompt = Arc::<ScriptedPrompt>::default();
        let left = Arc::new(self.key_store.take());
        let config = config(&left, &self.clock, &prompt, &self.tool, SensitivityFloors::new());
        let device = Device::open(config).unwrap().unwrap();
        run(device, prompt, Arc::clone(&self.tool), left, self.clock.clone())
    }
}

impl Drop for RunningDevice {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A machine on which no device is enrolled yet.
pub(crate) struct UnenrolledMachine {
    key_store: Arc<KillableKeyStore>,
    prompt: Arc<ScriptedPrompt>,
    tool: Arc<CountingTool>,
    clock: JumpingClock,
}

impl UnenrolledMachine {
    pub(crate) fn config(&self) -> DeviceDependencies {
        config(&self.key_store, &self.clock, &self.prompt, &self.tool, SensitivityFloors::new())
    }

    pub(crate) fn records(&self) -> usize {
        self.key_store.names("").unwrap().len()
    }

    /// Starts `device`, which was enrolled or restored on this machine.
    pub(crate) fn run(self, device: Device) -> RunningDevice {
        run(device, self.prompt, self.tool, self.key_store, self.clock)
    }
}

fn config(
    key_store: &Arc<KillableKeyStore>,
    clock: &JumpingClock,
    prompt: &Arc<ScriptedPrompt>,
    tool: &Arc<CountingTool>,
    floors: SensitivityFloors,
) -> DeviceDependencies {
    let PeerDependencies { fetch, dial, clock } = PeerDependencies::direct().with_clock(clock);
    let under = |tools: LocalTools, id: &str| tools.under(scope(id), Arc::clone(tool) as _);
    DeviceDependencies {
        key_store: Arc::clone(key_store) as _,
        fetch,
        dial,
        clock,
        entropy: Arc::new(SystemEntropy),
        presets: Arc::default(),
        floors,
        tools: ["filesystem:read", "notification:send", "location:read"].into_iter().fold(LocalTools::default(), under),
        prompt: Arc::clone(prompt) as _,
    }
}

fn run(
    device: Device,
    prompt: Arc<ScriptedPrompt>,
    tool: Arc<CountingTool>,
    key_store: Arc<KillableKeyStore>,
    clock: JumpingClock,
) -> RunningDevice {
    let stop = CancellationToken::new();
    let (runs, until) = (device.clone(), stop.clone());
    tokio::spawn(async move { runs.run(until).await.unwrap() });
    RunningDevice { device, prompt, tool, key_store, clock, stop }
}

/// Test setup: a relay and an agent with an owner; devices are added by its methods.
pub(crate) struct RelayAndAgentFixture {
    pub(crate) gateway: Gateway,
    pub(crate) clock: JumpingClock,
    pub(crate) server: AnonymousA2hClient,
    pub(crate) owner: TestDevice,
    pub(crate) agent: SealedAgent,
    pub(crate) id: AgentId,
    pub(crate) token: String,
}

impl RelayAndAgentFixture {
    pub(crate) async fn start() -> Self {
        nuncio_server::fetch::install_crypto();
        let clock = JumpingClock::new();
        let gateway = Gateway::builder().agent("guide", AGENT).clock(&clock).start().await;
        let server = AnonymousA2hClient::at(gateway.url());
        let owner = TestDevice::enrol(&server, &invite(&gateway, "owner").await).await;
        let (id, token) = owner.make_agent(&json!({"display_name": "Notes"})).await;
        owner.publish(&id, &manifest()).await.data();
        let way = PeerDependencies::direct().with_clock(&clock);
        let key_store: Arc<dyn KeyStore> = Arc::new(MemoryKeyStore::new());
        let agent = SealedAgent::start(&way, &gateway.url(), (&id, &token), key_store, AgentTransport::Socket).await;
        Self { gateway, clock, server, owner, agent, id: AgentId::parse(&id).unwrap(), token }
    }

    /// Enrols and starts a device of a person.
    pub(crate) async fn device(&self, person: &str) -> RunningDevice {
        self.device_with(person, SensitivityFloors::new()).await
    }

    pub(crate) async fn device_with(&self, person: &str, floors: SensitivityFloors) -> RunningDevice {
        self.device_by(&PeerDependencies::direct(), person, floors).await
    }

    /// Enrols and starts a device that reaches the relay through `way`.
    pub(crate) async fn device_by(
        &self,
        way: &PeerDependencies,
        person: &str,
        floors: SensitivityFloors,
    ) -> RunningDevice {
        self.enrolled_by(way, invite(&self.gateway, person).await, floors).await
    }

    /// Enrols and starts a device with an invite code.
    pub(crate) async fn enrolled(&self, code: String, floors: SensitivityFloors) -> RunningDevice {
        self.enrolled_by(&PeerDependencies::direct(), code, floors).await
    }

    async fn enrolled_by(&self, way: &PeerDependencies, code: String, floors: SensitivityFloors) -> RunningDevice {
        let key_store = Arc::<KillableKeyStore>::default();
        let (prompt, tool) = (Arc::<ScriptedPrompt>::default(), Arc::<CountingTool>::default());
        let invitation = DeviceInvitation {
            url: self.gateway.url().parse().unwrap(),
            trust: AddressTrust::Configured,
            code,
            fingerprint: None,
        };
        let PeerDependencies { fetch, dial, .. } = way.clone();
        let config = DeviceDependencies { fetch, dial, ..config(&key_store, &self.clock, &prompt, &tool, floors) };
        let device = Device::enrol(config, &invitation, "laptop").await.unwrap();
        device.peer().keys().publish_keys().await.unwrap();
        run(device, prompt, tool, key_store, self.clock.clone())
    }

    /// Enrols and starts a device whose tools `change` makes from the usual ones.
    pub(crate) async fn device_with_tools(
        &self,
        person: &str,
        change: impl FnOnce(LocalTools) -> LocalTools,
    ) -> RunningDevice {
        let machine = self.machine();
        let mut config = machine.config();
        config.tools = change(config.tools);
        let invitation = DeviceInvitation {
            url: self.gateway.url().parse().unwrap(),
            trust: AddressTrust::Configured,
            code: invite(&self.gateway, person).await,
            fingerprint: None,
        };
        let device = Device::enrol(config, &invitation, "laptop").await.unwrap();
        device.peer().keys().publish_keys().await.unwrap();
        machine.run(device)
    }

    pub(crate) fn machine(&self) -> UnenrolledMachine {
        let key_store = Arc::<KillableKeyStore>::default();
        let (prompt, tool) = (Arc::<ScriptedPrompt>::default(), Arc::<CountingTool>::default());
        UnenrolledMachine { key_store, prompt, tool, clock: self.clock.clone() }
    }

    /// Enrols and starts a device of Ada, who grants these scopes to the agent.
    pub(crate) async fn ada(&self, scopes: &[&str]) -> RunningDevice {
        let ada = self.device("ada").await;
        self.allow(&ada, scopes, GrantTerm::UntilRevoked).await;
        ada
    }

    pub(crate) async fn allow(&self, running: &RunningDevice, scopes: &[&str], term: GrantTerm) {
        let ask = running.device.consents().access_request(&self.id).await.unwrap();
        let given: BTreeMap<_, _> = scopes.iter().map(|id| (scope(id), term)).collect();
        running.device.consents().allow(&ask, &given).await.unwrap();
    }

    pub(crate) async fn conversation(&self) -> ConversationId {
        let ada = nuncio_core::notification::RelayParty::Person(PersonName::parse("ada").unwrap());
        self.agent.peer.conversation_with(&ada).await.unwrap().id.clone()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, DeviceCallError> {
        self.agent.call("ada", tool, arguments).await
    }

    /// Calls a tool with a given call id.
    pub(crate) async fn call_named(&self, name: &str, tool: &str, arguments: Value) -> Result<Value, DeviceCallError> {
        let options = DeviceCallOptions { call_id: Some(CallId::parse(name).unwrap()), ..DeviceCallOptions::default() };
        self.agent.peer.calls().call_tool_with(&self.conversation().await, tool, arguments, options).await
    }

    /// Calls a tool with the scope `under` and a timeout of five seconds instead of the manifest's.
    pub(crate) async fn call_under(&self, tool: &str, under: &str, arguments: Value) -> Result<Value, DeviceCallError> {
        let options = DeviceCallOptions {
            scope: Some(scope(under)),
            timeout: Some(Duration::from_secs(5)),
            ..DeviceCallOptions::default()
        };
        self.agent.peer.calls().call_tool_with(&self.conversation().await, tool, arguments, options).await
    }
}

pub(crate) async fn invite(gateway: &Gateway, name: &str) -> String {
    let order = AdminCommand::UserInvite { name: PersonName::parse(name).unwrap(), seconds: None };
    gateway.order(order).await.unwrap()["code"].as_str().unwrap().to_owned()
}

pub(crate) fn scope(id: &str) -> ScopeId {
    ScopeId::parse(id).unwrap()
}

const AGENT: &str = r#"
[agent]
name = "guide"
version = "1.0.0"
description = "Says little."

[brain]
kind = "script"
"#;
