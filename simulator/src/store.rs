//! The store of a simulated node: `SqliteStore` behind the scheduler.
//!
//! The store works with threads of its own. Each call is therefore run to its end on the simulating thread, so that
//! nothing else happens meanwhile and the order of events depends on the scheduler alone.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::account::{AccountOwner, AgentAccount, PublishedManifest};
use nuncio_core::approval::Approval;
use nuncio_core::audit::{AuditChainHead, AuditChainId, StoredAuditLink};
use nuncio_core::bundle::{KeyBundle, KeyBundleId, OneTimeKey};
use nuncio_core::conversation::{Conversation, ConversationMessage, MessageRef, ToolCallClaim};
use nuncio_core::digest::Digest;

use nuncio_core::execution::{CallAuthorization, Execution};
use nuncio_core::grant::Grant;
use nuncio_core::ids::{
    AgentId, AgentName, ApprovalId, CallId, ClientMessageId, ConversationId, DeviceId, DraftId, ExecutionId,
    Incarnation, PersonName, RelationId, SessionId, SkillId, TaskId,
};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::notification::{QueuedNotification, RelayParty};
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::principal::Principal;
use nuncio_core::relation::Relation;
use nuncio_core::session::Session;
use nuncio_core::task::HumanTask;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::Turn;
use nuncio_engine::directory::DirectoryListing;
use nuncio_engine::drafting::ProtocolDraft;
use nuncio_engine::follow::{FollowedDomain, ServerOrigin};
use nuncio_engine::ports::store::relay::{MemberConversation, Webhook, WebhookDelivery, WebhookDeliveryLogEntry};
use nuncio_engine::ports::store::*;
use nuncio_judge::name_history::ManifestNameHistory;
use nuncio_store::SqliteStore;
use tokio::sync::{Notify, watch};

use crate::observer::Observer;
use crate::sabotage::StoreSabotage;
use crate::scheduler::{PortCallFate, PossiblePortFaults, Scheduler};

pub(crate) struct SimulatedStore {
    inner: SqliteStore,
    scheduler: Scheduler,
    node: usize,
    observer: Arc<Observer>,
    sabotage: Option<StoreSabotage>,
    /// Whether the outcome of a commit was lost, after which this node must not commit again.
    is_lost: AtomicBool,
    lost: Arc<Notify>,
}

impl SimulatedStore {
    pub(crate) fn open(
        path: &Path,
        scheduler: &Scheduler,
        node: usize,
        observer: Arc<Observer>,
        lost: Arc<Notify>,
        sabotage: Option<StoreSabotage>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            inner: SqliteStore::open(path)?,
            scheduler: scheduler.clone(),
            node,
            observer,
            sabotage,
            is_lost: AtomicBool::new(false),
            lost,
        })
    }

    async fn read<T>(&self, name: &str, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let label = format!("reads {name}");
        match self.scheduler.call(self.node, label, PossiblePortFaults::Before).await {
            PortCallFate::Succeeds => run_to_end(read),
            PortCallFate::FailsBefore | PortCallFate::FailsAfter => Err(unavailable()),
        }
    }

    /// Reports what was written, and loses the outcome if that is its fate.
    fn after_write<T>(
        &self,
        fate: PortCallFate,
        changes: &[Change],
        outcome: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &outcome {
            Ok(_) => self.observer.committed(self.node, changes),
            Err(error) => self.scheduler.note(format!("node {} failed: {error}", self.node)),
        }
        if fate == PortCallFate::FailsAfter {
            if self.sabotage != Some(StoreSabotage::UntrueFailures) {
                // The port allows `Unavailable` for a stored commit only if this incarnation never commits again.
                self.is_lost.store(true, Ordering::Relaxed);
                self.lost.notify_one();
            }
            return Err(unavailable());
        }
        outcome
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("simulated fault".to_owned())
}

macro_rules! delegated {
    ($($store:ident { $($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)* })*) => {
        $(#[async_trait]
        impl $store for SimulatedStore {
            $(async fn $name(&self, $($argument: $kind),*) -> Result<$result, StoreError> {
                // The arguments tell apart calls of the same name, whose order of arrival may depend on more than the seed.
                let arguments: &[String] = &[$(format!("{:?}", $argument)),*];
                let call = format!("{}({})", stringify!($name), arguments.join(", "));
                self.read(&call, self.inner.$name($($argument),*)).await
            })*
        })*
    };
}

