//! Running what is next, through the call chain, until it is over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nuncio_core::Code;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionFailure, ExecutionState, InvocationTarget};
use nuncio_core::ids::{ExecutionId, ToolName};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use tracing::Instrument as _;

use super::entry::Entry;
use super::queue::{Live, ends};
use crate::Engine;
use crate::access::{Caller, Credential};
use crate::call::{Call, Called, ClientSays};
use crate::error::EngineError;
use crate::ports::runner::ToolOutput;
use crate::ports::store::{Callback, Change, Conflict, ExecutionPlace, Place, StoreError};
use crate::skills::Offered;

/// How often the program of an execution is started at most when the server dies under it. Attempts that
/// were interrupted before their program started do not count; the execution's deadline bounds them.
pub(super) const MAX_ATTEMPTS: u32 = 3;

/// How an attempt came out.
enum Attempt {
    /// The execution is over, and on disk.
    Over(ExecutionState, Timestamp),
    /// What it runs on cannot be reached; it may be tried again after so long.
    Again(Duration),
    /// It is another process's now, or this one stops.
    Left,
}

/// The state an attempt leads to; none if another attempt follows.
pub(crate) fn ending(
    place: &ExecutionPlace,
    result: &Result<ToolOutput, ExecutionFailure>,
    late: bool,
    stops: bool,
) -> Option<ExecutionState> {
    match result {
        Ok(output) => {
            let output = output.structured.clone().unwrap_or_else(|| output.value());
            Some(ExecutionState::Completed { output })
        }
        // Stopped by us, not by whoever asked for it: it is taken up again.
        Err(failure) if stops && failure.code == Code::Cancelled => None,
        Err(failure) if place.may_retry && failure.code == Code::ToolUnavailable => None,
        // Its time was up before anyone let it begin.
        Err(failure) if late && matches!(failure.code, Code::ApprovalExpired | Code::ToolBusy) => {
            Some(ExecutionState::TimedOut { failure: failure.clone() })
        }
        Err(failure) => Some(ExecutionState::of_failure(failure.clone())),
    }
}

