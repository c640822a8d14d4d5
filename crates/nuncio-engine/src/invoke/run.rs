//! Runs queued executions through the call chain until they end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nuncio_core::ErrorCode;
use nuncio_core::backoff::Backoff;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionFailure, ExecutionState, InvocationTarget};
use nuncio_core::ids::ToolName;
use nuncio_core::time::Timestamp;
use tracing::Instrument as _;

use super::queue::{LiveExecution, ends};
use crate::call::{ClientDecision, PendingExecutionInsert, ToolCallOutcome, ToolCallRequest};
use crate::call_failure::cancelled;
use crate::context::CommitResultExt as _;
use crate::error::EngineError;
use crate::invoke::ExecutionService;
use crate::ports::store::{Conflict, ExecutionAttempt, ExecutionChange, ResultTarget};
use crate::skills::PublishedSkill;

/// Maximum number of program starts when the server crashes repeatedly. Attempts interrupted before the program started
/// do not count; the deadline bounds them.
pub(super) const MAX_ATTEMPTS: u32 = 3;

enum ExecutionAttemptEnd {
    /// The execution ended and is stored.
    Over(ExecutionState, Timestamp),
    /// The backend is unavailable; retry after this delay.
    Again(Duration),
    /// Another process took the execution over, or this process stops.
    Left,
}

