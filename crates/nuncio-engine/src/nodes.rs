//! Nodes: the processes that use the store. Each registers its incarnation; the unfinished work of a dead one is ended
//! or continued by the others, in a loop over what is stored.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::ids::Incarnation;

use crate::approve::ApprovalService;
use crate::context::EngineContext;
use crate::converse::ConversationService;
use crate::error::EngineError;
use crate::invoke::ExecutionService;
use crate::ports::store::{
    Conflict, JobChange, JobKind, JobSelection, NodeChange, NodeRecord, NodeState, NodeStore, StoreError,
};
use crate::tasks::TaskInbox;

/// Interval at which a node renews its lease, which is five times as long.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);

/// Interval between searches for the work of dead nodes.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(6);

/// Time for which a dead node is listed after its start.
const NODE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Whether other processes may use the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreSharing {
    /// This process holds the lock of the data directory, so all earlier incarnations are dead.
    Exclusive,
    /// Other processes may open the store, but only one node at a time may serve it: it renews a lease, and a second one
    /// is refused.
    OneNode,
    Shared,
}

/// Numbers of what was adopted from dead incarnations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdoptedWorkReport {
    /// Number of running turns that were ended as interrupted.
    pub turns: usize,
    /// Number of started calls that were ended as interrupted.
    pub calls: usize,
    /// Number of pending approvals that were expired.
    pub approvals: usize,
    /// Number of unfinished executions that this node runs from now on.
    pub executions: usize,
}

/// Service that registers this node and adopts the work of dead ones.
pub struct NodeService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn NodeStore>,
    pub(crate) conversations: Arc<ConversationService>,
    pub(crate) approvals: Arc<ApprovalService>,
    pub(crate) inbox: Arc<TaskInbox>,
    pub(crate) executions: Arc<ExecutionService>,
}

impl NodeService {
    /// The incarnation that owns what this process runs.
    #[must_use]
    pub fn incarnation(&self) -> &Incarnation {
        &self.context.incarnation
    }

    /// Registers this incarnation. Its commits are refused from the moment it is declared dead. `previous` is an earlier
    /// incarnation of this node, which cannot run any more.
    pub async fn join(
        &self,
        host: &str,
        version: &str,
        sharing: StoreSharing,
        previous: Option<Incarnation>,
    ) -> Result<(), EngineError> {
        let now = self.context.now();
        let node = NodeRecord {
            incarnation: self.context.incarnation.clone(),
            host: host.to_owned(),
            version: version.to_owned(),
            started_at: now,
            state: NodeState::Alive,
        };
        let mut changes = vec![NodeChange::Forget(now.before(NODE_RETENTION)).into()];
        changes.extend(previous.map(|previous| NodeChange::DeclareDead(previous).into()));
        if sharing != StoreSharing::Shared {
            // The turns of earlier processes end, so the replies need not wait for them.
            let (kind, jobs) = (JobKind::Reply, JobSelection::All);
            changes.push(JobChange::Hasten { kind, jobs, due: now }.into());
        }
        match sharing {
            StoreSharing::Exclusive => {
                changes.extend([NodeChange::DeclareAllDead.into(), NodeChange::Join(node).into()]);
            }
            StoreSharing::OneNode => changes.push(NodeChange::JoinAlone(node).into()),
            StoreSharing::Shared => changes.push(NodeChange::Join(node).into()),
        }
        match self.context.commit(changes).await {
            Err(StoreError::Conflict(Conflict::OtherNodeAlive)) => return Err(self.other_node().await?),
            other => other?,
        }
        self.context.store.fence(&self.context.incarnation);
        if sharing == StoreSharing::OneNode {
            let heartbeat = heartbeat(Arc::clone(&self.context));
            self.context.tasks.spawn(heartbeat);
        }
        Ok(())
    }