impl Engine {
    /// Runs these, the first in the very task that awaits, and then whatever can run because of it.
    pub(super) fn run_here(&self, ready: Vec<Arc<Live>>) -> BoxFuture<'static, ()> {
        let engine = self.clone();
        Box::pin(async move {
            let mut ready = VecDeque::from(ready);
            while let Some(live) = ready.pop_front() {
                for other in ready.drain(..) {
                    engine.tasks().spawn(engine.run_here(vec![other]));
                }
                ready.extend(engine.run_one(&live, None).await);
            }
        })
    }

    /// Runs one to its end, and puts it on disk first if it is not there; those returned can run now that
    /// it is over.
    pub(super) async fn run_one(&self, live: &Arc<Live>, entry: Option<&Entry>) -> Vec<Arc<Live>> {
        let order = live.order();
        let (trace, traceparent) = (order.trace.trace_id.as_deref(), order.trace.traceparent.as_deref());
        let span = tracing::info_span!("execution", id = %live.id, skill = %order.skill, trace_id = trace, traceparent);
        async {
            let mut pause = Duration::from_millis(100);
            loop {
                match self.attempt(live, entry).await {
                    Ok(Attempt::Over(state, at)) => {
                        live.show(|execution| ends(execution, state, at));
                        break;
                    }
                    Ok(Attempt::Left) => break,
                    Ok(Attempt::Again(after)) => self.pause(live, after).await,
                    // Whoever asked was told.
                    Err(_) if entry.is_some_and(Entry::is_refused) => break,
                    Err(error) => {
                        tracing::error!(%error, "an attempt could not be kept on disk; it is tried again");
                        // Also for one that is cancelled or late: that has to be on disk as well.
                        tokio::select! {
                            () = self.clock().sleep_until(self.now().after(pause)) => {}
                            () = self.closing().cancelled() => {}
                        }
                        pause = (pause * 2).min(Duration::from_secs(30));
                    }
                }
                if self.is_closing() {
                    break;
                }
            }
            live.look(|over| {
                if over.state.is_over() {
                    self.execution_over(over);
                    log_over(over);
                }
            });
        }
        .instrument(span)
        .await;
        self.queue().leave(live)
    }

    /// Tells whoever counts, and whoever tells callers.
    fn execution_over(&self, execution: &Execution) {
        self.meter().execution_ended(execution);
        if execution.order.callback.is_some() {
            self.owed().notify_one();
        }
    }

    async fn pause(&self, live: &Live, span: Duration) {
        let until = live.order().deadline().min(self.now().after(span));
        tokio::select! {
            () = self.clock().sleep_until(until) => {}
            () = live.cancel.cancelled() => {}
            () = self.closing().cancelled() => {}
        }
    }

    async fn attempt(&self, live: &Live, entry: Option<&Entry>) -> Result<Attempt, EngineError> {
        let execution = live.now();
        if live.cancel.is_cancelled() {
            return match self.closed().is_cancelled() {
                true => Ok(Attempt::Left),
                false => self.give_up(entry, &execution, crate::call::cancelled()).await,
            };
        }
        let deadline = execution.order.deadline();
        if self.now() >= deadline {
            return self.give_up(entry, &execution, late(&execution)).await;
        }
        if self.is_closing() {
            return Ok(Attempt::Left);
        }
        let Some(offered) = live.offered.as_deref().filter(|offered| offered.target() == execution.order.target) else {
            let message = format!("the skill {} is no longer offered here", execution.order.skill);
            return self.give_up(entry, &execution, ExecutionFailure { code: Code::SkillNotFound, message }).await;
        };
        match &execution.order.target {
            InvocationTarget::Tool(tool) => self.run_tool(live, entry, &execution, offered, tool).await,
            InvocationTarget::Agent => {
                self.settle(entry).await?;
                // Apart, or every attempt would carry the room that a conversation takes.
                Box::pin(self.run_agent(live, &execution, offered)).await
            }
        }
    }

    async fn run_tool(
        &self,
        live: &Live,
        entry: Option<&Entry>,
        execution: &Execution,
        offered: &Offered,
        tool: &ToolName,
    ) -> Result<Attempt, EngineError> {
        let caller = &caller_of(execution);
        let attempt = execution.attempt + 1;
        let retry = offered.skill().retry;
        let place = ExecutionPlace {
            execution: execution.id.clone(),
            attempt,
            may_retry: retry.is_some_and(|retry| attempt < retry.max_attempts),
            keep_ms: execution.order.keep_ms,
            callback: execution.order.callback.is_some(),
        };
        let began = |at| began(live, at);
        let called = self
            .call(Call {
                caller,
                protocol: execution.order.protocol,
                served: &offered.served,
                id: execution.call_id(attempt),
                tool: tool.clone(),
                arguments: execution.order.inputs.clone(),
                offered: true,
                client: ClientSays::NotAsked,
                turn: None,
                place: Some(Place::Execution(place.clone())),
                entry,
                trace: &execution.order.trace,
                began: Some(&began),
                deadline: execution.order.deadline(),
                cancel: &live.cancel,
            })
            .await;
        let ended = match called {
            Ok(Called::Ended(ended)) => ended,
            Ok(Called::AskClient) => return Err(EngineError::new(Code::Internal, "an execution has no app to ask")),
            Err(error) if matches!(error.code, Code::LeaseLost | Code::ShuttingDown) => return Ok(Attempt::Left),
            Err(error) => return Err(error),
        };
        let late = ended.at >= execution.order.deadline();
        Ok(match ending(&place, &ended.result, late, self.closed().is_cancelled()) {
            Some(state) => Attempt::Over(state, ended.at),
            None if self.closed().is_cancelled() => Attempt::Left,
            None => {
                let backoff = retry.map_or(Duration::from_secs(1), |retry| retry.backoff);
                Attempt::Again(backoff * 2_u32.saturating_pow(attempt - 1))
            }
        })
    }

    async fn run_agent(&self, live: &Live, execution: &Execution, offered: &Offered) -> Result<Attempt, EngineError> {
        let caller = &caller_of(execution);
        let attempt = execution.attempt + 1;
        let at = self.now();
        let (id, owner) = (execution.id.clone(), self.process().to_owned());
        let references = nuncio_core::audit::References::default();
        let warrant = CallAuthorization { at, by: Vec::new(), scope: None, started: false, references };
        let start = Change::StartExecution { id, owner, attempt, at, call: Some(warrant) };
        match self.store().commit(vec![start]).await {
            Err(StoreError::Conflict(Conflict::LeaseLost)) => return Ok(Attempt::Left),
            other => other?,
        }
        began(live, at);
        let answer = self.ask_agent(live, execution, offered, caller).await;
        if self.is_closing() && !matches!(answer, Ok(Ok(_))) {
            return Ok(Attempt::Left);
        }
        let state = match answer {
            Ok(Ok(output)) => ExecutionState::Completed { output },
            Ok(Err(failure)) => ExecutionState::of_failure(failure),
            Err(error) if error.code == Code::StoreUnavailable => return Err(error),
            Err(error) => ExecutionState::of_failure(ExecutionFailure { code: error.code, message: error.message }),
        };
        self.end_execution(&live.now(), state).await
    }

    /// Records that the program of an attempt has started. A failure is logged: the attempt then does not
    /// count towards the limit.
    pub(crate) async fn mark_started(&self, execution: &ExecutionId, attempt: u32) {
        let mark = Change::MarkStarted { id: execution.clone(), owner: self.process().to_owned(), attempt };
        if let Err(error) = self.store().commit(vec![mark]).await {
            tracing::warn!(%error, %execution, attempt, "the start of a program could not be recorded");
        }
    }

    /// Ends an execution without another attempt.
    async fn give_up(
        &self,
        entry: Option<&Entry>,
        execution: &Execution,
        failure: ExecutionFailure,
    ) -> Result<Attempt, EngineError> {
        self.settle(entry).await?;
        self.end_execution(execution, ExecutionState::of_failure(failure)).await
    }

    async fn end_execution(&self, execution: &Execution, state: ExecutionState) -> Result<Attempt, EngineError> {
        let at = self.now();
        let place = ExecutionPlace {
            execution: execution.id.clone(),
            attempt: execution.attempt,
            may_retry: false,
            keep_ms: execution.order.keep_ms,
            callback: execution.order.callback.is_some(),
        };
        match self.store().commit(self.end_of_execution(&place, execution.attempt, state.clone(), at)).await {
            Err(StoreError::Conflict(Conflict::LeaseLost)) => Ok(Attempt::Left),
            other => {
                other?;
                Ok(Attempt::Over(state, at))
            }
        }
    }

    /// The changes that end an execution: kept as long as it asks for, and its caller told.
    pub(crate) fn end_of_execution(
        &self,
        place: &ExecutionPlace,
        attempt: u32,
        state: ExecutionState,
        at: Timestamp,
    ) -> Vec<Change> {
        let id = &place.execution;
        let mut changes = vec![Change::EndExecution {
            id: id.clone(),
            owner: self.process().to_owned(),
            attempt,
            state,
            at,
            kept_until: at.after(Duration::from_millis(place.keep_ms)),
        }];
        if place.callback {
            changes.push(Change::PutCallback(Callback { execution: id.clone(), due: at, attempts: 0 }));
        }
        changes
    }

    /// Ends one that was taken out of the queue before it began.
    pub(super) async fn end_unbegun(&self, live: &Live, failure: ExecutionFailure) -> Result<(), EngineError> {
        let ended = self.give_up(None, &live.now(), failure).await;
        if let Ok(Attempt::Over(state, at)) = &ended {
            live.show(|execution| ends(execution, state.clone(), *at));
            self.execution_over(&live.now());
        }
        self.queue().forget(live);
        ended.map(|_| ())
    }
}