impl ExecutionService {
    /// Runs these executions, the first in the current task, and then those that wait for a slot it frees.
    pub(super) fn run_queued(self: &Arc<Self>, ready: Vec<Arc<LiveExecution>>) -> BoxFuture<'static, ()> {
        let executions = Arc::clone(self);
        Box::pin(async move {
            let mut ready = VecDeque::from(ready);
            while let Some(live) = ready.pop_front() {
                for other in ready.drain(..) {
                    executions.context.tasks.spawn(executions.run_queued(vec![other]));
                }
                ready.extend(executions.run_one(&live, None).await);
            }
        })
    }

    /// Runs one execution to its end, storing it first if necessary; returns the executions that can run afterwards.
    pub(super) async fn run_one(
        &self,
        live: &Arc<LiveExecution>,
        pending_insert: Option<&PendingExecutionInsert>,
    ) -> Vec<Arc<LiveExecution>> {
        let order = live.order();
        let (trace, traceparent) = (order.trace.trace_id.as_deref(), order.trace.traceparent.as_deref());
        let span = tracing::info_span!("execution", id = %live.id, skill = %order.skill, trace_id = trace, traceparent);
        async {
            let mut failures = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(30)).start();
            loop {
                match self.attempt(live, pending_insert).await {
                    Ok(ExecutionAttemptEnd::Over(state, at)) => {
                        live.update(|execution| ends(execution, state, at));
                        break;
                    }
                    Ok(ExecutionAttemptEnd::Left) => break,
                    Ok(ExecutionAttemptEnd::Again(after)) => self.pause(live, after).await,
                    // The submitter received the error.
                    Err(_) if pending_insert.is_some_and(PendingExecutionInsert::is_refused) => break,
                    Err(error) => {
                        tracing::error!(%error, "an attempt could not be stored; it is tried again");
                        // Applies to cancelled and late executions too, whose end must be stored as well.
                        self.until_or_closing(self.context.now().after(failures.next_delay())).await;
                    }
                }
                if self.context.is_closing() {
                    break;
                }
            }
            live.read(|over| {
                if over.state.is_over() {
                    self.context.meter.execution_ended(over);
                    log_end(over);
                }
            });
        }
        .instrument(span)
        .await;
        self.queue.leave(live)
    }

    async fn pause(&self, live: &LiveExecution, span: Duration) {
        let until = live.order().deadline().min(self.context.now().after(span));
        live.cancel.run_until_cancelled(self.until_or_closing(until)).await;
    }

    async fn attempt(
        &self,
        live: &LiveExecution,
        pending_insert: Option<&PendingExecutionInsert>,
    ) -> Result<ExecutionAttemptEnd, EngineError> {
        let execution = live.now();
        if live.cancel.is_cancelled() {
            return match self.context.closed.is_cancelled() {
                true => Ok(ExecutionAttemptEnd::Left),
                false => self.give_up(pending_insert, &execution, cancelled()).await,
            };
        }
        let deadline = execution.order.deadline();
        if self.context.now() >= deadline {
            return self.give_up(pending_insert, &execution, late(&execution)).await;
        }
        if self.context.is_closing() {
            return Ok(ExecutionAttemptEnd::Left);
        }
        let Some(offered) = live.offered.as_deref().filter(|offered| offered.target() == execution.order.target) else {
            let message = format!("the skill {} is no longer offered here", execution.order.skill);
            return self
                .give_up(pending_insert, &execution, ExecutionFailure { code: ErrorCode::SkillNotFound, message })
                .await;
        };
        match &execution.order.target {
            InvocationTarget::Tool(tool) => self.run_tool(live, pending_insert, &execution, offered, tool).await,
            InvocationTarget::Agent => {
                self.calls.ensure_committed(pending_insert).await?;
                // Boxed, so that other attempts' futures stay small.
                Box::pin(self.run_agent(live, &execution, offered)).await
            }
        }
    }

    async fn run_tool(
        &self,
        live: &LiveExecution,
        pending_insert: Option<&PendingExecutionInsert>,
        execution: &Execution,
        offered: &PublishedSkill,
        tool: &ToolName,
    ) -> Result<ExecutionAttemptEnd, EngineError> {
        let caller = &execution.order.caller;
        let attempt = execution.attempt + 1;
        let retry = offered.skill().retry;
        let may_retry = retry.is_some_and(|retry| attempt < retry.max_attempts);
        let stored_attempt = ExecutionAttempt { may_retry, ..last_attempt(execution, attempt) };
        let on_start = |at| mark_running(live, at);
        let called = self
            .calls
            .call(ToolCallRequest {
                caller,
                protocol: execution.order.protocol,
                published: &offered.served,
                id: execution.call_id(attempt),
                tool: tool.clone(),
                arguments: execution.order.inputs.clone(),
                offered: true,
                client: ClientDecision::NotAsked,
                turn: None,
                target: Some(ResultTarget::Execution(stored_attempt)),
                pending_insert,
                trace: &execution.order.trace,
                on_start: Some(&on_start),
                deadline: execution.order.deadline(),
                cancel: &live.cancel,
            })
            .await;
        let ended = match called {
            Ok(ToolCallOutcome::Ended(ended)) => ended,
            Ok(ToolCallOutcome::AskClient) => {
                return Err(EngineError::new(ErrorCode::Internal, "an execution has no app to ask"));
            }
            Err(error) if matches!(error.code, ErrorCode::LeaseLost | ErrorCode::ShuttingDown) => {
                return Ok(ExecutionAttemptEnd::Left);
            }
            Err(error) => return Err(error),
        };
        Ok(match ended.end {
            Some(state) => ExecutionAttemptEnd::Over(state, ended.at),
            None if self.context.closed.is_cancelled() => ExecutionAttemptEnd::Left,
            None => {
                let first = retry.map_or(Duration::from_secs(1), |retry| retry.backoff);
                ExecutionAttemptEnd::Again(Backoff::doubling(first, Duration::MAX).after(attempt))
            }
        })
    }

    async fn run_agent(
        &self,
        live: &LiveExecution,
        execution: &Execution,
        offered: &PublishedSkill,
    ) -> Result<ExecutionAttemptEnd, EngineError> {
        let caller = &execution.order.caller;
        let attempt = execution.attempt + 1;
        let at = self.context.now();
        let (id, owner) = (execution.id.clone(), self.context.incarnation.clone());
        let references = nuncio_core::audit::AuditReferences::default();
        let authorization = CallAuthorization { at, by: Vec::new(), scope: None, started: false, references };
        let start = ExecutionChange::Start { id, owner, attempt, at, call: Some(authorization) };
        if !self.context.commit_one(start).await.made_unless(Conflict::OwnerChanged)? {
            return Ok(ExecutionAttemptEnd::Left);
        }
        mark_running(live, at);
        let answer = self.ask_agent(live, execution, offered, caller).await;
        if self.context.is_closing() && !matches!(answer, Ok(Ok(_))) {
            return Ok(ExecutionAttemptEnd::Left);
        }
        let state = match answer {
            Ok(Ok(output)) => ExecutionState::Completed { output },
            Ok(Err(failure)) => ExecutionState::of_failure(failure),
            Err(error) if error.code == ErrorCode::StoreUnavailable => return Err(error),
            Err(error) => ExecutionState::of_failure(ExecutionFailure { code: error.code, message: error.message }),
        };
        self.end_execution(&live.now(), state).await
    }

    async fn give_up(
        &self,
        pending_insert: Option<&PendingExecutionInsert>,
        execution: &Execution,
        failure: ExecutionFailure,
    ) -> Result<ExecutionAttemptEnd, EngineError> {
        self.calls.ensure_committed(pending_insert).await?;
        self.end_execution(execution, ExecutionState::of_failure(failure)).await
    }

    async fn end_execution(
        &self,
        execution: &Execution,
        state: ExecutionState,
    ) -> Result<ExecutionAttemptEnd, EngineError> {
        let at = self.context.now();
        let attempt = last_attempt(execution, execution.attempt);
        let changes = self.calls.end_of_execution(&attempt, execution.attempt, state.clone(), at);
        let made = self.context.commit(changes).await.made_unless(Conflict::OwnerChanged)?;
        Ok(if made { ExecutionAttemptEnd::Over(state, at) } else { ExecutionAttemptEnd::Left })
    }

    /// Ends an execution that was removed from the queue before it began.
    pub(super) async fn end_unbegun(&self, live: &LiveExecution, failure: ExecutionFailure) -> Result<(), EngineError> {
        let ended = self.give_up(None, &live.now(), failure).await;
        if let Ok(ExecutionAttemptEnd::Over(state, at)) = &ended {
            live.update(|execution| ends(execution, state.clone(), *at));
            self.context.meter.execution_ended(&live.now());
        }
        self.queue.forget(live);
        ended.map(|_| ())
    }
}

