//! Maintenance of executions: times out those of this node, deletes old ones, and continues those that a dead incarnation
//! left.

use std::sync::Arc;

use futures_util::future::join_all;
use nuncio_core::ErrorCode;
use nuncio_core::execution::{Execution, ExecutionFailure, InvocationTarget};
use nuncio_core::ids::Incarnation;
use nuncio_core::time::Timestamp;

use super::queue::LiveExecution;
use super::run::{MAX_ATTEMPTS, late};
use crate::context::CommitResultExt as _;
use crate::error::EngineError;
use crate::invoke::ExecutionService;
use crate::ports::store::{Conflict, ExecutionChange, StoreError};

/// Maximum number of executions continued at once, or deleted per commit.
const AT_ONCE: usize = 500;

impl ExecutionService {
    pub(crate) fn watch_deadlines(self: &Arc<Self>) {
        let executions = Arc::clone(self);
        self.context.tasks.spawn(async move { executions.deadline_loop().await });
    }

    /// Continues the unfinished executions of a dead incarnation, after ending the programs that it left on this
    /// machine. Returns their number, without those that another node continues.
    pub(crate) async fn adopt_executions(self: &Arc<Self>, from: &Incarnation) -> Result<usize, EngineError> {
        let left = self.store.unfinished_executions(from).await?;
        let begun: Vec<_> = left.iter().filter(|left| left.attempt > 0).map(|left| left.id.clone()).collect();
        if !begun.is_empty() {
            self.runner.end_leftovers(&begun).await;
        }
        let mut adopted = 0;
        for some in left.chunks(AT_ONCE) {
            let claims = some.iter().map(|execution| self.claim(execution, from));
            for (execution, claimed) in some.iter().zip(join_all(claims).await) {
                if claimed? {
                    adopted += 1;
                    self.resume_execution(execution.clone()).await?;
                }
            }
        }
        Ok(adopted)
    }

    /// Makes this incarnation the owner of an execution, unless another node was first.
    async fn claim(&self, execution: &Execution, from: &Incarnation) -> Result<bool, StoreError> {
        let (id, attempt) = (execution.id.clone(), execution.attempt);
        let (from, to) = (from.clone(), self.context.incarnation.clone());
        let claim = ExecutionChange::Claim { id, attempt, from, to };
        self.context.commit_one(claim).await.made_unless(Conflict::OwnerChanged)
    }

    async fn resume_execution(self: &Arc<Self>, execution: Execution) -> Result<(), EngineError> {
        let order = &execution.order;
        if order.target == InvocationTarget::Agent && execution.attempt > 0 {
            self.delete_left_conversation(&execution).await?;
        }
        let offered = self.agents.published.skill(order.skill.as_str());
        // Retries configured in the agent file are not interruptions.
        let retry = offered.as_ref().and_then(|offered| offered.skill().retry);
        let most = retry.map_or(MAX_ATTEMPTS, |retry| retry.max_attempts.max(MAX_ATTEMPTS));
        let started = execution.attempt.saturating_sub(execution.unstarted);
        if started >= most && !offered.as_ref().is_some_and(|offered| offered.is_for_people()) {
            let message = format!("it was started {most} times and interrupted the last time, and is not tried again");
            let live = LiveExecution::new(execution, offered, &self.context.closed);
            return self.end_unbegun(&live, ExecutionFailure { code: ErrorCode::Interrupted, message }).await;
        }
        self.queue.reserve_accepted(&order.caller.principal, &order.skill);
        let live = LiveExecution::new(execution, offered, &self.context.closed);
        self.context.tasks.spawn(self.run_queued(self.queue.enter(&live)));
        Ok(())
    }

    async fn deadline_loop(&self) {
        loop {
            for live in self.queue.expired(self.context.now()) {
                let failure = late(&live.now());
                if let Err(error) = self.end_unbegun(&live, failure).await {
                    tracing::error!(%error, "the end of an execution could not be stored; the next start retries it");
                }
            }
            let next = self.queue.next_deadline().unwrap_or(Timestamp::LAST);
            tokio::select! {
                biased;
                () = self.context.clock.sleep_until(next) => {}
                () = self.queue.entered.notified() => {}
                () = self.context.closing.cancelled() => return,
            }
        }
    }

    /// Deletes expired executions in batches, so that other commits wait only briefly.
    pub(crate) async fn forget_executions(&self, now: Timestamp) -> Result<(), EngineError> {
        while self.store.is_any_execution_to_forget(now).await? {
            self.context.commit_one(ExecutionChange::Forget { at: now, limit: AT_ONCE }).await?;
        }
        Ok(())
    }
}