/// Shows that an attempt has begun.
fn began(live: &Live, at: Timestamp) {
    live.show(|execution| {
        if let Err(illegal) = execution.begin(at) {
            tracing::error!(id = %execution.id, %illegal, "an execution that is over was begun");
        }
    });
}

/// Whoever asked, as far as it was kept.
fn caller_of(execution: &Execution) -> Caller {
    let order = &execution.order;
    let credential = match &order.caller {
        Principal::Key(_) => Credential::Key,
        Principal::OAuth { .. } => Credential::Token { scopes: order.scopes.clone().into(), people: false },
        Principal::Did(_) => Credential::Did,
        _ => Credential::None,
    };
    Caller { principal: order.caller.clone(), person: order.person.clone(), request: order.request.clone(), credential }
}

/// A line for the operator, below the execution's ids and its caller's trace; ends as wished are many.
fn log_over(execution: &Execution) {
    let (state, attempt) = (execution.state.as_str(), execution.attempt);
    match &execution.state {
        ExecutionState::Failed { failure } | ExecutionState::TimedOut { failure } => {
            tracing::info!(state, attempt, why = failure.code.as_str(), "execution over");
        }
        _ => tracing::debug!(state, attempt, "execution over"),
    }
}

pub(super) fn late(execution: &Execution) -> ExecutionFailure {
    let message = format!("it was not over within {} ms", execution.order.timeout_ms);
    ExecutionFailure { code: Code::ToolTimeout, message }
}
