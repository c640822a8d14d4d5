//! Tools of MCP servers, over one long-lived connection to each.
//!
//! Calls: <https://modelcontextprotocol.io/specification/2025-11-25/server/tools>

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nuncio_core::agent::{Agent, McpServer};
use nuncio_core::ids::{BackendName, ToolName};
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use rmcp::ServiceError;
use rmcp::model::ErrorCode;

use super::Offer;
use super::process::Programs;
use connection::Connection;
use slot::Slot;

mod connection;
mod content;
mod import;
mod slot;
mod trouble;

/// How long a server may take to say hello, and to list its tools.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take to say hello that may first have to be downloaded.
const INSTALL_PATIENCE: Duration = Duration::from_secs(120);
/// Programs that download the server they start.
const INSTALLERS: [&str; 9] = ["npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "deno"];

/// What connections need from the rest.
#[derive(Debug)]
pub(super) struct World {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) programs: Arc<Programs>,
    pub(super) http: reqwest::Client,
}

impl World {
    /// The outcome of a future, unless it takes longer than a server may.
    async fn patiently<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.within(PATIENCE, future).await
    }

    /// The outcome of a future, unless it takes longer than that.
    async fn within<T>(&self, span: Duration, future: impl Future<Output = T>) -> Option<T> {
        let late = self.clock.sleep_until(self.clock.now().after(span));
        tokio::select! {
            outcome = future => Some(outcome),
            () = late => None,
        }
    }
}

/// The MCP servers of all agents. Two forms of one agent that declare the same server in the same
/// way share its connection, so that a reload of the agent file does not restart what did not change.
#[derive(Debug)]
pub(super) struct Servers {
    world: Arc<World>,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    slot: Arc<Slot>,
    /// How many served forms of the agent rely on it.
    holders: usize,
}

impl Servers {
    pub(super) fn new(world: World) -> Self {
        Self { world: Arc::new(world), entries: Mutex::default() }
    }

    /// Calls a tool there.
    pub(super) async fn call(
        &self,
        call: &RunCall,
        server: &BackendName,
        tool: &ToolName,
    ) -> Result<ToolOutput, RunError> {
        let Some(declared) = call.agent.mcp_server(server) else {
            return Err(RunError::Failed(format!("the agent file declares no MCP server `{server}`")));
        };
        let slot = self.slot(&call.agent, declared);
        let connection = slot.connection().await.map_err(RunError::Unavailable)?;
        call.program_start.report();
        let answer = connection.call(tool.as_str(), call.arguments.clone(), &call.trace).await;
        let outcome = match answer {
            Ok(result) => {
                slot.healthy();
                content::output(result)
            }
            Err(ServiceError::McpError(error)) => {
                slot.healthy();
                let suspicious = matches!(error.code, ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND);
                Err(content::Refusal {
                    text: format!("the MCP server `{server}` refused the call: {}", error.message),
                    suspicious,
                })
            }
            Err(error @ (ServiceError::TransportClosed | ServiceError::TransportSend(_))) => {
                let why = connection.end(Some(&error));
                slot.lost(&connection, &why);
                return Err(RunError::Unavailable(format!("the MCP server `{server}` was lost: {why}")));
            }
            Err(error) => Err(content::Refusal {
                text: format!("the MCP server `{server}` did not answer properly: {error}"),
                suspicious: false,
            }),
        };
        match outcome {
            Ok(output) => Ok(output),
            // Servers say in many ways that a tool is not there; the list says it in one.
            Err(refusal) if refusal.suspicious || refusal.text.contains(tool.as_str()) => {
                let gone = self.is_gone(&connection, tool).await;
                Err(RunError::Failed(gone.map_or_else(
                    || connection.explain(refusal.text),
                    |there_are| format!("the MCP server `{server}` has no tool `{tool}` any more; it has {there_are}"),
                )))
            }
            Err(refusal) => Err(RunError::Failed(connection.explain(refusal.text))),
        }
    }

