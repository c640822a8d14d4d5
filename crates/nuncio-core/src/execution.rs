//! Executions: accepted skill invocations and their lifecycle.
//!
//! States move one way: accepted → running → completed, failed or timed out; an execution that never started can fail
//! or time out too. A final state never changes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::agent::SkillVersion;
use crate::audit::AuditReferences;
use crate::caller::Caller;
use crate::code::ErrorCode;
use crate::ids::{AgentName, CallId, ExecutionId, ScopeId, SkillId, ToolName};
use crate::policy::Protocol;
use crate::string_enum;
use crate::time::Timestamp;

/// An accepted skill invocation, which never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcceptedInvocation {
    pub skill: SkillId,
    /// Version of the skill when the invocation was accepted.
    pub version: SkillVersion,
    pub agent: AgentName,
    pub target: InvocationTarget,
    #[serde(flatten)]
    pub caller: Caller,
    pub protocol: Protocol,
    /// Inputs of the invocation with defaults filled in.
    pub inputs: Map<String, Value>,
    pub priority: Priority,
    #[serde(default)]
    pub trace: TraceIds,
    /// URL that is called when the execution ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub callback: Option<Url>,
    pub created_at: Timestamp,
    /// Time limit from acceptance to end, in milliseconds.
    pub timeout_ms: u64,
    /// How long the result is stored after the end, in milliseconds.
    pub keep_ms: u64,
}

impl AcceptedInvocation {
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        self.created_at.after(Duration::from_millis(self.timeout_ms))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationTarget {
    Tool(ToolName),
    /// The target is the whole agent: text in, text out.
    Agent,
}

string_enum! {
    /// Priority of an execution in the queue.
    #[derive(Default)]
    pub enum Priority {
        Low = "low",
        #[default]
        Normal = "normal",
        High = "high",
    }
}

impl Priority {
    /// Time that is added to the time of acceptance when a queue is ordered, so an execution of [`Priority::High`] that
    /// arrives this much later still goes first. The bound prevents starvation: an execution that has waited longer
    /// goes before every new one.
    #[must_use]
    pub const fn handicap(self) -> Duration {
        match self {
            Self::High => Duration::ZERO,
            Self::Normal => Duration::from_secs(60),
            Self::Low => Duration::from_secs(300),
        }
    }
}

/// Trace identifiers that are passed on with a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TraceIds {
    /// Trace id chosen by the caller.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub traceparent: Option<String>,
}

/// Length limit of a `traceparent`, in bytes.
const MAX_TRACEPARENT: usize = 256;

/// Returns the text if it is a valid W3C `traceparent`.
#[must_use]
pub fn traceparent(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let whole = matches!(parts.as_slice(), [version, trace, span, flags, ..]
        if hex(version, 2) && *version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2)
            && (parts.len() == 4 || *version != "00")
            && trace.bytes().any(|b| b != b'0') && span.bytes().any(|b| b != b'0'));
    (whole && text.len() <= MAX_TRACEPARENT).then(|| text.to_owned())
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionFailure {
    pub code: ErrorCode,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ExecutionState {
    /// The execution is stored and waits to run.
    Accepted,
    Running,
    Completed {
        output: Value,
    },
    Failed {
        failure: ExecutionFailure,
    },
    TimedOut {
        failure: ExecutionFailure,
    },
}

impl ExecutionState {
    /// Name of the execution's state in the store.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Running => "running",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::TimedOut { .. } => "timeout",
        }
    }

    /// Whether the state of the execution is final.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { .. } | Self::TimedOut { .. })
    }

    /// State of a failed execution: `TimedOut` if a time limit was the reason, otherwise `Failed`.
    #[must_use]
    pub fn of_failure(failure: ExecutionFailure) -> Self {
        match failure.code {
            ErrorCode::ToolTimeout | ErrorCode::TurnDeadline => Self::TimedOut { failure },
            _ => Self::Failed { failure },
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub id: ExecutionId,
    pub order: Arc<AcceptedInvocation>,
    /// Number of attempts of the execution so far. More than one means that the tool may have run more than once.
    pub attempt: u32,
    /// Number of attempts of the execution that were interrupted before their program started.
    pub unstarted: u32,
    pub state: ExecutionState,
    pub updated_at: Timestamp,
}

/// A transition that an execution's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an execution that is {from} cannot become {to}")]
pub struct IllegalExecutionTransition {
    /// Name of the current state.
    pub from: &'static str,
    /// Name of the requested state.
    pub to: &'static str,
}

impl Execution {
    #[must_use]
    pub fn accepted(id: ExecutionId, order: impl Into<Arc<AcceptedInvocation>>) -> Self {
        let order = order.into();
        let updated_at = order.created_at;
        Self { id, order, attempt: 0, unstarted: 0, state: ExecutionState::Accepted, updated_at }
    }

    /// Starts the first or a further attempt. Fails if the execution has ended.
    pub fn begin(&mut self, at: Timestamp) -> Result<(), IllegalExecutionTransition> {
        self.step(ExecutionState::Running, at)?;
        self.attempt += 1;
        Ok(())
    }

    /// Ends the execution. Fails if the execution has ended, if it never started and `end` is a result, or if `end` is
    /// not a final state.
    pub fn end(&mut self, end: ExecutionState, at: Timestamp) -> Result<(), IllegalExecutionTransition> {
        let answers_unbegun =
            matches!((&self.state, &end), (ExecutionState::Accepted, ExecutionState::Completed { .. }));
        if !end.is_over() || answers_unbegun {
            return Err(IllegalExecutionTransition { from: self.state.as_str(), to: end.as_str() });
        }
        self.step(end, at)
    }

    fn step(&mut self, to: ExecutionState, at: Timestamp) -> Result<(), IllegalExecutionTransition> {
        if self.state.is_over() {
            return Err(IllegalExecutionTransition { from: self.state.as_str(), to: to.as_str() });
        }
        self.state = to;
        // A clock that was set back does not reduce `updated_at`.
        self.updated_at = self.updated_at.max(at);
        Ok(())
    }

    /// Tool call id of an attempt of the execution.
    #[must_use]
    pub fn call_id(&self, attempt: u32) -> CallId {
        CallId::parse(&format!("{}.{attempt}", self.id)).expect("an execution's id leaves room for a number")
    }

    #[must_use]
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.state.is_over().then_some(self.updated_at)
    }

    /// Time from which the result may be deleted; `None` while the execution has not ended.
    #[must_use]
    pub fn kept_until(&self) -> Option<Timestamp> {
        self.completed_at().map(|at| at.after(Duration::from_millis(self.order.keep_ms)))
    }
}

/// The authorization under which the tool call of an attempt was started. Together with the invocation it suffices for
/// an audit record, even if the call never ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAuthorization {
    pub at: Timestamp,
    /// Deciders that allowed the call: the approvers, or `policy`.
    pub by: Vec<String>,
    /// Permission that the called tool needs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<ScopeId>,
    /// Whether the program of the call has started. Calls stored before this field existed count as started.
    #[serde(default = "started")]
    pub started: bool,
    /// References for the call's audit record.
    #[serde(skip_serializing_if = "AuditReferences::is_empty", default)]
    pub references: AuditReferences,
}

const fn started() -> bool {
    true
}

#[cfg(test)]
mod tests;
