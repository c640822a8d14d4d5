//! Requests to the call chain and their outcomes.

use nuncio_core::execution::{ExecutionFailure, ExecutionState, TraceIds};
use nuncio_core::ids::{CallId, SessionId, ToolName};
use nuncio_core::message::Content;
use nuncio_core::policy::Protocol;
use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::PendingExecutionInsert;
use crate::access::Caller;
use crate::call_failure::failure_text;
use crate::ports::runner::ToolOutput;
use crate::ports::store::ResultTarget;
use crate::publish::PublishedAgent;

pub struct ToolCallRequest<'a> {
    pub caller: &'a Caller,
    pub protocol: Protocol,
    pub published: &'a PublishedAgent,
    pub id: CallId,
    /// Tool name as the caller sent it; it may not exist.
    pub tool: ToolName,
    pub arguments: Map<String, Value>,
    /// Whether the tool is available to the caller here. If not, the call fails as for an unknown tool.
    pub offered: bool,
    pub client: ClientDecision,
    pub turn: Option<(SessionId, u64)>,
    /// Target in which the result of the call is stored, in the same commit as the audit record; `None` if only the
    /// caller gets the result.
    pub target: Option<ResultTarget>,
    /// The execution of the call if it is not stored yet; it is stored with the first commit of the call.
    pub pending_insert: Option<&'a PendingExecutionInsert>,
    /// Trace identifiers that are forwarded to the tool.
    pub trace: &'a TraceIds,
    /// Callback that runs when the start of the call is stored, before the tool runs.
    pub on_start: Option<&'a (dyn Fn(Timestamp) + Sync)>,
    pub deadline: Timestamp,
    pub cancel: &'a CancellationToken,
}

/// Decision of the client application about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientDecision {
    /// The client was not asked: the protocol has no such question, or the tool is internal to the agent.
    NotAsked,
    /// The app marked the tool as trusted.
    Trusts,
    /// The app wants to be asked about the call and was not asked yet.
    AskFirst,
    Yes,
    No {
        reason: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum ToolCallOutcome {
    /// The call ended and is recorded.
    Ended(FinishedCall),
    /// The app must decide about the call first. Nothing was run or stored.
    AskClient,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    pub result: Result<ToolOutput, ExecutionFailure>,
    /// Whether the checks before the tool allowed the call.
    pub admitted: bool,
    /// End state of the execution that the call belongs to; `None` if another attempt follows or the call belongs to no
    /// execution.
    pub end: Option<ExecutionState>,
    pub at: Timestamp,
}

impl FinishedCall {
    /// Content for the brain and the history: the output, or a text about the failure.
    #[must_use]
    pub fn content(&self) -> Content {
        match &self.result {
            Ok(output) => output.message_content(),
            Err(failure) if self.admitted => Content::Text(failure_text(&failure.message)),
            Err(refusal) => Content::Text(refusal.message.clone()),
        }
    }
}
