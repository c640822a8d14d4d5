//! The engine: ports, limits and in-memory state.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nuncio_core::time::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessTable, ConfiguredGrant, PersonLinks};
use crate::background::BackgroundTasks;
use crate::compute::ComputePool;
use crate::consent::{AgentLocks, ConsentRules, MailWaiters};
use crate::converse::{LiveTurns, RecentConversations};
use crate::drafting::DraftingPolicy;
use crate::error::EngineError;
use crate::invoke::{ExecutionLimits, ExecutionQueue};
use crate::ports::brain::BrainFactory;
use crate::ports::entropy::random_name;
use crate::ports::meter::OpenStream;
use crate::ports::store::StoreCheck;
use crate::ports::{Bus, Clock, Entropy, Meter, Runner, Store};
use crate::publish::PublishedAgents;
use crate::relay::{RelayRules, StreamSubscribers, ToolCallRates, WebhookIndex};
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
    inner: Arc<Inner>,
}

struct Inner {
    ports: Ports,
    limits: Limits,
    access: AccessTable,
    links: PersonLinks,
    agents: PublishedAgents,
    live: LiveTurns,
    recent: RecentConversations,
    queue: ExecutionQueue,
    agent_locks: AgentLocks,
    mail_waiters: MailWaiters,
    tool_calls: ToolCallRates,
    webhook_index: WebhookIndex,
    streams: StreamSubscribers,
    compute: ComputePool,
    /// Notified when an execution with a callback ends.
    owed: Notify,
    /// Notified when an agent answered a direct message.
    answers: Notify,
    /// Random name of this process, as owner of execution leases.
    process: String,
    tasks: BackgroundTasks,
    request_prefix: String,
    requests: AtomicU64,
    /// Cancelled when the server stops; no new turns begin.
    closing: CancellationToken,
    /// Cancelled when the grace period of running turns ends.
    closed: CancellationToken,
}

impl Engine {
    /// Creates an engine without agents.
    #[must_use]
    pub fn new(ports: Ports, limits: Limits, standing_grants: Vec<ConfiguredGrant>) -> Self {
        let inner = Inner {
            request_prefix: random_name(&*ports.entropy, "req_")[..16].to_owned(),
            requests: AtomicU64::new(1),
            access: AccessTable::new(standing_grants),
            links: PersonLinks::default(),
            agents: PublishedAgents::default(),
            live: LiveTurns::default(),
            recent: RecentConversations::default(),
            queue: ExecutionQueue::new(limits.executions.clone()),
            agent_locks: AgentLocks::default(),
            mail_waiters: MailWaiters::default(),
            tool_calls: ToolCallRates::default(),
            webhook_index: WebhookIndex::default(),
            streams: StreamSubscribers::default(),
            compute: ComputePool::default(),
            owed: Notify::new(),
            answers: Notify::new(),
            process: random_name(&*ports.entropy, "proc_"),
            tasks: BackgroundTasks::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            ports,
            limits,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Stops accepting turns, lets running ones finish within `grace`, then ends them with an error. Returns when
    /// nothing runs any more.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.closing.cancel();
        self.inner.tasks.tracker().close();
        let deadline = self.clock().sleep_until(self.now().after(grace));
        tokio::select! {
            () = self.inner.tasks.tracker().wait() => {}
            () = deadline => {
                self.inner.closed.cancel();
                self.inner.tasks.tracker().wait().await;
            }
        }
        self.served().clear();
        self.inner.tasks.tracker().wait().await;
    }

    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.inner.closing.is_cancelled()
    }

    pub async fn until_closing(&self) {
        self.inner.closing.cancelled().await;
    }

    #[must_use]
    pub fn load(&self) -> EngineLoad {
        EngineLoad {
            running_turns: self.inner.live.count(),
            queued_commits: self.store().queued(),
            open_executions: self.queue().open(),
        }
    }

    /// Checks that commits succeed.
    pub async fn check_writable(&self) -> Result<(), EngineError> {
        Ok(self.store().check_writable().await?)
    }

    /// Checks the whole store for damage.
    pub async fn check_store(&self) -> Result<StoreCheck, EngineError> {
        Ok(self.store().check().await?)
    }

    #[must_use]
    pub fn open_stream(&self) -> OpenStream {
        OpenStream::new(&self.inner.ports.meter)
    }

    /// Spawns a task that the server waits for before it stops.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(work);
    }

    /// Spawns a task that the server does not wait for.
    pub fn spawn_untracked(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn_untracked(work);
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.ports.clock.now()
    }

    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.ports.clock
    }

    #[must_use]
    pub fn new_request_id(&self) -> String {
        // Not a secret and needed by every request: a random prefix and a counter.
        let number = self.inner.requests.fetch_add(1, Ordering::Relaxed);
        format!("{}_{number:x}", self.inner.request_prefix)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.ports.store
    }

    pub(crate) fn bus(&self) -> &dyn Bus {
        &*self.inner.ports.bus
    }

    pub(crate) fn brains(&self) -> &dyn BrainFactory {
        &*self.inner.ports.brains
    }

    pub(crate) fn runner(&self) -> &Arc<dyn Runner> {
        &self.inner.ports.runner
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.inner.ports.entropy
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.inner.ports.vault
    }

    pub(crate) fn meter(&self) -> &dyn Meter {
        &*self.inner.ports.meter
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn access_table(&self) -> &AccessTable {
        &self.inner.access
    }

    pub(crate) fn person_links(&self) -> &PersonLinks {
        &self.inner.links
    }

    pub(crate) fn served(&self) -> &PublishedAgents {
        &self.inner.agents
    }

    pub(crate) fn live(&self) -> &LiveTurns {
        &self.inner.live
    }

    pub(crate) fn recent(&self) -> &RecentConversations {
        &self.inner.recent
    }

    pub(crate) fn queue(&self) -> &ExecutionQueue {
        &self.inner.queue
    }

    pub(crate) fn agent_locks(&self) -> &AgentLocks {
        &self.inner.agent_locks
    }

    pub(crate) fn compute(&self) -> &ComputePool {
        &self.inner.compute
    }

    pub(crate) fn mail_waiters(&self) -> &MailWaiters {
        &self.inner.mail_waiters
    }

    pub(crate) fn tool_calls(&self) -> &ToolCallRates {
        &self.inner.tool_calls
    }

    pub(crate) fn webhook_index(&self) -> &WebhookIndex {
        &self.inner.webhook_index
    }

    pub(crate) fn streams(&self) -> &StreamSubscribers {
        &self.inner.streams
    }

    pub(crate) fn owed(&self) -> &Notify {
        &self.inner.owed
    }

    pub(crate) fn answers(&self) -> &Notify {
        &self.inner.answers
    }

    /// Random name of this process, as owner of execution leases.
    pub(crate) fn process(&self) -> &str {
        &self.inner.process
    }

    pub(crate) fn tasks(&self) -> &BackgroundTasks {
        &self.inner.tasks
    }

    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.inner.closing
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.inner.closed
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}
