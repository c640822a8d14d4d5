//! The engine: assembles the services from the ports.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use nuncio_core::time::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, AccessTable, ConfiguredGrant, PersonLinks};
use crate::approve::Approvals;
use crate::background::BackgroundTasks;
use crate::call::Calls;
use crate::callbacks::Callbacks;
use crate::compute::ComputePool;
use crate::consent::{AgentAccounts, AgentLocks, Consent, ConsentRules, MailWaiters, Mailbox, Manifests, People};
use crate::converse::{Conversations, LiveTurns, RecentConversations, RecoveryReport};
use crate::direct_messages::DirectMessages;
use crate::directory::Directory;
use crate::drafting::{DraftingPolicy, Drafts};
use crate::error::EngineError;
use crate::invoke::{ExecutionLimits, ExecutionQueue, Executions};
use crate::ports::brain::BrainFactory;
use crate::ports::entropy::random_name;
use crate::ports::meter::OpenStream;
use crate::ports::store::StoreCheck;
use crate::ports::{Bus, Clock, Entropy, Meter, Runner, Store};
use crate::publish::{Agents, PublishedAgents};
use crate::record::Records;
use crate::relay::{DeviceKeys, Relay, RelayRules, StreamSubscribers, ToolCallRates, WebhookIndex, Webhooks};
use crate::runtime::Runtime;
use crate::skills::Skills;
use crate::tasks::Inbox;
use crate::vault::Vault;

/// Implementations of the engine's ports.
pub struct Ports {
    pub store: Arc<dyn Store>,
    pub bus: Arc<dyn Bus>,
    pub brains: Arc<dyn BrainFactory>,
    pub runner: Arc<dyn Runner>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Encrypts stored secrets.
    pub vault: Vault,
    /// Receives metrics.
    pub meter: Arc<dyn Meter>,
}

/// Operator limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub turn: Duration,
    /// Maximum number of brain steps per turn.
    pub steps: u32,
    pub approval: Duration,
    /// Maximum number of concurrent calls per tool.
    pub calls_per_tool: usize,
    pub bytes_per_caller: u64,
    pub executions: ExecutionLimits,
    pub consent: ConsentRules,
    pub relay: RelayRules,
    pub drafting: DraftingPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turn: Duration::from_secs(600),
            steps: 32,
            approval: Duration::from_secs(300),
            calls_per_tool: 32,
            bytes_per_caller: 1 << 30,
            executions: ExecutionLimits::default(),
            consent: ConsentRules::default(),
            relay: RelayRules::default(),
            drafting: DraftingPolicy::default(),
        }
    }
}

/// Current load, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineLoad {
    pub running_turns: usize,
    pub queued_commits: usize,
    pub open_executions: usize,
}

/// Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Engine {
    services: Arc<Services>,
}

struct Services {
    runtime: Arc<Runtime>,
    request_prefix: String,
    requests: AtomicU64,
    agents: Arc<Agents>,
    access: Arc<Access>,
    skills: Arc<Skills>,
    records: Arc<Records>,
    approvals: Arc<Approvals>,
    inbox: Arc<Inbox>,
    calls: Arc<Calls>,
    conversations: Arc<Conversations>,
    drafts: Arc<Drafts>,
    callbacks: Arc<Callbacks>,
    executions: Arc<Executions>,
    direct_messages: Arc<DirectMessages>,
    directory: Arc<Directory>,
    mailbox: Arc<Mailbox>,
    webhooks: Arc<Webhooks>,
    accounts: Arc<AgentAccounts>,
    relay: Arc<Relay>,
    people: Arc<People>,
    device_keys: Arc<DeviceKeys>,
    manifests: Arc<Manifests>,
    consent: Arc<Consent>,
}

impl Drop for Services {
    /// Ends the listeners of the services with the last handle of the engine.
    fn drop(&mut self) {
        self.runtime.closing.cancel();
    }
}