delegated! {
    AccessStore {
        keys() -> Vec<ApiKey>;
        grants() -> Vec<Grant>;
        links() -> Vec<PersonLink>;
    }
    ApprovalStore {
        approval(id: &ApprovalId) -> Option<Approval>;
        pending_approvals() -> Vec<Approval>;
        pending_approvals_of(node: &Incarnation) -> Vec<Approval>;
    }
    CallStore {
        started_calls(node: &Incarnation) -> Vec<StartedCall>;
        begun_calls(node: &Incarnation) -> Vec<(Execution, CallAuthorization)>;
    }
    PersonStore {
        person(name: &PersonName) -> Option<Person>;
        people() -> Vec<Person>;
        invite(code: &Digest) -> Option<Invite>;
        invites(person: &PersonName) -> Vec<Invite>;
        device(id: &DeviceId) -> Option<Device>;
        devices(person: &PersonName) -> Vec<Device>;
    }
    AgentAccountStore {
        account(id: &AgentId) -> Option<AgentAccount>;
        account_by_token(token: &Digest) -> Option<AgentAccount>;
        accounts_of(owner: &AccountOwner, after: Option<&AgentId>, limit: usize) -> Vec<AgentAccount>;
        public_accounts(words: &[String], after: Option<&AgentId>, limit: usize) -> Vec<AgentAccount>;
        name_history(agent: &AgentId) -> Option<ManifestNameHistory>;
        manifest(agent: &AgentId, version: u64) -> Option<PublishedManifest>;
        manifests(agent: &AgentId, before: u64, limit: usize) -> Vec<PublishedManifest>;
    }
    RelationStore {
        relation(id: &RelationId) -> Option<Relation>;
        relation_between(person: &PersonName, agent: &AgentId) -> Option<Relation>;
        relations_of(person: &PersonName, after: Option<&RelationId>, limit: usize) -> Vec<Relation>;
        relations_with(agent: &AgentId, after: Option<&PersonName>, limit: usize) -> Vec<Relation>;
        active_relations(agent: Option<&AgentId>) -> Vec<Relation>;
        ledger(relation: &RelationId, after: u64, limit: usize) -> Vec<LedgerEntry>;
    }
    NotificationStore {
        mail(recipient: &RelayParty, after: u64, limit: usize) -> Vec<QueuedNotification>;
        mail_head(recipient: &RelayParty) -> u64;
        mail_read(recipient: &RelayParty, reader: &str) -> u64;
        is_any_mail_before(time: Timestamp) -> bool;
    }
    DirectMessageStore {
        pending_reply(id: &str) -> Option<PendingReply>;
        direct_message(agent: &AgentName, id: &str) -> Option<SentDirectMessage>;
    }
    AgentDirectoryStore {
        followed() -> Vec<FollowedDomain>;
        followed_domain(domain: &ServerOrigin) -> Option<(FollowedDomain, Option<String>)>;
        directory() -> Vec<(DirectoryListing, String)>;
    }
    ProtocolDraftStore {
        draft(id: &DraftId) -> Option<ProtocolDraft>;
        draft_by_key(with: &Principal, agent: &AgentName, key: &str) -> Option<ProtocolDraft>;
        open_drafts(limit: usize) -> Vec<ProtocolDraft>;
    }
    ExecutionStore {
        execution(id: &ExecutionId) -> Option<Execution>;
        execution_by_key(caller: &Principal, skill: &SkillId, key: &str) -> Option<(ExecutionId, Digest)>;
        unfinished_executions(owner: &Incarnation) -> Vec<Execution>;
        is_any_execution_to_forget(at: Timestamp) -> bool;
    }
    RelayStore {
        member_view(id: &ConversationId, member: &RelayParty)
            -> Option<MemberConversation>;
        conversation_of_pair(pair: &str) -> Option<Conversation>;
        conversations_of(member: &RelayParty, after: Option<&ConversationId>, limit: usize)
            -> Vec<MemberConversation>;
        relayed(place: &MessageRef) -> Option<ConversationMessage>;
        relayed_by_client_id(conversation: &ConversationId, sender: &RelayParty, client_id: &ClientMessageId)
            -> Option<ConversationMessage>;
        relayed_after(conversation: &ConversationId, after: u64, limit: usize) -> Vec<ConversationMessage>;
        claim(place: &MessageRef) -> Option<ToolCallClaim>;
        tool_calls_since(time: Timestamp) -> Vec<(AgentId, Timestamp)>;
        is_any_relayed_before(time: Timestamp) -> bool;
    }
    KeyBundleStore {
        bundle(id: &KeyBundleId) -> Option<KeyBundle>;
        bundles(owner: &RelayParty) -> Vec<KeyBundle>;
        bundle_owners(device: &DeviceId, limit: usize) -> Vec<RelayParty>;
        one_time_key(id: &KeyBundleId) -> Option<OneTimeKey>;
        one_time_keys_left(id: &KeyBundleId) -> usize;
        backup(person: &PersonName) -> Option<(String, Timestamp)>;
    }
    WebhookStore {
        webhook(agent: &AgentId) -> Option<Webhook>;
        webhooks() -> Vec<Webhook>;
        first_delivery(agent: &AgentId) -> Option<WebhookDelivery>;
        delivery_log(agent: &AgentId, before: u64, limit: usize)
            -> Vec<WebhookDeliveryLogEntry>;
        is_any_delivery_logged_before(time: Timestamp) -> bool;
    }
    MessageStore {
        messages(session: &SessionId, from: u64) -> Vec<EncodedMessage>;
        messages_before(session: &SessionId, before: u64, limit: usize) -> Vec<EncodedMessage>;
        system_messages(session: &SessionId, before: u64) -> Vec<EncodedMessage>;
    }
    SessionStore {
        session(id: &SessionId) -> Option<Session>;
        sessions(owner: &Principal, after: Option<&SessionCursor>, limit: usize) -> Vec<Session>;
        turn(session: &SessionId, number: u64) -> Option<Turn>;
        turn_events(session: &SessionId, number: u64) -> Option<Vec<u8>>;
        idle_sessions(before: Timestamp, limit: usize) -> Vec<SessionId>;
        running_turns(node: &Incarnation) -> Vec<Turn>;
        idempotency_record(owner: &Principal, request: &str, key: &str) -> Option<IdempotencyRecord>;
    }
    TaskStore {
        task(id: &TaskId) -> Option<HumanTask>;
        open_tasks(limit: usize) -> Vec<HumanTask>;
        open_tasks_of(node: &Incarnation) -> Vec<HumanTask>;
    }
}