    /// Why this process may not serve the store, or run a command on it, while another node is alive.
    async fn other_node(&self) -> Result<EngineError, StoreError> {
        let other = self.store.nodes().await?.into_iter().rfind(|node| node.state == NodeState::Alive);
        let Some(other) = other else {
            return Ok(EngineError::new(ErrorCode::StoreInUse, "another node was using the store; try again"));
        };
        let until = self.store.lease_end(&other.incarnation).await?;
        let until =
            until.map_or_else(String::new, |until| format!(", whose lease ends at {until} unless it is renewed"));
        let message = format!(
            "a server on {}, started at {}, uses this store{until}; stop it, or wait until its lease has ended: several \
             nodes on one store are not supported yet",
            other.host, other.started_at
        );
        Ok(EngineError::new(ErrorCode::StoreInUse, message))
    }

    /// Fails while a node with a lease uses the store: it would not see what another process changes. `previous` is an
    /// earlier incarnation of this node, which cannot run any more.
    pub async fn refuse_other_nodes(&self, previous: Option<&Incarnation>) -> Result<(), EngineError> {
        for node in self.store.nodes().await? {
            let is_own = node.incarnation == self.context.incarnation || Some(&node.incarnation) == previous;
            if !is_own
                && node.state == NodeState::Alive
                && self.store.lease_end(&node.incarnation).await?.is_some_and(|until| until > self.context.now())
            {
                return Err(self.other_node().await?);
            }
        }
        Ok(())
    }

    /// Ends this incarnation, so that the next node need not wait for its lease.
    pub async fn leave(&self) -> Result<(), EngineError> {
        self.declare_dead(&self.context.incarnation).await
    }

    /// All nodes that are not forgotten, in the order of their start.
    pub async fn nodes(&self) -> Result<Vec<NodeRecord>, EngineError> {
        Ok(self.store.nodes().await?)
    }

    /// Declares an incarnation dead. Its work is adopted by the other nodes.
    pub async fn declare_dead(&self, incarnation: &Incarnation) -> Result<(), EngineError> {
        Ok(self.context.commit_one(NodeChange::DeclareDead(incarnation.clone())).await?)
    }

    /// Ends or continues the unfinished work of all dead incarnations. A failure leaves the rest for the next time.
    pub async fn adopt_orphans(&self) -> Result<AdoptedWorkReport, EngineError> {
        let mut report = AdoptedWorkReport::default();
        for owner in self.store.orphaned_owners().await? {
            // This process works for itself even if it is not registered.
            if owner == self.context.incarnation {
                continue;
            }
            let (turns, calls) = self.conversations.close_work_of(&owner).await?;
            report.turns += turns;
            report.calls += calls;
            report.approvals += self.approvals.close_approvals_of(&owner).await?;
            self.inbox.withdraw_tasks_of(&owner).await?;
            report.executions += self.executions.adopt_executions(&owner).await?;
            self.context.commit_one(JobChange::Release(owner)).await?;
        }
        Ok(report)
    }

    /// Starts the watch over the deadlines of executions, and the loop that adopts the work of dead incarnations.
    pub fn start(self: &Arc<Self>) {
        self.executions.watch_deadlines();
        let nodes = Arc::clone(self);
        self.context.tasks.spawn(async move { nodes.adoption_loop().await });
    }

    async fn adoption_loop(&self) {
        loop {
            let pause = self.context.clock.sleep_until(self.context.now().after(ADOPTION_INTERVAL));
            if self.context.closing.run_until_cancelled(pause).await.is_none() {
                return;
            }
            match self.adopt_orphans().await {
                Ok(report) if report == AdoptedWorkReport::default() => {}
                Ok(report) => tracing::warn!(?report, "adopted the work of a node that died"),
                Err(error) => tracing::error!(%error, "the work of a dead node could not be adopted; it is retried"),
            }
        }
    }
}

/// Renews the lease until this node ends.
async fn heartbeat(context: Arc<EngineContext>) {
    loop {
        let pause = context.clock.sleep_until(context.now().after(HEARTBEAT_INTERVAL));
        if context.closing.run_until_cancelled(pause).await.is_none() {
            return;
        }
        match context.commit_one(NodeChange::RenewLease(context.incarnation.clone())).await {
            Ok(()) => {}
            Err(StoreError::Fenced) => {
                tracing::error!("{}", StoreError::Fenced);
                return;
            }
            Err(error) => tracing::warn!(%error, "the lease of this node could not be renewed; it is tried again"),
        }
    }
}