impl Engine {
    /// Creates an engine without agents.
    #[must_use]
    pub fn new(ports: Ports, limits: Limits, standing_grants: Vec<ConfiguredGrant>) -> Self {
        let Ports { store, bus, brains, runner, clock, entropy, vault, meter } = ports;
        let process = random_name(&*entropy, "proc_");
        let request_prefix = random_name(&*entropy, "req_")[..16].to_owned();
        let queue = ExecutionQueue::new(limits.executions.clone());
        let runtime = Arc::new(Runtime {
            store: Arc::clone(&store),
            bus,
            clock,
            entropy,
            vault,
            meter,
            limits,
            compute: ComputePool::default(),
            process,
            tasks: BackgroundTasks::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        let (index, locks) = (Arc::new(WebhookIndex::default()), Arc::new(AgentLocks::default()));
        let agents = Arc::new(Agents {
            runtime: Arc::clone(&runtime),
            runner: Arc::clone(&runner),
            brains,
            published: PublishedAgents::default(),
        });
        let access = Arc::new(Access {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            agents: Arc::clone(&agents),
            table: AccessTable::new(standing_grants),
            links: PersonLinks::default(),
            listening: Once::new(),
        });
        let skills = Arc::new(Skills {
            runtime: Arc::clone(&runtime),
            agents: Arc::clone(&agents),
            access: Arc::clone(&access),
        });
        let records =
            Arc::new(Records { runtime: Arc::clone(&runtime), store: Arc::clone(&store), access: Arc::clone(&access) });
        let approvals = Arc::new(Approvals { runtime: Arc::clone(&runtime), store: Arc::clone(&store) });
        let inbox = Arc::new(Inbox { runtime: Arc::clone(&runtime), store: Arc::clone(&store) });
        let calls = Arc::new(Calls {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            runner: Arc::clone(&runner),
            access: Arc::clone(&access),
            approvals: Arc::clone(&approvals),
            inbox: Arc::clone(&inbox),
            records: Arc::clone(&records),
        });
        let conversations = Arc::new(Conversations {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            agents: Arc::clone(&agents),
            calls: Arc::clone(&calls),
            approvals: Arc::clone(&approvals),
            records: Arc::clone(&records),
            live: LiveTurns::default(),
            recent: RecentConversations::default(),
        });
        let drafts = Arc::new(Drafts {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            conversations: Arc::clone(&conversations),
        });
        let callbacks =
            Arc::new(Callbacks { runtime: Arc::clone(&runtime), store: Arc::clone(&store), owed: Notify::new() });
        let executions = Arc::new(Executions {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            runner,
            agents: Arc::clone(&agents),
            skills: Arc::clone(&skills),
            calls: Arc::clone(&calls),
            conversations: Arc::clone(&conversations),
            inbox: Arc::clone(&inbox),
            callbacks: Arc::clone(&callbacks),
            queue,
        });
        let direct_messages = Arc::new(DirectMessages {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            conversations: Arc::clone(&conversations),
            answers: Notify::new(),
        });
        let directory = Arc::new(Directory { runtime: Arc::clone(&runtime), store: Arc::clone(&store) });
        let mailbox = Arc::new(Mailbox {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            waiters: MailWaiters::default(),
            index: Arc::clone(&index),
        });
        let webhooks = Arc::new(Webhooks {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            mailbox: Arc::clone(&mailbox),
            index,
            locks: Arc::clone(&locks),
        });
        let accounts = Arc::new(AgentAccounts {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            mailbox: Arc::clone(&mailbox),
            webhooks: Arc::clone(&webhooks),
            locks: Arc::clone(&locks),
        });
        let relay = Arc::new(Relay {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            accounts: Arc::clone(&accounts),
            mailbox: Arc::clone(&mailbox),
            tool_calls: ToolCallRates::default(),
            streams: StreamSubscribers::default(),
        });
        let people = Arc::new(People {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            mailbox: Arc::clone(&mailbox),
            relay: Arc::clone(&relay),
        });
        let device_keys = Arc::new(DeviceKeys {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            mailbox: Arc::clone(&mailbox),
            people: Arc::clone(&people),
            relay: Arc::clone(&relay),
        });
        let manifests = Arc::new(Manifests {
            runtime: Arc::clone(&runtime),
            store: Arc::clone(&store),
            access: Arc::clone(&access),
            accounts: Arc::clone(&accounts),
            mailbox: Arc::clone(&mailbox),
            locks: Arc::clone(&locks),
        });
        let consent = Arc::new(Consent {
            runtime: Arc::clone(&runtime),
            store,
            access: Arc::clone(&access),
            accounts: Arc::clone(&accounts),
            manifests: Arc::clone(&manifests),
            people: Arc::clone(&people),
            mailbox: Arc::clone(&mailbox),
            locks,
        });
        let services = Services {
            runtime,
            request_prefix,
            requests: AtomicU64::new(1),
            agents,
            access,
            skills,
            records,
            approvals,
            inbox,
            calls,
            conversations,
            drafts,
            callbacks,
            executions,
            direct_messages,
            directory,
            mailbox,
            webhooks,
            accounts,
            relay,
            people,
            device_keys,
            manifests,
            consent,
        };
        Self { services: Arc::new(services) }
    }

    /// Closes what the previous process left open. Called once, before anything is served.
    pub async fn recover(&self) -> Result<RecoveryReport, EngineError> {
        let lasting = self.services.drafts.lasting_approvals().await?;
        self.services.conversations.recover(&lasting).await
    }

    /// Stops accepting turns, lets running ones finish within `grace`, then ends them with an error. Returns when
    /// nothing runs any more.
    pub async fn shut_down(&self, grace: Duration) {
        self.runtime().closing.cancel();
        self.runtime().tasks.tracker().close();
        let deadline = self.clock().sleep_until(self.now().after(grace));
        tokio::select! {
            () = self.runtime().tasks.tracker().wait() => {}
            () = deadline => {
                self.runtime().closed.cancel();
                self.runtime().tasks.tracker().wait().await;
            }
        }
        self.services.agents.published.clear();
        self.runtime().tasks.tracker().wait().await;
    }

    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.runtime().closing.is_cancelled()
    }

    pub async fn until_closing(&self) {
        self.runtime().closing.cancelled().await;
    }

    #[must_use]
    pub fn load(&self) -> EngineLoad {
        EngineLoad {
            running_turns: self.services.conversations.live.count(),
            queued_commits: self.runtime().store.queued(),
            open_executions: self.services.executions.queue.open(),
        }
    }

    /// Checks that commits succeed.
    pub async fn check_writable(&self) -> Result<(), EngineError> {
        Ok(self.runtime().store.check_writable().await?)
    }

    /// Checks the whole store for damage.
    pub async fn check_store(&self) -> Result<StoreCheck, EngineError> {
        Ok(self.runtime().store.check().await?)
    }

    #[must_use]
    pub fn open_stream(&self) -> OpenStream {
        OpenStream::new(&self.runtime().meter)
    }

    /// Spawns a task that the server waits for before it stops.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime().tasks.spawn(work);
    }