    /// The names of what there is, if that tool is not among them.
    async fn is_gone(&self, connection: &Connection, tool: &ToolName) -> Option<String> {
        let tools = self.world.patiently(connection.tools()).await?.ok()?;
        let missing = tools.iter().all(|found| found.name != tool.as_str());
        missing.then(|| import::names(&tools))
    }

    /// Adds to an agent the tools it imports, and keeps its servers until [`Servers::release`].
    pub(super) async fn resolve(&self, agent: Agent) -> Result<Agent, String> {
        let hold = Hold::new(self, &agent);
        let mut lists = Vec::new();
        for server in &agent.mcp {
            let Some(import) = &server.import else { continue };
            lists.push((server.name.clone(), import.clone(), self.list(&agent, server).await?));
        }
        let agent = import::add(agent.clone(), &lists)?;
        hold.keep();
        Ok(agent)
    }

    /// What a server offers that an agent could take over, and why it could not take over the rest.
    pub(super) async fn offer(&self, agent: &Agent, server: &McpServer) -> Result<Offer, String> {
        let listed = self.list(agent, server).await?;
        Ok(import::offer(server, &listed))
    }

    async fn list(&self, agent: &Agent, server: &McpServer) -> Result<Vec<rmcp::model::Tool>, String> {
        let slot = self.slot(agent, server);
        let connection = slot.connection().await?;
        let tools = self
            .world
            .patiently(connection.tools())
            .await
            .unwrap_or_else(|| Err(format!("it did not answer within {PATIENCE:?}")))
            .map_err(|why| format!("the MCP server `{}` could not list its tools: {why}", server.name))?;
        slot.healthy();
        Ok(tools)
    }

    /// Lets go of an agent's servers and waits until those that nobody needs any more are gone.
    pub(super) async fn release(&self, agent: &Agent) {
        for slot in self.let_go(agent) {
            slot.close().await;
        }
    }

    fn slot(&self, agent: &Agent, server: &McpServer) -> Arc<Slot> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        self.find(&mut entries, agent, server).slot.clone()
    }

    /// The entry of a server, made if there is none. A folder that moved makes it another server.
    fn find<'a>(&self, entries: &'a mut Vec<Entry>, agent: &Agent, server: &McpServer) -> &'a mut Entry {
        let base_dir = self.world.programs.base_dir(&agent.name);
        let index = entries.iter().position(|entry| entry.slot.serves(agent, server, &base_dir)).unwrap_or_else(|| {
            let slot = Slot::new(Arc::clone(&self.world), agent, server, base_dir);
            entries.push(Entry { slot, holders: 0 });
            entries.len() - 1
        });
        &mut entries[index]
    }

    /// Takes out the servers that only this agent held.
    fn let_go(&self, agent: &Agent) -> Vec<Arc<Slot>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for server in &agent.mcp {
            // The oldest first: after a reload the newer one belongs to the newer form.
            if let Some(entry) = entries.iter_mut().find(|entry| entry.holders > 0 && entry.slot.is_of(agent, server)) {
                entry.holders -= 1;
            }
        }
        let own =
            |entry: &mut Entry| entry.holders == 0 && agent.mcp.iter().any(|server| entry.slot.is_of(agent, server));
        entries.extract_if(.., own).map(|entry| entry.slot).collect()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for entry in self.entries.get_mut().unwrap_or_else(PoisonError::into_inner) {
            entry.slot.abandon();
        }
    }
}

/// An agent's hold on its servers while it is being resolved; let go again unless kept.
struct Hold<'a> {
    servers: &'a Servers,
    agent: Option<&'a Agent>,
}

impl<'a> Hold<'a> {
    fn new(servers: &'a Servers, agent: &'a Agent) -> Self {
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

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if let Some(agent) = self.agent {
            for slot in self.servers.let_go(agent) {
                slot.abandon();
            }
        }
    }
}
