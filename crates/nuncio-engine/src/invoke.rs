//! Skill executions: accepted, stored, acknowledged, then run by one process at a time until they end.
//!
//! `submit` accepts a request, `queue` selects the next execution, `run` takes it through the call chain, `maintenance`
//! times out and deletes old executions and adopts those of dead incarnations.

use crate::call::CallService;
use crate::call_failure::{cancelled, cancelled_unbegun};
use crate::context::EngineContext;
use crate::converse::ConversationService;
use crate::ports::Runner;
use crate::ports::store::{ClaimedJob, ExecutionStore};
use crate::publish::AgentService;
use crate::skills::SkillAccessService;
use nuncio_core::execution::Execution;
use nuncio_core::ids::ExecutionId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use std::sync::Arc;

use crate::access::Caller;
use crate::error::EngineError;
use crate::not_found;

mod agent;
mod maintenance;
mod queue;
mod run;
mod submit;

pub use crate::limits::ExecutionLimits;
pub(crate) use queue::ExecutionQueue;
use queue::LiveExecution;
pub use queue::QueueLimitReached;
pub use submit::{ExecutionRequest, ExecutionSubmitError, SubmittedExecution};

pub struct ExecutionService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn ExecutionStore>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) agents: Arc<AgentService>,
    pub(crate) skills: Arc<SkillAccessService>,
    pub(crate) calls: Arc<CallService>,
    pub(crate) conversations: Arc<ConversationService>,
    pub(crate) queue: ExecutionQueue,
}

impl ExecutionService {
    /// An execution that the caller may read: its own, and any of an anonymous or local owner whose id the caller
    /// knows. `local` and operators may read all.
    pub async fn execution(&self, caller: &Caller, id: &str) -> Result<Execution, EngineError> {
        let found = match ExecutionId::parse(id) {
            Ok(id) => match self.queue.find(&id) {
                Some(live) => Some(live.now()),
                None => self.store.execution(&id).await?,
            },
            Err(_) => None,
        };
        self.readable(caller, id, found)
    }

    /// The execution that a job of the kind [`JobKind::Callback`](crate::ports::store::JobKind::Callback) reports;
    /// `None` once it was deleted.
    pub async fn execution_of_callback(&self, job: &ClaimedJob) -> Result<Option<Execution>, EngineError> {
        match ExecutionId::parse(&job.job.key) {
            Ok(id) => Ok(self.store.execution(&id).await?),
            Err(_) => Ok(None),
        }
    }

    /// Like [`ExecutionService::execution`], but waits until the execution is over or until the time `until`.
    pub async fn execution_until(&self, caller: &Caller, id: &str, until: Timestamp) -> Result<Execution, EngineError> {
        let live = ExecutionId::parse(id).ok().and_then(|id| self.queue.find(&id));
        let Some(live) = live.filter(|live| may_read(caller, live.caller())) else {
            return self.execution(caller, id).await;
        };
        if live.is_over() {
            return self.readable(caller, id, Some(live.now()));
        }
        self.until_over(&live, until).await;
        Ok(live.now())
    }

    fn readable(&self, caller: &Caller, id: &str, found: Option<Execution>) -> Result<Execution, EngineError> {
        found
            .filter(|execution| may_read(caller, &execution.order.caller.principal))
            .filter(|execution| execution.kept_until().is_none_or(|until| until > self.context.now()))
            .ok_or_else(|| not_found::execution(id))
    }

    async fn until_over(&self, live: &LiveExecution, until: Timestamp) {
        tokio::select! {
            // The execution is polled first: a finished one needs no timer.
            biased;
            () = live.wait_until_over() => {}
            () = self.until_or_closing(until) => {}
        }
    }

    /// Waits until the time `until` or until the server stops.
    async fn until_or_closing(&self, until: Timestamp) {
        self.context.closing.run_until_cancelled(self.context.clock.sleep_until(until)).await;
    }

    /// Cancels an execution; one that is over stays as it is. One that waits is over when this returns; one that runs
    /// is told to stop and may still be running.
    pub async fn cancel_execution(&self, caller: &Caller, id: &str) -> Result<Execution, EngineError> {
        let execution = self.execution(caller, id).await?;
        let Some(live) = self.queue.find(&execution.id) else { return self.execution(caller, id).await };
        if self.queue.withdraw(&live) {
            let begun = execution.attempt > 0;
            let failure = if begun { cancelled() } else { cancelled_unbegun() };
            self.end_unbegun(&live, failure).await?;
        } else {
            live.cancel.cancel();
        }
        Ok(live.now())
    }
}

/// Whether the caller may read an execution of `owner`. For anonymous and local owners knowing the random id is enough.
fn may_read(caller: &Caller, owner: &Principal) -> bool {
    *owner == caller.principal
        || matches!(owner, Principal::Anonymous | Principal::Local)
        || matches!(caller.principal, Principal::Local | Principal::Operator)
}
