//! The engine: assembles the services from the ports.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use nuncio_core::ids::Incarnation;
use nuncio_core::time::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessControl, ConfiguredGrant, KeyAndGrantTable, PersonLinkTable};
use crate::accounts::{AgentAccountService, AgentLocks, NotificationService, NotificationWaiters};
use crate::accounts::{WebhookIndex, WebhookService};
use crate::approve::ApprovalService;
use crate::background::BackgroundTasks;
use crate::call::CallService;
use crate::compute::ComputePool;
use crate::consent::{ConsentService, ManifestService};
use crate::context::EngineContext;
use crate::converse::{ConversationCache, ConversationService, LiveTurns};
use crate::direct_messages::DirectMessageService;
use crate::directory::DirectoryService;
use crate::drafting::ProtocolDraftService;
use crate::error::EngineError;
use crate::invoke::{ExecutionQueue, ExecutionService};
use crate::jobs::JobService;
use crate::limits::EngineLimits;
use crate::nodes::NodeService;
use crate::people::DeviceKeyService;
use crate::people::PersonService;
use crate::ports::brain::BrainFactory;
use crate::ports::entropy::random_name;
use crate::ports::meter::OpenStreamGuard;
use crate::ports::store::{StoreCheckResult, StoreStatus};
use crate::ports::{Bus, Clock, Entropy, Meter, Runner, Store};
use crate::publish::{AgentService, PublishedAgents};
use crate::record::AuditChainService;
use crate::relay::{RelayService, StreamSubscribers, ToolCallRateLimiter};
use crate::secret_cipher::SecretCipher;
use crate::skills::SkillAccessService;
use crate::tasks::TaskInbox;

pub struct EnginePorts {
    pub store: Arc<dyn Store>,
    pub bus: Arc<dyn Bus>,
    pub brains: Arc<dyn BrainFactory>,
    pub runner: Arc<dyn Runner>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub cipher: SecretCipher,
    pub meter: Arc<dyn Meter>,
}

/// Current load of the engine, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineLoad {
    pub running_turns: usize,
    pub queued_commits: usize,
    pub open_executions: usize,
}

/// Entry point to all services of the engine. Cheap to clone; clones share one state.
#[derive(Clone)]
pub struct Engine {
    services: Arc<EngineServices>,
}

macro_rules! services {
    ($($name:ident: $service:ident),* $(,)?) => {
        struct EngineServices {
            context: Arc<EngineContext>,
            request_prefix: String,
            requests: AtomicU64,
            $($name: Arc<$service>,)*
        }

        impl Engine {
            $(#[must_use]
            pub fn $name(&self) -> &Arc<$service> {
                &self.services.$name
            })*
        }
    };
}

services! {
    agents: AgentService,
    access: AccessControl,
    skills: SkillAccessService,
    records: AuditChainService,
    approvals: ApprovalService,
    inbox: TaskInbox,
    calls: CallService,
    conversations: ConversationService,
    drafts: ProtocolDraftService,
    jobs: JobService,
    executions: ExecutionService,
    direct_messages: DirectMessageService,
    directory: DirectoryService,
    mailbox: NotificationService,
    webhooks: WebhookService,
    accounts: AgentAccountService,
    relay: RelayService,
    people: PersonService,
    device_keys: DeviceKeyService,
    manifests: ManifestService,
    consent: ConsentService,
    nodes: NodeService,
}

impl Drop for EngineServices {
    /// Stops the bus listeners of the services when the last clone of the engine is dropped.
    fn drop(&mut self) {
        self.context.closing.cancel();
    }
}

