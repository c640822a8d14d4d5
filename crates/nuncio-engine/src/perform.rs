//! One call, now: for protocols whose callers wait for the answer. It walks the chain like every other;
//! a caller who hangs up stops it, and that is recorded too.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::agent::Tool;
use nuncio_core::execution::TraceIds;
use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::policy::Protocol;
use serde_json::{Map, Value};

use crate::Engine;
use crate::access::{Caller, Hold};
use crate::call::{Call, Called, ClientSays, DEVICE_ASKS, Ended};
use crate::error::EngineError;
use crate::ports::entropy::random_name;
use crate::publish::Served;

/// A call that somebody waits for.
#[derive(Debug, Clone)]
pub struct Performance {
    /// Who.
    pub caller: Caller,
    /// By which protocol.
    pub protocol: Protocol,
    /// Whose tool.
    pub served: Arc<Served>,
    /// Which.
    pub tool: ToolName,
    /// With what.
    pub arguments: Map<String, Value>,
    /// Identifiers to pass on.
    pub trace: TraceIds,
}

/// What is true of a tool at this moment, for a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether it has room for one more call.
    pub available: bool,
    /// Whether the caller may use it.
    pub granted: bool,
    /// How long it took lately.
    pub latency: Option<Duration>,
}

impl Engine {
    /// Has a tool run and waits for it. Tools that are hidden do not exist here.
    ///
    /// # Errors
    /// Only when the store cannot be used; everything else is an outcome, and recorded.
    pub async fn perform(&self, performance: Performance) -> Result<Ended, EngineError> {
        if self.is_closing() {
            return Err(EngineError::new(Code::ShuttingDown, "the server is stopping; try again in a moment"));
        }
        let cancel = self.closed().child_token();
        let hung_up = cancel.clone().drop_guard();
        let engine = self.clone();
        let running = self.tasks().spawn(async move {
            let Performance { caller, protocol, served, tool, arguments, trace } = performance;
            let declared = served.agent.tool(tool.as_str());
            let time = declared.map_or(Duration::ZERO, |tool| tool.timeout) + DEVICE_ASKS + engine.limits().approval;
            let id = CallId::parse(&random_name(engine.entropy(), "call_"))?;
            engine
                .call(Call {
                    caller: &caller,
                    protocol,
                    served: &served,
                    id,
                    offered: declared.is_some_and(|tool| tool.exposed || tool.on_device()),
                    tool,
                    arguments,
                    client: ClientSays::NotAsked,
                    turn: None,
                    place: None,
                    entry: None,
                    trace: &trace,
                    began: None,
                    deadline: engine.now().after(time),
                    cancel: &cancel,
                })
                .await
        });
        let called = running.await.map_err(|_| EngineError::new(Code::Internal, "the call was given up"))?;
        hung_up.disarm();
        match called? {
            Called::Ended(ended) => Ok(ended),
            Called::AskClient => Err(EngineError::new(Code::Internal, "there is no app to ask here")),
        }
    }

    /// What is true of a tool now, for that caller; none is nobody.
    #[must_use]
    pub fn standing(&self, caller: Option<&Caller>, served: &Served, tool: &Tool) -> Standing {
        let agent = &served.agent.name;
        let granted = tool.scope.as_ref().is_none_or(|scope| {
            caller.is_some_and(|caller| self.access_table().hold(caller, agent, scope, self.now()) != Hold::No)
        });
        Standing {
            available: !self.is_closing() && served.has_room(&tool.name),
            granted,
            latency: served.latency(&tool.name),
        }
    }
}