/// The last attempt of an execution: no retry follows.
fn last_attempt(execution: &Execution, attempt: u32) -> ExecutionAttempt {
    ExecutionAttempt {
        execution: execution.id.clone(),
        attempt,
        may_retry: false,
        keep_ms: execution.order.keep_ms,
        callback_receiver: execution.order.callback.as_ref().map(|url| url.origin().ascii_serialization()),
    }
}

/// Marks in memory that an attempt began.
fn mark_running(live: &LiveExecution, at: Timestamp) {
    live.update(|execution| {
        if let Err(illegal) = execution.begin(at) {
            tracing::error!(id = %execution.id, %illegal, "an execution that had ended was started again");
        }
    });
}

/// Logs the end of an execution; successful ends only at debug level.
fn log_end(execution: &Execution) {
    let (state, attempt) = (execution.state.as_str(), execution.attempt);
    match &execution.state {
        ExecutionState::Failed { failure } | ExecutionState::TimedOut { failure } => {
            tracing::info!(state, attempt, why = failure.code.as_str(), "execution ended");
        }
        _ => tracing::debug!(state, attempt, "execution ended"),
    }
}

pub(super) fn late(execution: &Execution) -> ExecutionFailure {
    let message = format!("it did not finish within {} ms", execution.order.timeout_ms);
    ExecutionFailure { code: ErrorCode::ToolTimeout, message }
}
