//! Tools on people's devices, called with sealed messages through the relay of their agent.

use std::fmt;
use std::sync::{OnceLock, Weak};

use nuncio_a2h::peer::{DeviceCallError, DeviceCallOptions, Peer};
use nuncio_core::ErrorCode;
use nuncio_core::ids::{AgentName, CallId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_engine::ports::runner::{AuthorizedToolCall, NO_LINKED_PERSON, ToolOutput, ToolRunError};
use serde_json::Value;

/// Finds the agents that are connected to a relay.
pub trait ConnectedAgentLookup: fmt::Debug + Send + Sync + 'static {
    fn peer(&self, agent: &AgentName) -> Option<Peer>;
}

/// Runner of device tools. The lookup is weak, because its agents use the engine, which owns the runners.
#[derive(Debug, Default)]
pub(super) struct DeviceToolRunner(OnceLock<Weak<dyn ConnectedAgentLookup>>);

impl DeviceToolRunner {
    pub(super) fn set_peers(&self, peers: Weak<dyn ConnectedAgentLookup>) {
        let _ = self.0.set(peers);
    }

    pub(super) async fn run(&self, call: &AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        let unavailable = |why: &str| ToolRunError::Unavailable(why.to_owned());
        let peers = self.0.get().and_then(Weak::upgrade);
        let agent = peers.and_then(|peers| peers.peer(&call.agent.name));
        let agent = agent.ok_or_else(|| unavailable("the agent is not connected to a relay yet"))?;
        let person = call.person.clone().ok_or_else(|| unavailable(NO_LINKED_PERSON))?;
        call_tool(&agent, person, call).await.map(ToolOutput::json).map_err(|error| {
            let message = error.to_string();
            match error.code() {
                ErrorCode::ToolUnavailable => ToolRunError::Unavailable(message),
                ErrorCode::ToolFailed => ToolRunError::Failed(message),
                code => ToolRunError::Refused { code, message },
            }
        })
    }
}

async fn call_tool(agent: &Peer, person: PersonName, call: &AuthorizedToolCall) -> Result<Value, DeviceCallError> {
    // A repeated execution is the same call: the device answers with its outcome and runs nothing twice.
    let execution = call.trace.get("execution_id").and_then(|id| CallId::parse(id).ok());
    let options = DeviceCallOptions {
        call_id: Some(execution.unwrap_or_else(|| call.id.clone())),
        scope: call.tool.scope.clone(),
        timeout: Some(call.tool.timeout),
        source: Some(call.source.clone()),
        sent: call.sent.clone(),
    };
    let conversation = agent.conversation_with(&RelayParty::Person(person)).await?;
    let arguments = Value::Object(call.arguments.clone());
    call.program_start.report();
    agent.calls().call_tool_with(&conversation.id, call.tool.name.as_str(), arguments, options).await
}
