//! Tools of MCP servers, over one long-lived connection to each server.
//!
//! Calls: <https://modelcontextprotocol.io/specification/2025-11-25/server/tools>

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nuncio_core::agent::{Agent, McpServerSpec};
use nuncio_core::ids::{BackendName, ToolName};
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use rmcp::ServiceError;
use rmcp::model::ErrorCode as McpErrorCode;

use super::{McpServerTools, RunnerAndBrainServices};
use crate::within;
use connection::McpConnection;
use slot::ReopenableMcpConnection;

pub use start::{McpStartOptions, downloads_packages};

mod connection;
mod content;
mod errors;
mod import;
mod slot;
mod start;

/// Time limit for the handshake with an MCP server over HTTP, and for listing the tools of any server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections to the MCP servers of all agents. Two versions of one agent with the same server declaration share its
/// connection, so that a reload does not restart an unchanged server.
#[derive(Debug)]
pub(super) struct McpConnections {
    services: Arc<RunnerAndBrainServices>,
    entries: Mutex<Vec<CountedMcpConnection>>,
}

#[derive(Debug)]
struct CountedMcpConnection {
    slot: Arc<ReopenableMcpConnection>,
    /// Number of served versions of the agent that use the server.
    holders: usize,
}

impl McpConnections {
    pub(super) fn new(services: Arc<RunnerAndBrainServices>) -> Self {
        Self { services, entries: Mutex::default() }
    }

    /// Calls a tool of an MCP server.
    pub(super) async fn call(
        &self,
        call: &AuthorizedToolCall,
        server: &BackendName,
        tool: &ToolName,
    ) -> Result<ToolOutput, ToolRunError> {
        let Some(declared) = call.agent.mcp_server(server) else {
            return Err(ToolRunError::Failed(format!("the agent file declares no MCP server `{server}`")));
        };
        let slot = self.slot(&call.agent, declared);
        let connection = slot.connection().await.map_err(ToolRunError::Unavailable)?;
        call.program_start.report();
        let answer = connection.call(tool.as_str(), call.arguments.clone(), &call.trace).await;
        let outcome = match answer {
            Ok(result) => {
                slot.reset_failures();
                content::output(result)
            }
            Err(ServiceError::McpError(error)) => {
                slot.reset_failures();
                let suspicious = matches!(error.code, McpErrorCode::INVALID_PARAMS | McpErrorCode::METHOD_NOT_FOUND);
                Err(content::McpCallFailure {
                    text: format!("the MCP server `{server}` refused the call: {}", error.message),
                    suspicious,
                })
            }
            Err(error @ (ServiceError::TransportClosed | ServiceError::TransportSend(_))) => {
                let why = connection.end(Some(&error));
                slot.mark_lost(&connection, &why);
                return Err(ToolRunError::Unavailable(slot.lost_connection(&why)));
            }
            Err(error) => Err(content::McpCallFailure {
                text: format!("the MCP server `{server}` did not answer properly: {error}"),
                suspicious: false,
            }),
        };
        let refusal = match outcome {
            Ok(output) => return Ok(output),
            Err(refusal) => refusal,
        };
        // Servers report missing tools in different ways, so the tool list is checked.
        if (refusal.suspicious || refusal.text.contains(tool.as_str()))
            && let Some(Ok(tools)) = self.list_in_time(&connection).await
            && tools.iter().all(|found| found.name != tool.as_str())
        {
            let left = import::names(&tools);
            let gone = format!("the MCP server `{server}` has no tool `{tool}` any more; it has {left}");
            return Err(ToolRunError::Failed(gone));
        }
        Err(ToolRunError::Failed(connection.explain(refusal.text)))
    }

    /// Lists the tools of an MCP server; `None` if it does not answer in time.
    async fn list_in_time(&self, connection: &McpConnection) -> Option<Result<Vec<rmcp::model::Tool>, String>> {
        within(&*self.services.clock, SERVER_TIMEOUT, connection.tools()).await
    }

