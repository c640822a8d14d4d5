//! Runners of tools: programs, web services, MCP servers, people, their devices, and skills and methods of other hosts.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_anp::client::{AgentSignerLookup, LocalDidUrlScheme};
use nuncio_core::agent::{Agent, BrainSpec, McpTransport, Tool, ToolRunSpec};
use nuncio_core::ids::{AgentName, ExecutionId};
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use nuncio_engine::ports::{Clock, Entropy, Fetch, Runner};

mod anp;
mod answer;
mod command;
mod device;
mod http;
mod human;
mod leftovers;
mod mcp;
pub(crate) mod process;
mod profile;
mod reach;
pub(crate) mod secrets;
mod skill;

pub use device::ConnectedAgentLookup;
pub use mcp::{McpStartOptions, downloads_packages};
pub use nuncio_core::agent::ToolEffect;
pub use process::OWN_COMMAND_NAME;
pub use profile::resolve_allowed;
pub use reach::ServerReachability;

use anp::AnpToolRunner;
use device::DeviceToolRunner;
use process::ProgramStarter;
use secrets::SecretValues;
use skill::SkillToolRunner;

/// Extra time after the deadline of a call. The call chain ends a call at its deadline; this limit is for callers
/// without a chain.
const DEADLINE_MARGIN: Duration = Duration::from_secs(1);

/// Dependencies of the runners.
#[derive(Debug)]
pub struct ToolRunnerConfig {
    /// HTTP client for tools that are web requests, skills or agents of other hosts.
    pub fetch: Arc<dyn Fetch>,
    /// HTTP client for MCP, whose library sends its own requests: see
    /// [`GuardedFetch::client_for_configured`](crate::fetch::GuardedFetch::client_for_configured).
    pub http: reqwest::Client,
    pub clock: Arc<dyn Clock>,
    /// Random source for requests to skills and agents of other hosts.
    pub entropy: Arc<dyn Entropy>,
    /// How DIDs with a host on this machine are resolved.
    pub local_dids: LocalDidUrlScheme,
    /// Executable that is started for commands named `nuncio` in agent files.
    pub executable: PathBuf,
    /// Data directory. Without confinement, it is the base of relative paths for agents without a folder.
    pub working_dir: PathBuf,
    /// Whether programs are confined to the paths in their agent file and their state folder.
    pub confined: bool,
    pub mcp_start: McpStartOptions,
}

/// Tools that an MCP server offers.
#[derive(Debug, Default)]
pub struct McpServerTools {
    /// Tools that an agent can import.
    pub tools: Vec<McpOfferedTool>,
    /// Reasons why the other tools cannot be imported.
    pub unusable: Vec<String>,
}

/// A tool of an MCP server, with what its annotations say.
#[derive(Debug)]
pub struct McpOfferedTool {
    pub tool: Tool,
    pub effect: ToolEffect,
}

/// Services that runners and brains use.
#[derive(Debug)]
pub(crate) struct RunnerAndBrainServices {
    pub(crate) clock: Arc<dyn Clock>,
    /// HTTP client for addresses that an agent file names.
    pub(crate) http: reqwest::Client,
    /// Starts programs and resolves relative paths of an agent.
    pub(crate) programs: ProgramStarter,
    pub(crate) mcp_start: McpStartOptions,
}

/// [`Runner`] for every kind of tool.
pub struct ToolRunner {
    fetch: Arc<dyn Fetch>,
    pub(crate) services: Arc<RunnerAndBrainServices>,
    servers: mcp::McpConnections,
    skills: SkillToolRunner,
    peers: AnpToolRunner,
    devices: DeviceToolRunner,
}

impl ToolRunner {
    #[must_use]
    pub fn new(config: ToolRunnerConfig) -> Self {
        let ToolRunnerConfig { fetch, http, clock, entropy, local_dids, executable, working_dir, confined, mcp_start } =
            config;
        let skills = SkillToolRunner::new(Arc::clone(&fetch), Arc::clone(&clock), Arc::clone(&entropy));
        let peers = AnpToolRunner::new(Arc::clone(&fetch), Arc::clone(&clock), entropy, local_dids);
        let devices = DeviceToolRunner::default();
        let programs = ProgramStarter::new(executable, working_dir, confined);
        let services = Arc::new(RunnerAndBrainServices { clock, http, programs, mcp_start });
        Self { fetch, servers: mcp::McpConnections::new(Arc::clone(&services)), services, skills, peers, devices }
    }

    /// Keeps agreements with other agents in this file, which need not exist.
    #[must_use]
    pub fn with_agreement_file(mut self, path: PathBuf) -> Self {
        self.peers = self.peers.with_agreement_file(path);
        self
    }

    /// Sets the folder of an agent's file, which is the working directory of its programs and the base of its relative
    /// paths. Must be called before the agent is resolved.
    pub fn set_base_dir(&self, agent: AgentName, folder: PathBuf) {
        self.services.programs.set_base_dir(agent, folder);
    }

    /// Folder that the agent's programs may write to.
    #[must_use]
    pub fn state_folder(&self, agent: &AgentName) -> PathBuf {
        self.services.programs.state_folder(agent)
    }

    /// Sets the signers of requests to other agents. Without signers, agents call anonymously. Only the first call has
    /// an effect.
    pub fn set_signers(&self, signers: Arc<dyn AgentSignerLookup>) {
        self.peers.set_signers(signers);
    }

