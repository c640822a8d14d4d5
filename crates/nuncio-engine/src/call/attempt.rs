//! The stored start and end of one attempt of an execution.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::execution::{ExecutionFailure, ExecutionState};
use nuncio_core::ids::ExecutionId;
use nuncio_core::time::Timestamp;

use super::CallService;
use crate::ports::runner::ToolOutput;
use crate::ports::store::{Change, ExecutionAttempt, ExecutionChange, Job, JobChange, JobKind};

/// End state of an attempt; `None` if another attempt follows.
pub(super) fn ending(
    stored_attempt: &ExecutionAttempt,
    result: &Result<ToolOutput, ExecutionFailure>,
    late: bool,
    stops: bool,
) -> Option<ExecutionState> {
    match result {
        Ok(output) => Some(ExecutionState::Completed { output: output.value() }),
        // The server stopped the call, not the caller: the execution resumes at the next start.
        Err(failure) if stops && failure.code == ErrorCode::Cancelled => None,
        Err(failure) if stored_attempt.may_retry && failure.code == ErrorCode::ToolUnavailable => None,
        // The deadline passed before the call was allowed to begin.
        Err(failure) if late && matches!(failure.code, ErrorCode::ApprovalExpired | ErrorCode::ToolBusy) => {
            Some(ExecutionState::TimedOut { failure: failure.clone() })
        }
        Err(failure) => Some(ExecutionState::of_failure(failure.clone())),
    }
}

impl CallService {
    /// Stores that the program of an attempt started. A failure is only logged: the attempt then does not count towards
    /// the limit.
    pub(crate) async fn mark_started(&self, execution: &ExecutionId, attempt: u32) {
        let owner = self.context.incarnation.clone();
        let mark = ExecutionChange::MarkStarted { id: execution.clone(), owner, attempt };
        if let Err(error) = self.context.commit_one(mark).await {
            tracing::warn!(%error, %execution, attempt, "the start of a program could not be recorded");
        }
    }

    /// Changes that end an execution: its end state, and its callback if it has one.
    pub(crate) fn end_of_execution(
        &self,
        stored_attempt: &ExecutionAttempt,
        attempt: u32,
        state: ExecutionState,
        at: Timestamp,
    ) -> Vec<Change> {
        let id = &stored_attempt.execution;
        let mut changes = vec![
            ExecutionChange::End {
                id: id.clone(),
                owner: self.context.incarnation.clone(),
                attempt,
                state,
                at,
                kept_until: at.after(Duration::from_millis(stored_attempt.keep_ms)),
            }
            .into(),
        ];
        if let Some(receiver) = &stored_attempt.callback_receiver {
            let (kind, key, receiver) = (JobKind::Callback, id.to_string(), receiver.clone());
            changes.push(JobChange::Put(Job { kind, key, receiver, lane: None, due: at, attempts: 0 }).into());
        }
        changes
    }
}