impl Engine {
    /// Creates an engine without agents.
    #[must_use]
    pub fn new(ports: EnginePorts, limits: EngineLimits, standing_grants: Vec<ConfiguredGrant>) -> Self {
        let EnginePorts { store, bus, brains, runner, clock, entropy, cipher, meter } = ports;
        let incarnation = Incarnation::parse(&random_name(&*entropy, "node_")).expect("a random name is plain");
        let request_prefix = random_name(&*entropy, "req_")[..16].to_owned();
        let context = Arc::new(EngineContext {
            store: store.clone(),
            bus,
            clock,
            entropy,
            cipher,
            meter,
            limits,
            compute: ComputePool::default(),
            incarnation,
            signatures_since: AtomicI64::new(i64::MIN),
            tasks: BackgroundTasks::new(),
            jobs_changed: Notify::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        /// Creates a service struct: first the fields that clone local variables of the same names, then the others.
        macro_rules! service {
            ($service:ident { $($shared:ident),* $(; $($field:ident: $value:expr),*)? }) => {
                Arc::new($service { $($shared: $shared.clone(),)* $($($field: $value,)*)? })
            };
        }
        let (index, locks) = (Arc::new(WebhookIndex::default()), Arc::new(AgentLocks::default()));
        let agents = service!(AgentService { context, runner, brains; published: PublishedAgents::default() });
        let access = service!(AccessControl {
            context, store, agents;
            relation_store: store.clone(),
            table: KeyAndGrantTable::new(standing_grants),
            links: PersonLinkTable::default(),
            listening: Once::new()
        });
        let skills = service!(SkillAccessService { context, agents, access });
        let records = service!(AuditChainService { context, store, access });
        let approvals = service!(ApprovalService { context, store });
        let inbox = service!(TaskInbox { context, store });
        let calls = service!(CallService { context, runner, access, approvals, inbox, records });
        let conversations = service!(ConversationService {
            context, store, agents, calls, records;
            call_store: store.clone(),
            live: LiveTurns::default(),
            recent: ConversationCache::new(context.limits.conversation_cache)
        });
        let drafts = service!(ProtocolDraftService { context, store, conversations; approval_store: store.clone() });
        let jobs = service!(JobService { context, store });
        let executions = service!(ExecutionService {
            context, store, runner, agents, skills, calls, conversations;
            queue: ExecutionQueue::new(context.limits.executions.clone())
        });
        let direct_messages = service!(DirectMessageService { context, store, jobs, conversations });
        let directory = service!(DirectoryService { context, store });
        let mailbox = service!(NotificationService { context, store, index; waiters: NotificationWaiters::default() });
        let webhooks = service!(WebhookService {
            context, store, jobs, mailbox, index, locks;
            account_store: store.clone(),
            relay_store: store.clone()
        });
        let accounts = service!(AgentAccountService { context, store, mailbox, webhooks, locks });
        let relay = service!(RelayService {
            context, store, accounts, mailbox;
            person_store: store.clone(),
            relation_store: store.clone(),
            webhook_store: store.clone(),
            tool_calls: ToolCallRateLimiter::default(),
            streams: StreamSubscribers::default()
        });
        let people = service!(PersonService { context, store, mailbox, relay });
        let device_keys = service!(DeviceKeyService {
            context, store, mailbox, people, relay;
            account_store: store.clone(),
            person_store: store.clone(),
            relation_store: store.clone()
        });
        let manifests = service!(ManifestService {
            context, store, access, accounts, mailbox, locks;
            relation_store: store.clone()
        });
        let consent = service!(ConsentService {
            context, store, access, accounts, manifests, people, mailbox, locks;
            account_store: store.clone(),
            person_store: store.clone()
        });
        let nodes = service!(NodeService { context, store, conversations, approvals, inbox, executions });
        let services = EngineServices {
            context,
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
            jobs,
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
            nodes,
        };
        Self { services: Arc::new(services) }
    }

    /// Counts the tool calls that were relayed in the last minute. Called once, before requests are served.
    pub async fn load_recent_calls(&self) -> Result<(), EngineError> {
        self.services.relay.load_recent_calls().await
    }

    /// Stops accepting turns, lets running ones finish within `grace`, then ends them with an error. Returns when
    /// nothing runs any more.
    pub async fn shut_down(&self, grace: Duration) {
        self.context().closing.cancel();
        self.context().tasks.tracker.close();
        let deadline = self.clock().sleep_until(self.now().after(grace));
        tokio::select! {
            biased;
            () = self.context().tasks.tracker.wait() => {}
            () = deadline => {
                self.context().closed.cancel();
                self.context().tasks.tracker.wait().await;
            }
        }
        self.services.agents.published.clear();
        self.context().tasks.tracker.wait().await;
    }

    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.context().closing.is_cancelled()
    }

    pub async fn until_closing(&self) {
        self.context().closing.cancelled().await;
    }

    #[must_use]
    pub fn load(&self) -> EngineLoad {
        EngineLoad {
            running_turns: self.services.conversations.live.count(),
            queued_commits: self.context().store.queued(),
            open_executions: self.services.executions.queue.open(),
        }
    }

    /// Checks that the store accepts commits.
    pub async fn check_writable(&self) -> Result<(), EngineError> {
        Ok(self.context().store.check_writable().await?)
    }

    /// Checks the whole store for damage.
    pub async fn store_status(&self) -> Result<StoreStatus, EngineError> {
        Ok(self.context().store.status().await?)
    }

    pub async fn check_store(&self) -> Result<StoreCheckResult, EngineError> {
        Ok(self.context().store.check().await?)
    }

    #[must_use]
    pub fn open_stream(&self) -> OpenStreamGuard {
        OpenStreamGuard::new(&self.context().meter)
    }

    /// Spawns a task that the server waits for before it stops.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.context().tasks.spawn(work);
    }

    /// Spawns a task that the server does not wait for.
    pub fn spawn_untracked(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.context().tasks.spawn_untracked(work);
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.context().now()
    }

    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.context().clock
    }

    /// Encrypts a text that a caller stores and sends back. It opens only for the same `purpose`, on every node with the
    /// same secret key.
    #[must_use]
    pub fn seal_for(&self, purpose: &str, text: &str) -> String {
        self.context().seal(purpose, text)
    }

    /// Decrypts a text of [`Self::seal_for`]; `None` if it was changed or sealed for another purpose.
    #[must_use]
    pub fn open_sealed(&self, purpose: &str, sealed: &str) -> Option<String> {
        self.context().cipher.open(purpose, sealed)
    }

    #[must_use]
    pub fn new_request_id(&self) -> String {
        // A request id is not secret and every request needs one, so a random prefix and a counter suffice.
        let number = self.services.requests.fetch_add(1, Ordering::Relaxed);
        format!("{}_{number:x}", self.services.request_prefix)
    }

    pub(crate) fn context(&self) -> &EngineContext {
        &self.services.context
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}
