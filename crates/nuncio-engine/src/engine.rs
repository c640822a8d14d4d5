//! The engine: the ports, the limits and what is held in memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nuncio_core::drafting::DraftingPolicy;
use nuncio_core::time::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessTable, Links, StandingGrant};
use crate::background::BackgroundTasks;
use crate::compute::ComputePool;
use crate::consent::{AgentLocks, ConsentRules, Mailrooms};
use crate::converse::{LiveTurns, Recent};
use crate::error::EngineError;
use crate::invoke::{ExecutionLimits, Queue};
use crate::ports::brain::Brains;
use crate::ports::entropy::random_name;
use crate::ports::meter::OpenStream;
use crate::ports::store::StoreCheck;
use crate::ports::{Bus, Clock, Entropy, Meter, Runner, Store};
use crate::publish::ServedAgents;
use crate::relay::{Called, RelayRules, Streams, ToolCallRates};
use crate::vault::Vault;

/// What the engine stands on.
pub struct Ports {
    /// What is kept.
    pub store: Arc<dyn Store>,
    /// Who wakes whom.
    pub bus: Arc<dyn Bus>,
    /// What thinks.
    pub brains: Arc<dyn Brains>,
    /// Where tools run.
    pub runner: Arc<dyn Runner>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Secrets at rest.
    pub vault: Vault,
    /// Who counts.
    pub meter: Arc<dyn Meter>,
}

/// How much of everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// How long one turn may take.
    pub turn: Duration,
    /// How often one turn may ask its brain.
    pub steps: u32,
    /// How long an approval waits for an answer.
    pub approval: Duration,
    /// How many calls of one tool run at once.
    pub calls_per_tool: usize,
    /// How many bytes one caller may store.
    pub bytes_per_caller: u64,
    /// How many executions.
    pub executions: ExecutionLimits,
    /// What people, their agents and what is between them follow.
    pub consent: ConsentRules,
    /// How much is relayed, and for how long it is kept.
    pub relay: RelayRules,
    /// Whether agents make up protocols.
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

/// How much is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Turns that run in this process.
    pub running_turns: usize,
    /// Commits that wait for the store.
    pub queued_commits: usize,
    /// Executions that are not over.
    pub open_executions: usize,
}

/// The engine. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    ports: Ports,
    limits: Limits,
    access: AccessTable,
    links: Links,
    agents: ServedAgents,
    live: LiveTurns,
    recent: Recent,
    queue: Queue,
    agent_locks: AgentLocks,
    mailrooms: Mailrooms,
    tool_calls: ToolCallRates,
    called: Called,
    streams: Streams,
    compute: ComputePool,
    /// Told when someone is owed a callback.
    owed: Notify,
    /// Told when an agent has answered a message.
    answers: Notify,
    /// Names this process where it holds something.
    process: String,
    tasks: BackgroundTasks,
    request_prefix: String,
    requests: AtomicU64,
    /// Set when the server stops: no new turns.
    closing: CancellationToken,
    /// Set when waiting for running turns is over.
    closed: CancellationToken,
}

impl Engine {
    /// An engine that serves no agent yet.
    #[must_use]
    pub fn new(ports: Ports, limits: Limits, standing_grants: Vec<StandingGrant>) -> Self {
        let inner = Inner {
            request_prefix: random_name(&*ports.entropy, "req_")[..16].to_owned(),
            requests: AtomicU64::new(1),
            access: AccessTable::new(standing_grants),
            links: Links::default(),
            agents: ServedAgents::default(),
            live: LiveTurns::default(),
            recent: Recent::default(),
            queue: Queue::new(limits.executions.clone()),
            agent_locks: AgentLocks::default(),
            mailrooms: Mailrooms::default(),
            tool_calls: ToolCallRates::default(),
            called: Called::default(),
            streams: Streams::default(),
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

    /// Stops taking turns, lets those that run finish until `grace` is over, then ends them with
    /// an error that says so. Returns when nothing runs any more.
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

    /// Whether the server is stopping.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.inner.closing.is_cancelled()
    }

    /// Waits until the server is stopping.
    pub async fn until_closing(&self) {
        self.inner.closing.cancelled().await;
    }

    /// How much is going on at this moment.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            running_turns: self.inner.live.count(),
            queued_commits: self.store().queued(),
            open_executions: self.queue().open(),
        }
    }

    /// Whether what callers send can be stored.
    ///
    /// # Errors
    /// Commits fail.
    pub async fn check_writable(&self) -> Result<(), EngineError> {
        Ok(self.store().check_writable().await?)
    }

    /// Looks for damage in the whole store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn check_store(&self) -> Result<StoreCheck, EngineError> {
        Ok(self.store().check().await?)
    }

    /// Counts a stream as open until the guard is dropped.
    #[must_use]
    pub fn open_stream(&self) -> OpenStream {
        OpenStream::new(&self.inner.ports.meter)
    }

    /// Runs something that belongs to the engine's work: the server does not stop before it is over.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(work);
    }

    /// Runs something that ends with its connection: the server does not wait for it when it stops.
    pub fn spawn_untracked(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn_untracked(work);
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.ports.clock.now()
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.ports.clock
    }

    /// A fresh id for a request.
    #[must_use]
    pub fn new_request_id(&self) -> String {
        // Not a secret, and asked for by every request: random once, counted from then on.
        let number = self.inner.requests.fetch_add(1, Ordering::Relaxed);
        format!("{}_{number:x}", self.inner.request_prefix)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.ports.store
    }

    pub(crate) fn bus(&self) -> &dyn Bus {
        &*self.inner.ports.bus
    }

    pub(crate) fn brains(&self) -> &dyn Brains {
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

    pub(crate) fn person_links(&self) -> &Links {
        &self.inner.links
    }

    pub(crate) fn served(&self) -> &ServedAgents {
        &self.inner.agents
    }

    pub(crate) fn live(&self) -> &LiveTurns {
        &self.inner.live
    }

    pub(crate) fn recent(&self) -> &Recent {
        &self.inner.recent
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.inner.queue
    }

    pub(crate) fn agent_locks(&self) -> &AgentLocks {
        &self.inner.agent_locks
    }

    pub(crate) fn compute(&self) -> &ComputePool {
        &self.inner.compute
    }

    pub(crate) fn mailrooms(&self) -> &Mailrooms {
        &self.inner.mailrooms
    }

    pub(crate) fn tool_calls(&self) -> &ToolCallRates {
        &self.inner.tool_calls
    }

    pub(crate) fn called(&self) -> &Called {
        &self.inner.called
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.inner.streams
    }

    pub(crate) fn owed(&self) -> &Notify {
        &self.inner.owed
    }

    pub(crate) fn answers(&self) -> &Notify {
        &self.inner.answers
    }

    /// The name of this process where it holds something.
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
