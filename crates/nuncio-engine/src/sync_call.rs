//! Synchronous tool calls, for protocols whose callers wait for the answer. A cancelled call is recorded too.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::agent::Tool;
use nuncio_core::device_time::CALL_CHAIN_WAITS;
use nuncio_core::execution::TraceIds;
use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::policy::Protocol;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use crate::call::{CallService, ClientDecision, FinishedCall, ToolCallOutcome, ToolCallRequest};
use crate::error::EngineError;
use crate::publish::PublishedAgent;

#[derive(Debug, Clone)]
pub struct SyncToolCall {
    pub caller: Caller,
    pub protocol: Protocol,
    pub served: Arc<PublishedAgent>,
    pub tool: ToolName,
    pub arguments: Map<String, Value>,
    /// The caller's decision about the call, where the protocol can ask for it.
    pub client: ClientDecision,
    /// Trace identifiers that are forwarded to the tool.
    pub trace: TraceIds,
}

/// Availability of a tool for a caller at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolAvailability {
    /// Whether a concurrency slot of the tool is free.
    pub available: bool,
    pub granted: bool,
    /// Average duration of recent successful calls of the tool; `None` before the first.
    pub latency: Option<Duration>,
}

impl CallService {
    /// Calls a tool and waits for its result. Dropping the future, as a caller that disconnects does, cancels the call.
    ///
    /// # Errors
    ///
    /// The server is stopping, or the store failed. A refused or failed tool call is an `Ok` outcome and is recorded.
    pub async fn call_and_wait(self: &Arc<Self>, request: SyncToolCall) -> Result<FinishedCall, EngineError> {
        let cancel = self.new_cancellation();
        let hung_up = cancel.clone().drop_guard();
        let outcome = self.call_until_cancelled(request, cancel).await;
        hung_up.disarm();
        match outcome? {
            ToolCallOutcome::Ended(ended) => Ok(ended),
            ToolCallOutcome::AskClient => {
                Err(EngineError::new(ErrorCode::Internal, "this call has no app that could be asked"))
            }
        }
    }

    /// A token that is also cancelled when running calls must end because the server stops.
    #[must_use]
    pub fn new_cancellation(&self) -> CancellationToken {
        self.context.closed.child_token()
    }

    /// Calls a tool and waits for its result. `cancel`, a token of [`Self::new_cancellation`], ends the call; dropping
    /// the future does not. A hidden tool is treated as unknown, unless it runs on a device.
    ///
    /// # Errors
    ///
    /// As of [`Self::call_and_wait`].
    pub async fn call_until_cancelled(
        self: &Arc<Self>,
        request: SyncToolCall,
        cancel: CancellationToken,
    ) -> Result<ToolCallOutcome, EngineError> {
        self.context.check_not_closing()?;
        let calls = Arc::clone(self);
        let running = self.context.tasks.spawn(async move {
            let SyncToolCall { caller, protocol, served, tool, arguments, client, trace } = request;
            let declared = served.agent.tool(tool.as_str());
            let timeout = declared.map_or(Duration::ZERO, |tool| tool.timeout);
            let time = timeout + CALL_CHAIN_WAITS + calls.context.limits.approval;
            let id = CallId::parse(&calls.context.random_name("call_"))?;
            calls
                .call(ToolCallRequest {
                    caller: &caller,
                    protocol,
                    published: &served,
                    id,
                    offered: declared.is_some_and(|tool| tool.exposed || tool.on_device()),
                    tool,
                    arguments,
                    client,
                    turn: None,
                    target: None,
                    pending_insert: None,
                    trace: &trace,
                    on_start: None,
                    deadline: calls.context.now().after(time),
                    cancel: &cancel,
                })
                .await
        });
        running.await.map_err(|_| EngineError::new(ErrorCode::Internal, "the call was interrupted"))?
    }

    /// Availability of a tool for a caller; `None` is an anonymous caller.
    #[must_use]
    pub fn tool_status(&self, caller: Option<&Caller>, served: &PublishedAgent, tool: &Tool) -> ToolAvailability {
        let agent = &served.agent.name;
        let is_granted = |caller| self.access.tool_permission(caller, agent, tool).is_some();
        let granted = tool.scope.is_none() || caller.is_some_and(is_granted);
        ToolAvailability {
            available: !self.context.is_closing() && served.has_room(&tool.name),
            granted,
            latency: served.latency(&tool.name),
        }
    }
}
