//! Maintenance of executions: renews leases, times out and deletes old executions, and resumes those that a stopped
//! process left.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::execution::{Execution, ExecutionFailure, ExecutionLease, InvocationTarget};
use nuncio_core::time::Timestamp;

use super::queue::LiveExecution;
use super::run::{MAX_ATTEMPTS, late};
use super::submit::LEASE_DURATION;
use crate::error::EngineError;
use crate::invoke::ExecutionService;
use crate::ports::store::ExecutionChange;

/// Interval between deletions of old executions.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Maximum number of executions resumed or deleted per commit.
const AT_ONCE: usize = 500;

impl ExecutionService {
    /// Resumes the unfinished executions of the previous process, after ending the programs that it left, and starts
    /// the maintenance loop. Called once, when agents are served. Returns the number resumed.
    pub async fn resume_executions(self: &Arc<Self>) -> Result<usize, EngineError> {
        let left = self.store.unfinished_executions().await?;
        let resumed = left.len();
        // Only one process uses a data directory, so the previous lease holder is gone.
        let begun = left.iter().filter(|(execution, _)| execution.attempt > 0);
        let begun: Vec<_> = begun.map(|(execution, _)| execution.id.clone()).collect();
        if !begun.is_empty() {
            self.runner.end_leftovers(&begun).await;
        }
        for some in left.chunks(AT_ONCE) {
            let claim = |(execution, held): &(Execution, ExecutionLease)| {
                ExecutionChange::Claim {
                    id: execution.id.clone(),
                    attempt: execution.attempt,
                    from: held.owner.clone(),
                    lease: self.lease(),
                }
                .into()
            };
            self.context.commit(some.iter().map(claim).collect()).await?;
            for (execution, _) in some {
                self.resume_execution(execution.clone()).await?;
            }
        }
        self.inbox.withdraw_stale_tasks().await?;
        let executions = Arc::clone(self);
        self.context.tasks.spawn(async move { executions.maintenance_loop().await });
        Ok(resumed)
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
            return self.end_unbegun(&live, ExecutionFailure { code: Code::Interrupted, message }).await;
        }
        self.queue.reserve_accepted(&order.caller.principal, &order.skill);
        let live = LiveExecution::new(execution, offered, &self.context.closed);
        self.context.tasks.spawn(self.run_queued(self.queue.enter(&live)));
        Ok(())
    }

    async fn maintenance_loop(&self) {
        let mut renew = self.context.now().after(LEASE_DURATION / 3);
        let mut forget = self.context.now();
        loop {
            let now = self.context.now();
            for live in self.queue.expired(now) {
                let failure = late(&live.now());
                if let Err(error) = self.end_unbegun(&live, failure).await {
                    tracing::error!(%error, "the end of an execution could not be stored; the next start retries it");
                }
            }
            if now >= renew {
                renew = now.after(LEASE_DURATION / 3);
                if self.queue.open() > 0
                    && let Err(error) = self.context.commit_one(ExecutionChange::RenewLeases(self.lease())).await
                {
                    tracing::error!(%error, "execution maintenance failed");
                }
            }
            if now >= forget {
                forget = now.after(FORGET_EVERY);
                if let Err(error) = self.forget_executions(now).await {
                    tracing::error!(%error, "execution maintenance failed");
                }
            }
            let next = self.queue.next_deadline().unwrap_or(Timestamp::LAST).min(renew).min(forget);
            tokio::select! {
                () = self.context.clock.sleep_until(next) => {}
                () = self.queue.entered.notified() => {}
                () = self.context.closing.cancelled() => return,
            }
        }
    }

    /// Deletes expired executions in batches, so that other commits wait only briefly.
    pub(super) async fn forget_executions(&self, now: Timestamp) -> Result<(), EngineError> {
        while self.store.is_any_execution_to_forget(now).await? {
            self.context.commit_one(ExecutionChange::Forget { at: now, limit: AT_ONCE }).await?;
        }
        Ok(())
    }
}