#[async_trait]
impl AuditStore for SimulatedStore {
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        self.read("audit_links", self.inner.audit_links(after, limit)).await
    }

    async fn audit_chain_links(
        &self,
        chain: AuditChainId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredAuditLink>, StoreError> {
        self.read("audit_chain_links", self.inner.audit_chain_links(chain, after, limit)).await
    }

    async fn audit_link(&self, chain: AuditChainId, seq: u64) -> Result<Option<StoredAuditLink>, StoreError> {
        self.read("audit_link", self.inner.audit_link(chain, seq)).await
    }

    async fn audit_links_before(&self, before: u64, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        self.read("audit_links_before", self.inner.audit_links_before(before, limit)).await
    }

    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<StoredAuditLink>, StoreError> {
        self.read("audit_links_of", self.inner.audit_links_of(call, limit)).await
    }

    async fn audit_heads(&self) -> Result<Vec<AuditChainHead>, StoreError> {
        self.read("audit_heads", self.inner.audit_heads()).await
    }

    fn audit_growth(&self) -> watch::Receiver<u64> {
        self.inner.audit_growth()
    }

    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<RedactedLedgerEntry>, StoreError> {
        self.read("erased_ledger", self.inner.erased_ledger(relation)).await
    }
}

#[async_trait]
impl StoreInfoStore for SimulatedStore {
    async fn store_info(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.read("store_info", self.inner.store_info()).await
    }
}

#[async_trait]
impl SealedValueStore for SimulatedStore {
    async fn sealed_values(
        &self,
        column: SealedColumn,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, String)>, StoreError> {
        self.read("sealed_values", self.inner.sealed_values(column, after, limit)).await
    }
}

#[async_trait]
impl KeyringStore for SimulatedStore {
    async fn keyring_entry(&self, name: &str) -> Result<Option<KeyringEntry>, StoreError> {
        self.read("keyring_entry", self.inner.keyring_entry(name)).await
    }

    async fn keyring(&self) -> Result<Vec<KeyringEntry>, StoreError> {
        self.read("keyring", self.inner.keyring()).await
    }
}

#[async_trait]
impl NodeStore for SimulatedStore {
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        self.read("nodes", self.inner.nodes()).await
    }

    async fn lease_end(&self, incarnation: &Incarnation) -> Result<Option<Timestamp>, StoreError> {
        self.read("lease_end", self.inner.lease_end(incarnation)).await
    }

    async fn orphaned_owners(&self) -> Result<Vec<Incarnation>, StoreError> {
        let owners = self.read("orphaned_owners", self.inner.orphaned_owners()).await?;
        Ok(match self.sabotage {
            Some(StoreSabotage::NoAdoption) => Vec::new(),
            Some(StoreSabotage::AdoptsTheLiving) => {
                run_to_end(self.inner.nodes())?.into_iter().map(|node| node.incarnation).collect()
            }
            _ => owners,
        })
    }
}