    /// Sets the agents through which device tools are called. Only the first call has an effect.
    pub fn set_peers(&self, peers: Weak<dyn ConnectedAgentLookup>) {
        self.devices.set_peers(peers);
    }

    /// Lists the tools of an agent's MCP servers and closes the connections.
    pub async fn offers(&self, agent: &Agent) -> Result<Vec<McpServerTools>, String> {
        let offers = self.listed(agent).await?;
        self.servers.release(agent).await;
        Ok(offers)
    }

    /// As [`ToolRunner::offers`], but keeps the connections for later calls.
    pub async fn listed(&self, agent: &Agent) -> Result<Vec<McpServerTools>, String> {
        let mut offers = Vec::new();
        for server in &agent.mcp {
            offers.push(self.servers.offer(agent, server).await?);
        }
        Ok(offers)
    }

    async fn dispatch(&self, call: &AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        match &call.tool.run {
            ToolRunSpec::Mcp { server, tool } => self.servers.call(call, server, tool).await,
            ToolRunSpec::Answer(template) => answer::run(template, call),
            ToolRunSpec::Command(run) => command::run(&self.services.programs, run, call).await,
            ToolRunSpec::Human(run) => human::run(run, call).await,
            ToolRunSpec::Device(_) => self.devices.run(call).await,
            ToolRunSpec::Anp(run) => self.peers.run(run, call).await,
            ToolRunSpec::Skill(run) => {
                let base_dir = self.services.programs.base_dir(&call.agent.name);
                let secrets = SecretValues::read(&call.agent, &base_dir, run.templates())
                    .await
                    .map_err(ToolRunError::Unavailable)?;
                self.skills.run(&secrets, run, call).await
            }
            ToolRunSpec::Http(run) => {
                let base_dir = self.services.programs.base_dir(&call.agent.name);
                let secrets = SecretValues::read(&call.agent, &base_dir, run.templates())
                    .await
                    .map_err(ToolRunError::Unavailable)?;
                let left = self.services.clock.now().until(call.deadline) + DEADLINE_MARGIN;
                call.program_start.report();
                http::run(&self.fetch, &secrets, run, call, left).await
            }
        }
    }

    /// Checks an agent's programs, secrets, tools and MCP servers without running them.
    async fn check(&self, agent: &Agent) -> Result<(), String> {
        let base_dir = self.services.programs.base_dir(&agent.name);
        self.services.programs.check(agent)?;
        secrets::check(agent, &base_dir).await?;
        if let BrainSpec::Process(program) = &agent.brain {
            let secrets = SecretValues::read(agent, &base_dir, program.templates()).await?;
            secrets.lines(&program.env).map_err(|why| format!("the brain: {why}"))?;
            secrets.command(&program.command).map_err(|why| format!("the brain: {why}"))?;
        }
        for tool in &agent.tools {
            let place = |why: String| format!("the tool `{}`: {why}", tool.name);
            match &tool.run {
                ToolRunSpec::Http(run) => http::check(run).map_err(place)?,
                // Templates that use arguments can be checked only in a call.
                ToolRunSpec::Command(_) | ToolRunSpec::Human(_) | ToolRunSpec::Answer(_) | ToolRunSpec::Device(_) => {}
                ToolRunSpec::Skill(run) => skill::check(run).map_err(place)?,
                ToolRunSpec::Anp(run) => anp::check(run).map_err(place)?,
                ToolRunSpec::Mcp { server, .. } if agent.mcp_server(server).is_none() => {
                    return Err(place(format!("the agent file declares no MCP server `{server}`")));
                }
                ToolRunSpec::Mcp { .. } => {}
            }
        }
        for server in &agent.mcp {
            let (McpTransport::Stdio { env: lines, .. } | McpTransport::Http { headers: lines, .. }) =
                &server.transport;
            let secrets = SecretValues::read(agent, &base_dir, server.transport.templates()).await?;
            let place = |why: String| format!("the MCP server `{}`: {why}", server.name);
            secrets.lines(lines).map_err(place)?;
            if let McpTransport::Stdio { command, .. } = &server.transport {
                secrets.command(command).map_err(place)?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Runner for ToolRunner {
    async fn run(&self, call: AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        match &call.tool.run {
            // Fixed answers are rendered at once, so they need no deadline.
            ToolRunSpec::Answer(template) => return answer::run(template, &call),
            // The inbox has to withdraw a task that is late, so nothing else may end the call.
            ToolRunSpec::Human(run) => return human::run(run, &call).await,
            _ => {}
        }
        // Boxed, because the future has the size of the largest runner.
        let dispatched = Box::pin(self.dispatch(&call));
        let too_late = self.services.clock.sleep_until(call.deadline.after(DEADLINE_MARGIN));
        tokio::select! {
            outcome = dispatched => outcome,
            () = too_late => {
                Err(ToolRunError::Failed(format!("the tool `{}` did not finish by its deadline", call.tool.name)))
            }
        }
    }

    /// Checks an agent and imports its MCP tools. Each resolved agent must be released once.
    async fn resolve(&self, agent: Agent) -> Result<Agent, String> {
        self.check(&agent).await?;
        self.servers.resolve(agent).await
    }

    async fn release(&self, agent: &Agent) {
        self.servers.release(agent).await;
    }

    async fn end_leftovers(&self, executions: &[ExecutionId]) {
        leftovers::end(executions).await;
    }
}

impl fmt::Debug for ToolRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRunner").field("programs", &self.services.programs).finish_non_exhaustive()
    }
}