    /// Adds imported tools to an agent and holds its servers until [`McpConnections::release`].
    pub(super) async fn resolve(&self, agent: Agent) -> Result<Agent, String> {
        let hold = McpServersGuard::new(self, &agent);
        let mut lists = Vec::new();
        for server in &agent.mcp {
            let Some(import) = &server.import else { continue };
            lists.push((server.name.clone(), import.clone(), self.list(&agent, server).await?));
        }
        let agent = import::add(agent.clone(), &lists)?;
        hold.keep();
        Ok(agent)
    }

    /// Tools of an MCP server that can be imported, and reasons why others cannot.
    pub(super) async fn offer(&self, agent: &Agent, server: &McpServerSpec) -> Result<McpServerTools, String> {
        let listed = self.list(agent, server).await?;
        Ok(import::offer(server, &listed))
    }

    async fn list(&self, agent: &Agent, server: &McpServerSpec) -> Result<Vec<rmcp::model::Tool>, String> {
        let slot = self.slot(agent, server);
        let connection = slot.connection().await?;
        let tools = self
            .list_in_time(&connection)
            .await
            .unwrap_or_else(|| Err(format!("it did not answer within {SERVER_TIMEOUT:?}")))
            .map_err(|why| format!("the MCP server `{}` could not list its tools: {why}", server.name))?;
        slot.reset_failures();
        Ok(tools)
    }

    /// Releases an agent's MCP servers and waits until those that no agent uses have ended.
    pub(super) async fn release(&self, agent: &Agent) {
        for slot in self.take_unused(agent) {
            slot.close().await;
        }
    }

    fn slot(&self, agent: &Agent, server: &McpServerSpec) -> Arc<ReopenableMcpConnection> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        self.find(&mut entries, agent, server).slot.clone()
    }

    /// Finds or creates the entry of an MCP server. Another base folder means another server.
    fn find<'a>(
        &self,
        entries: &'a mut Vec<CountedMcpConnection>,
        agent: &Agent,
        server: &McpServerSpec,
    ) -> &'a mut CountedMcpConnection {
        let base_dir = self.services.programs.base_dir(&agent.name);
        let index = entries.iter().position(|entry| entry.slot.serves(agent, server, &base_dir)).unwrap_or_else(|| {
            let slot = ReopenableMcpConnection::new(Arc::clone(&self.services), agent, server, base_dir);
            entries.push(CountedMcpConnection { slot, holders: 0 });
            entries.len() - 1
        });
        &mut entries[index]
    }

    /// Removes and returns the MCP servers that only this agent used.
    fn take_unused(&self, agent: &Agent) -> Vec<Arc<ReopenableMcpConnection>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for server in &agent.mcp {
            // The oldest entry first: after a reload the newer entry belongs to the newer version.
            if let Some(entry) = entries.iter_mut().find(|entry| entry.holders > 0 && entry.slot.is_of(agent, server)) {
                entry.holders -= 1;
            }
        }
        let own = |entry: &mut CountedMcpConnection| {
            entry.holders == 0 && agent.mcp.iter().any(|server| entry.slot.is_of(agent, server))
        };
        entries.extract_if(.., own).map(|entry| entry.slot).collect()
    }
}

impl Drop for McpConnections {
    fn drop(&mut self) {
        for entry in self.entries.get_mut().unwrap_or_else(PoisonError::into_inner) {
            entry.slot.close_without_waiting();
        }
    }
}

/// Holds an agent's MCP servers while the agent is being resolved; releases them on drop unless kept.
struct McpServersGuard<'a> {
    servers: &'a McpConnections,
    agent: Option<&'a Agent>,
}

impl<'a> McpServersGuard<'a> {
    fn new(servers: &'a McpConnections, agent: &'a Agent) -> Self {
        let mut entries = servers.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for server in &agent.mcp {
            servers.find(&mut entries, agent, server).holders += 1;
        }
        Self { servers, agent: Some(agent) }
    }

    fn keep(mut self) {
        self.agent = None;
    }
}

impl Drop for McpServersGuard<'_> {
    fn drop(&mut self) {
        if let Some(agent) = self.agent {
            for slot in self.servers.take_unused(agent) {
                slot.close_without_waiting();
            }
        }
    }
}
