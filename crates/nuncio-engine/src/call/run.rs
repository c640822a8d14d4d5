//! Running an admitted call: a free slot, the stored start, and the runner within the deadline.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::agent::{Tool, ToolRunSpec};
use nuncio_core::audit::{AuditDecision, AuditOutcome};
use nuncio_core::call_source::CallSource;
use nuncio_core::execution::{CallAuthorization, ExecutionFailure};
use nuncio_core::ids::GrantId;
use nuncio_core::time::Timestamp;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::admit::AdmittedCall;
use super::request::FinishedCall;
use super::{CallInProgress, output};
use crate::call_failure::{CallRefusal, cancelled, denial};
use crate::error::EngineError;
use crate::ports::runner::{AuthorizedToolCall, HumanTaskInbox, ToolOutput, ToolRunError};
use crate::ports::store::{
    AccessChange, CallChange, Change, Conflict, ExecutionChange, ResultTarget, StartedCall, StoreError,
};
use crate::tasks::CallTaskInbox;

impl CallInProgress<'_> {
    /// Runs an admitted call. Its start is stored before it begins, its end before it is reported.
    pub(super) async fn run(mut self, admitted: AdmittedCall) -> Result<FinishedCall, EngineError> {
        let AdmittedCall { tool, allowed_by, spends, references } = admitted;
        self.references = references;
        let pass = match self.pass(&tool).await? {
            Ok(pass) => pass,
            Err(failure) => {
                return self.finish(None, AuditDecision::Allowed { by: allowed_by }, None, Err(failure)).await;
            }
        };

        let started_at = self.calls.context.now();
        let key = match self.begin(&tool, &allowed_by, spends, started_at).await? {
            Ok(key) => key,
            Err(refusal) => return self.refuse(refusal).await,
        };
        if let Some(on_start) = self.call.on_start {
            on_start(started_at);
        }

        let deadline = self.call.deadline.min(started_at.after(tool.call_time()));
        // Moved out, because after the run only the digest of the arguments is used.
        let arguments = std::mem::take(&mut self.arguments);
        let result = self.run_until(&tool, arguments, deadline).await?;
        // Release the slot before the end is stored.
        drop(pass);
        if result.is_ok() {
            self.call.published.record_latency(&tool.name, started_at.until(self.calls.context.now()));
        }
        self.finish(key, AuditDecision::Allowed { by: allowed_by }, Some(started_at), result).await
    }

    /// Waits for a free slot of the tool, at most until the deadline of the call; then the call fails with
    /// [`ErrorCode::ToolBusy`]. An execution that is not stored yet is stored before the wait. Human work and fixed answers
    /// need no slot.
    async fn pass(&self, tool: &Tool) -> Result<Result<Option<OwnedSemaphorePermit>, ExecutionFailure>, EngineError> {
        if self.call.cancel.is_cancelled() {
            return Ok(Err(cancelled()));
        }
        if matches!(tool.run, ToolRunSpec::Human(_) | ToolRunSpec::Answer(_)) {
            return Ok(Ok(None));
        }
        let gate = self.call.published.gate(&tool.name);
        if let Ok(pass) = Arc::clone(&gate).try_acquire_owned() {
            return Ok(Ok(Some(pass)));
        }
        self.calls.ensure_committed(self.call.pending_insert).await?;
        tokio::select! {
            biased;
            () = self.call.cancel.cancelled() => Ok(Err(cancelled())),
            pass = gate.acquire_owned() => Ok(Ok(Some(pass.expect("gates are never closed")))),
            () = self.calls.context.clock.sleep_until(self.call.deadline) => {
                let message = format!("too many calls of {} at once", tool.name);
                Ok(Err(ExecutionFailure { code: ErrorCode::ToolBusy, message }))
            }
        }
    }

    /// The change that stores the start of the call: in its execution, or as a started call under its own key.
    fn start(&self, tool: &Tool, allowed_by: &[String], at: Timestamp) -> (Option<String>, Change) {
        if let Some(ResultTarget::Execution(stored_attempt)) = &self.call.target {
            let authorization = CallAuthorization {
                at: self.asked_at,
                by: allowed_by.to_vec(),
                scope: tool.scope.clone(),
                // Human work counts as started once it is in the inbox.
                started: matches!(tool.run, ToolRunSpec::Human(_)),
                references: self.references.clone(),
            };
            let (id, owner) = (stored_attempt.execution.clone(), self.calls.context.incarnation.clone());
            let start =
                ExecutionChange::Start { id, owner, attempt: stored_attempt.attempt, at, call: Some(authorization) }
                    .into();
            return (None, start);
        }
        let key = self.calls.context.random_name("call_");
        let decision = AuditDecision::Allowed { by: allowed_by.to_vec() };
        let record = self.record(Some(tool), decision, AuditOutcome::NotRun, Some(at), at);
        let call = StartedCall {
            key: key.clone(),
            node: self.calls.context.incarnation.clone(),
            record,
            target: self.call.target.clone(),
        };
        let start = CallChange::Start(Box::new(call)).into();
        (Some(key), start)
    }

    /// Commits the start of the call with the grant and approval it uses, and returns the key of the started call
    /// (`None` for an execution). If another call used the grant first, looks for another grant.
    async fn begin(
        &mut self,
        tool: &Tool,
        allowed_by: &[String],
        mut spends: Vec<Change>,
        at: Timestamp,
    ) -> Result<Result<Option<String>, CallRefusal>, EngineError> {
        loop {
            let (key, start) = self.start(tool, allowed_by, at);
            let changes = spends.iter().cloned().chain([start]).collect();
            let committed = self.calls.commit_with_insert(self.call.pending_insert, changes).await;
            if matches!(committed, Ok(()) | Err(StoreError::Conflict(Conflict::GrantUsed))) {
                for grant in spends.iter().filter_map(used_grant) {
                    self.calls.access.forget_used_grant(grant).await;
                }
            }
            match committed {
                Err(StoreError::Conflict(Conflict::GrantUsed)) => {
                    spends.retain(|change| used_grant(change).is_none());
                    let Some(permission) = self.permission(tool) else { return Ok(Err(self.ungranted(tool))) };
                    self.references.rule = Some(permission.source);
                    spends.extend(permission.once.map(|grant| AccessChange::UseGrant(grant).into()));
                }
                Err(StoreError::Conflict(Conflict::ApprovalMoved)) => {
                    let failure = ExecutionFailure {
                        code: ErrorCode::ApprovalClosed,
                        message: denial(Some("the approval was already used")),
                    };
                    return Ok(Err(CallRefusal::new("policy", failure)));
                }
                other => return Ok(other.map(|()| Ok(key))?),
            }
        }
    }

    /// Runs the tool. A call that waits for a person has no outcome while the server stops; it resumes at the next
    /// start.
    async fn run_until(
        &self,
        tool: &Arc<Tool>,
        arguments: Value,
        deadline: Timestamp,
    ) -> Result<Result<ToolOutput, ExecutionFailure>, EngineError> {
        if self.call.cancel.is_cancelled() {
            return Ok(Err(cancelled()));
        }
        let by_person = matches!(tool.run, ToolRunSpec::Human(_));
        let run = self.calls.runner.run(self.run_call(tool, arguments, deadline, by_person));
        let result = if by_person {
            // The inbox watches deadline and cancellation itself, because it withdraws the task then.
            run.await
        } else {
            tokio::select! {
                // The tool is polled first: one that answers at once needs no timer and no waker.
                biased;
                result = run => result,
                () = self.call.cancel.cancelled() => return Ok(Err(cancelled())),
                () = async { self.calls.context.clock.sleep_until(deadline).await } => {
                    let message = "it took longer than its time limit".to_owned();
                    return Ok(Err(ExecutionFailure { code: ErrorCode::ToolTimeout, message }));
                }
                never = self.record_program_start() => match never {},
            }
        };
        match result {
            Ok(output) => Ok(output::check(tool, &output).map(|()| output)),
            Err(ToolRunError::NoOutcome { code, message }) => Err(EngineError::new(code, message)),
            Err(error) => Ok(Err(ExecutionFailure { code: error.code(), message: error.to_string() })),
        }
    }

    fn run_call(&self, tool: &Arc<Tool>, arguments: Value, deadline: Timestamp, by_person: bool) -> AuthorizedToolCall {
        let call = &self.call;
        let Value::Object(arguments) = arguments else {
            unreachable!("the arguments were made from a map");
        };
        let inbox = by_person.then(|| -> Arc<dyn HumanTaskInbox> {
            let execution = match &call.target {
                Some(ResultTarget::Execution(attempt)) => Some(attempt.execution.clone()),
                Some(ResultTarget::Message(_)) | None => None,
            };
            Arc::new(CallTaskInbox { inbox: Arc::clone(&self.calls.inbox), execution, cancel: call.cancel.clone() })
        });
        let key = self.calls.access.key_of(&call.caller.principal);
        AuthorizedToolCall {
            agent: Arc::clone(&call.published.agent),
            tool: Arc::clone(tool),
            id: call.id.clone(),
            arguments,
            caller: call.caller.principal.clone(),
            person: call.caller.person.clone(),
            source: CallSource {
                caller: call.caller.principal.to_string(),
                key_created_at: key.as_ref().filter(|key| key.name.is_none()).map(|key| key.created_at),
                app: key.and_then(|key| key.name.clone()),
                conversation: call.turn.as_ref().map(|(session, _)| session.to_string()),
            },
            deadline,
            trace: self.trace(),
            program_start: self.program_start.clone(),
            sent: self.sent.clone(),
            inbox,
        }
    }

    /// Stores that the program of the execution started, concurrently with the run. Never returns.
    async fn record_program_start(&self) -> Infallible {
        let Some(ResultTarget::Execution(stored_attempt)) = &self.call.target else {
            return std::future::pending().await;
        };
        self.program_start.reported().await;
        self.calls.mark_started(&stored_attempt.execution, stored_attempt.attempt).await;
        std::future::pending().await
    }

    /// Trace identifiers that are forwarded to the tool.
    fn trace(&self) -> BTreeMap<&'static str, String> {
        let call = &self.call;
        let mut trace = BTreeMap::new();
        trace.extend(call.caller.request.clone().map(|id| ("request_id", id)));
        trace.extend(call.trace.trace_id.clone().map(|id| ("trace_id", id)));
        trace.extend(call.trace.traceparent.clone().map(|context| ("traceparent", context)));
        if let Some(ResultTarget::Execution(stored_attempt)) = &call.target {
            trace.insert("execution_id", stored_attempt.execution.to_string());
            trace.insert("attempt", stored_attempt.attempt.to_string());
        }
        trace
    }
}

fn used_grant(change: &Change) -> Option<&GrantId> {
    match change {
        Change::Access(AccessChange::UseGrant(grant)) => Some(grant),
        _ => None,
    }
}
