//! The end of a call: its audit record and its result are one commit.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::agent::Tool;
use nuncio_core::audit::{AuditDecision, AuditOutcome, AuditRecord, AuditReferences};
use nuncio_core::backoff::Backoff;
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::time::Timestamp;

use super::request::FinishedCall;
use super::{CallInProgress, attempt};
use crate::call_failure::CallRefusal;
use crate::error::EngineError;
use crate::ports::runner::ToolOutput;
use crate::ports::store::{AuditChange, CallChange, Change, ExecutionChange, ResultTarget};

/// Delays before the end of a call is stored again after a failed commit.
const STORE_AGAIN: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(30));

impl CallInProgress<'_> {
    pub(super) async fn refuse(mut self, refusal: CallRefusal) -> Result<FinishedCall, EngineError> {
        self.references = AuditReferences { approval: refusal.approval, ..AuditReferences::default() };
        let decision = AuditDecision::Refused { by: refusal.by, code: refusal.failure.code };
        self.finish(None, decision, None, Err(refusal.failure)).await
    }

    /// Commits the end of the call: its audit record and its result in the history or execution. If the tool of an
    /// execution has run and the store is unavailable, the commit is repeated until it succeeds or the server stops.
    pub(super) async fn finish(
        &self,
        started: Option<String>,
        decision: AuditDecision,
        started_at: Option<Timestamp>,
        result: Result<ToolOutput, ExecutionFailure>,
    ) -> Result<FinishedCall, EngineError> {
        let outcome = match &result {
            Ok(_) => AuditOutcome::Completed,
            Err(failure) if started_at.is_some() => AuditOutcome::Failed { code: failure.code },
            Err(_) => AuditOutcome::NotRun,
        };
        let at = self.calls.context.now();
        let stops = self.calls.context.closed.is_cancelled();
        let end = match &self.call.target {
            Some(ResultTarget::Execution(stored_attempt)) => {
                attempt::ending(stored_attempt, &result, at >= self.call.deadline, stops)
            }
            Some(ResultTarget::Message(_)) | None => None,
        };
        let admitted = matches!(decision, AuditDecision::Allowed { .. });
        let ended = FinishedCall { result, admitted, end, at };
        let tool = self.call.published.agent.tool(self.call.tool.as_str()).map(|tool| &**tool);
        let audit = |decision| -> Change {
            AuditChange::AppendCall(self.record(tool, decision, outcome.clone(), started_at, at)).into()
        };
        let record = self.record(tool, decision.clone(), outcome.clone(), started_at, at);
        self.calls.context.meter.call_ended(&record, tool.is_some());
        self.calls.ensure_committed(self.call.pending_insert).await?;

        let finish_call = || started.clone().map(|key| CallChange::Finish(key).into());
        let without_result = || [audit(decision.clone())].into_iter().chain(finish_call()).collect();
        let mut changes = vec![AuditChange::AppendCall(record).into()];
        let mut failures = STORE_AGAIN.start();
        loop {
            changes.extend(self.result_changes(&ended, started_at.is_some(), stops));
            changes.extend(finish_call());
            let stored = self.calls.records.store_end(std::mem::take(&mut changes), without_result).await;
            match stored.map_err(EngineError::from) {
                // The tool has run: only the commit is repeated, never the tool. After a restart the call counts as
                // interrupted.
                Err(error)
                    if error.code == ErrorCode::StoreUnavailable && started_at.is_some() && self.is_execution() =>
                {
                    tracing::error!(%error, call = %self.call.id, "the end of a call could not be stored; it is \
                                                                   retried");
                    let context = &self.calls.context;
                    let pause = context.clock.sleep_until(context.now().after(failures.next_delay()));
                    if context.closed.run_until_cancelled(pause).await.is_none() {
                        return Err(error);
                    }
                    changes.push(audit(decision.clone()));
                }
                other => {
                    other?;
                    return Ok(ended);
                }
            }
        }
    }

    fn is_execution(&self) -> bool {
        matches!(self.call.target, Some(ResultTarget::Execution(_)))
    }

    /// Changes that store the result of the call in the history or execution. `ran` is false for a call that ended
    /// before its start was stored.
    fn result_changes(&self, ended: &FinishedCall, ran: bool, stops: bool) -> Vec<Change> {
        match (&self.call.target, &ended.end) {
            (None, _) => Vec::new(),
            (Some(ResultTarget::Message(slot)), _) => vec![slot.result(ended.content()).append_to(&slot.session)],
            (Some(ResultTarget::Execution(stored_attempt)), Some(state)) => {
                let attempt = if ran { stored_attempt.attempt } else { stored_attempt.attempt - 1 };
                self.calls.end_of_execution(stored_attempt, attempt, state.clone(), ended.at)
            }
            (Some(ResultTarget::Execution(stored_attempt)), None) if ran => vec![
                ExecutionChange::FinishAttempt {
                    id: stored_attempt.execution.clone(),
                    owner: self.calls.context.incarnation.clone(),
                    attempt: stored_attempt.attempt,
                    // An unavailable backend used an attempt; a server stop before the program started did not.
                    started: !stops || self.program_start.is_reported(),
                }
                .into(),
            ],
            (Some(ResultTarget::Execution(_)), None) => Vec::new(),
        }
    }

    pub(super) fn record(
        &self,
        tool: Option<&Tool>,
        decision: AuditDecision,
        outcome: AuditOutcome,
        started_at: Option<Timestamp>,
        ended_at: Timestamp,
    ) -> AuditRecord {
        let call = &self.call;
        AuditRecord {
            caller: call.caller.principal.clone(),
            protocol: call.protocol,
            references: AuditReferences { messages: self.sent.list(), ..self.references.clone() },
            agent: call.published.agent.name.clone(),
            tool: call.tool.clone(),
            scope: tool.and_then(|tool| tool.scope.clone()),
            call: call.id.clone(),
            session: call.turn.as_ref().map(|(session, _)| session.clone()),
            turn: call.turn.as_ref().map(|(_, number)| *number),
            request: call.caller.request.clone(),
            arguments_digest: self.digest,
            decision,
            outcome,
            asked_at: self.asked_at,
            started_at,
            ended_at,
        }
    }
}