    /// Spawns a task that the server does not wait for.
    pub fn spawn_untracked(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime().tasks.spawn_untracked(work);
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.runtime().now()
    }

    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.runtime().clock
    }

    #[must_use]
    pub fn new_request_id(&self) -> String {
        // Not a secret and needed by every request: a random prefix and a counter.
        let number = self.services.requests.fetch_add(1, Ordering::Relaxed);
        format!("{}_{number:x}", self.services.request_prefix)
    }

    #[must_use]
    pub fn agents(&self) -> &Arc<Agents> {
        &self.services.agents
    }

    #[must_use]
    pub fn access(&self) -> &Arc<Access> {
        &self.services.access
    }

    #[must_use]
    pub fn skills(&self) -> &Arc<Skills> {
        &self.services.skills
    }

    #[must_use]
    pub fn records(&self) -> &Arc<Records> {
        &self.services.records
    }

    #[must_use]
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.services.approvals
    }

    #[must_use]
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.services.inbox
    }

    #[must_use]
    pub fn calls(&self) -> &Arc<Calls> {
        &self.services.calls
    }

    #[must_use]
    pub fn conversations(&self) -> &Arc<Conversations> {
        &self.services.conversations
    }

    #[must_use]
    pub fn drafts(&self) -> &Arc<Drafts> {
        &self.services.drafts
    }

    #[must_use]
    pub fn callbacks(&self) -> &Arc<Callbacks> {
        &self.services.callbacks
    }

    #[must_use]
    pub fn executions(&self) -> &Arc<Executions> {
        &self.services.executions
    }

    #[must_use]
    pub fn direct_messages(&self) -> &Arc<DirectMessages> {
        &self.services.direct_messages
    }

    #[must_use]
    pub fn directory(&self) -> &Arc<Directory> {
        &self.services.directory
    }

    #[must_use]
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.services.mailbox
    }

    #[must_use]
    pub fn webhooks(&self) -> &Arc<Webhooks> {
        &self.services.webhooks
    }

    #[must_use]
    pub fn accounts(&self) -> &Arc<AgentAccounts> {
        &self.services.accounts
    }

    #[must_use]
    pub fn relay(&self) -> &Arc<Relay> {
        &self.services.relay
    }

    #[must_use]
    pub fn people(&self) -> &Arc<People> {
        &self.services.people
    }

    #[must_use]
    pub fn device_keys(&self) -> &Arc<DeviceKeys> {
        &self.services.device_keys
    }

    #[must_use]
    pub fn manifests(&self) -> &Arc<Manifests> {
        &self.services.manifests
    }

    #[must_use]
    pub fn consent(&self) -> &Arc<Consent> {
        &self.services.consent
    }

    fn runtime(&self) -> &Runtime {
        &self.services.runtime
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}