#[async_trait]
impl JobStore for SimulatedStore {
    async fn claim_jobs(&self, mut request: JobClaimRequest) -> Result<Vec<ClaimedJob>, StoreError> {
        let label = format!("claims jobs of the kind {}", request.kind);
        let fate = self.scheduler.call(self.node, label, PossiblePortFaults::BeforeOrAfter).await;
        if self.is_lost.load(Ordering::Relaxed) {
            return Err(StoreError::Fenced);
        }
        if fate == PortCallFate::FailsBefore {
            return Err(unavailable());
        }
        let until = request.now.after(request.lasts);
        if self.sabotage == Some(StoreSabotage::IgnoresClaims) {
            // All claims have expired by then, this one included.
            request.now = request.now.after(Duration::from_secs(3600));
            request.lasts = Duration::ZERO;
        }
        let claimed = run_to_end(self.inner.claim_jobs(request));
        if let Ok(claimed) = &claimed {
            self.observer.claimed(claimed, until);
        }
        self.after_write(fate, &[], claimed)
    }

    async fn job_times(&self, kinds: &[JobKind], now: Timestamp) -> Result<Vec<JobTimes>, StoreError> {
        let mut times = self.read("job_times", self.inner.job_times(kinds, now)).await?;
        if self.sabotage == Some(StoreSabotage::IgnoresClaims) {
            times.iter_mut().for_each(|times| times.is_due = true);
        }
        Ok(times)
    }

    async fn next_jobs(&self, kind: JobKind, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.read("next_jobs", self.inner.next_jobs(kind, limit)).await
    }
}

#[async_trait]
impl Store for SimulatedStore {
    async fn commit(&self, mut changes: Vec<Change>) -> Result<(), StoreError> {
        let names: Vec<_> = changes.iter().map(name_of).collect();
        let digest = Digest::of_bytes(format!("{changes:?}").as_bytes()).to_string();
        let label = format!("commits {} ({})", names.join(", "), &digest[digest.len() - 8..]);
        let fate = self.scheduler.call(self.node, label, PossiblePortFaults::BeforeOrAfter).await;
        if self.is_lost.load(Ordering::Relaxed) {
            return Err(StoreError::Fenced);
        }
        match (self.sabotage, fate) {
            (Some(StoreSabotage::LosesCommits), PortCallFate::FailsBefore) => return Ok(()),
            (_, PortCallFate::FailsBefore) => return Err(unavailable()),
            (Some(StoreSabotage::ForgetsKeys), _) => changes.iter_mut().for_each(forget_key),
            _ => {}
        }
        let outcome = run_to_end(self.inner.commit(changes.clone()));
        self.after_write(fate, &changes, outcome)
    }

    fn fence(&self, incarnation: &Incarnation) {
        if self.sabotage != Some(StoreSabotage::NoFence) {
            self.inner.fence(incarnation);
        }
    }

    async fn bytes_stored(&self, owner: &Principal) -> Result<u64, StoreError> {
        self.read("bytes_stored", self.inner.bytes_stored(owner)).await
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.read("check_writable", self.inner.check_writable()).await
    }

    async fn check(&self) -> Result<StoreCheckResult, StoreError> {
        self.read("check", self.inner.check()).await
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        self.read("status", self.inner.status()).await
    }

    async fn compact(&self) -> Result<(), StoreError> {
        self.read("compact", self.inner.compact()).await
    }
}

impl fmt::Debug for SimulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedStore").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Removes the idempotency key of a new execution.
fn forget_key(change: &mut Change) {
    if let Change::Execution(ExecutionChange::Create { idempotency, .. }) = change {
        *idempotency = None;
    }
}

/// Subject and kind of a change, such as `Execution(End`, from the start of its debug output.
fn name_of(change: &Change) -> String {
    /// Keeps the beginning and then fails, so that the rest is not formatted.
    struct TextPrefixWriter(String);

    impl fmt::Write for TextPrefixWriter {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            self.0.push_str(piece);
            if self.0.len() > 40 { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut beginning = TextPrefixWriter(String::new());
    let _ = write!(beginning, "{change:?}");
    let (subject, rest) = beginning.0.split_once('(').unwrap_or((&beginning.0, ""));
    let kind: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    format!("{subject}::{kind}")
}

/// Runs a future to its end on this thread. Only futures that wait for other threads may be run, not for tasks.
pub(crate) fn run_to_end<T>(future: impl Future<Output = T>) -> T {
    struct UnparkWaker(Thread);

    impl Wake for UnparkWaker {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(UnparkWaker(thread::current())));
    // Without the budget of a task, which would never be renewed here.
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}
