//! Where tools really run: programs, web services, MCP servers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_anp::client::{LocalDids, Signers};
use nuncio_core::agent::{Agent, BrainSpec, McpTransport, Run, Tool};
use nuncio_core::ids::{AgentName, ExecutionId};
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use nuncio_engine::ports::{Clock, Entropy, Fetch, Runner};

mod anp;
mod answer;
mod command;
mod http;
mod leftovers;
mod mcp;
pub(crate) mod process;
mod profile;
pub(crate) mod secrets;
mod skill;

pub use profile::resolve_allowed;

use crate::brains::Means;
use anp::Peers;
use process::Programs;
use secrets::Secrets;
use skill::Skills;

/// How long past its deadline a call is still let run. The chain drops a call at its deadline and
/// says so properly; this is for whoever calls without a chain.
const OVERTIME: Duration = Duration::from_secs(1);

/// What runners need.
#[derive(Debug)]
pub struct RunnersConfig {
    /// The way out for tools that are web requests.
    pub fetch: Arc<dyn Fetch>,
    /// The way out for MCP over HTTP, whose library brings requests of its own: see
    /// [`GuardedFetch::client_for_configured`](crate::fetch::GuardedFetch::client_for_configured).
    pub http: reqwest::Client,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for what other hosts' skills are sent.
    pub entropy: Arc<dyn Entropy>,
    /// How DIDs of this machine are looked up.
    pub local_dids: LocalDids,
    /// The program that a command named `nuncio` means.
    pub executable: PathBuf,
    /// The data directory. Where programs are not confined, relative paths begin here of agents that have no folder of
    /// their own.
    pub working_dir: PathBuf,
    /// Whether programs reach only what their agent's file allows, and nothing of the data directory but a folder of
    /// their agent's.
    pub confined: bool,
}

/// What an MCP server offers.
#[derive(Debug, Default)]
pub struct Offer {
    /// The tools an agent can take over.
    pub tools: Vec<Tool>,
    /// Why it cannot take over the others, in sentences.
    pub unusable: Vec<String>,
}

/// [`Runner`] for every place a tool can run in.
pub struct Runners {
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    programs: Arc<Programs>,
    http: reqwest::Client,
    servers: mcp::Servers,
    skills: Skills,
    peers: Peers,
}

impl Runners {
    /// Runners with nothing running.
    #[must_use]
    pub fn new(config: RunnersConfig) -> Self {
        let RunnersConfig { fetch, http, clock, entropy, local_dids, executable, working_dir, confined } = config;
        let skills = Skills::new(Arc::clone(&fetch), Arc::clone(&clock), Arc::clone(&entropy));
        let peers = Peers::new(Arc::clone(&fetch), Arc::clone(&clock), entropy, local_dids);
        let programs = Arc::new(Programs::new(executable, working_dir, confined));
        let world = mcp::World { clock: Arc::clone(&clock), programs: Arc::clone(&programs), http: http.clone() };
        Self { fetch, clock, programs, http, servers: mcp::Servers::new(world), skills, peers }
    }

    /// What brains need of what is here.
    pub(crate) fn means(&self) -> Means {
        Means { clock: Arc::clone(&self.clock), http: self.http.clone(), programs: Arc::clone(&self.programs) }
    }

    /// Says in which folder an agent's file is. Its programs run there, and its relative paths, of
    /// programs and of secrets, begin there. Say it before the agent is resolved.
    pub fn set_base_dir(&self, agent: AgentName, folder: PathBuf) {
        self.programs.set_base_dir(agent, folder);
    }

    /// The folder that an agent's programs may write to.
    #[must_use]
    pub fn state_folder(&self, agent: &AgentName) -> PathBuf {
        self.programs.state_folder(agent)
    }

    /// Says who signs for which agent what it asks of others. Until then, agents call others as nobody. Only
    /// the first word counts.
    pub fn set_signers(&self, signers: Arc<dyn Signers>) {
        self.peers.set_signers(signers);
    }

    /// Asks the MCP servers of an agent that is not served what they offer, and lets them go.
    ///
    /// # Errors
    /// One cannot be reached or does not say.
    pub async fn offers(&self, agent: &Agent) -> Result<Vec<Offer>, String> {
        let offers = self.listed(agent).await?;
        self.servers.release(agent).await;
        Ok(offers)
    }

    /// As [`Runners::offers`], of an agent whose tools are called next: its servers are kept.
    ///
    /// # Errors
    /// One cannot be reached or does not say.
    pub async fn listed(&self, agent: &Agent) -> Result<Vec<Offer>, String> {
        let mut offers = Vec::new();
        for server in &agent.mcp {
            offers.push(self.servers.offer(agent, server).await?);
        }
        Ok(offers)
    }

    async fn dispatch(&self, call: &RunCall) -> Result<ToolOutput, RunError> {
        match &call.tool.run {
            Run::Mcp { server, tool } => self.servers.call(call, server, tool).await,
            Run::Answer(template) => answer::run(template, call),
            Run::Command(run) => command::run(&self.programs, run, call).await,
            // Work for people is the engine's own affair: it waits in the inbox.
            Run::Human(_) => Err(RunError::Unavailable("nobody is there to do it".to_owned())),
            // What runs with a person is asked of their device; whoever knows the way stands before these.
            Run::Device(_) => Err(RunError::Unavailable("no device of the person is there to run it".to_owned())),
            Run::Anp(run) => self.peers.run(run, call).await,
            Run::Skill(run) => {
                let base_dir = self.programs.base_dir(&call.agent.name);
                let secrets =
                    Secrets::read(&call.agent, &base_dir, run.templates()).await.map_err(RunError::Unavailable)?;
                self.skills.run(&secrets, run, call).await
            }
            Run::Http(run) => {
                let base_dir = self.programs.base_dir(&call.agent.name);
                let secrets =
                    Secrets::read(&call.agent, &base_dir, run.templates()).await.map_err(RunError::Unavailable)?;
                let left = self.clock.now().until(call.deadline) + OVERTIME;
                call.program_start.report();
                http::run(&self.fetch, &secrets, run, call, left).await
            }
        }
    }

    /// Checks what can be known about an agent's tools without running them.
    async fn check(&self, agent: &Agent) -> Result<(), String> {
        let base_dir = self.programs.base_dir(&agent.name);
        self.programs.check(agent)?;
        secrets::check(agent, &base_dir).await?;
        if let BrainSpec::Process(program) = &agent.brain {
            let secrets = Secrets::read(agent, &base_dir, program.env.iter().map(|(_, template)| template)).await?;
            secrets.lines(&program.env).map_err(|why| format!("the brain: {why}"))?;
        }
        for tool in &agent.tools {
            let place = |why: String| format!("the tool `{}`: {why}", tool.name);
            match &tool.run {
                Run::Http(run) => http::check(run).map_err(place)?,
                // What its environment names of the call is known with the call.
                Run::Command(_) | Run::Human(_) | Run::Answer(_) | Run::Device(_) => {}
                Run::Skill(run) => skill::check(run).map_err(place)?,
                Run::Anp(run) => anp::check(run).map_err(place)?,
                Run::Mcp { server, .. } if agent.mcp_server(server).is_none() => {
                    return Err(place(format!("the agent file declares no MCP server `{server}`")));
                }
                Run::Mcp { .. } => {}
            }
        }
        for server in &agent.mcp {
            let (McpTransport::Stdio { env: lines, .. } | McpTransport::Http { headers: lines, .. }) =
                &server.transport;
            let secrets = Secrets::read(agent, &base_dir, lines.iter().map(|(_, template)| template)).await?;
            secrets.lines(lines).map_err(|why| format!("the MCP server `{}`: {why}", server.name))?;
        }
        Ok(())
    }
}

#[async_trait]
impl Runner for Runners {
    async fn run(&self, call: RunCall) -> Result<ToolOutput, RunError> {
        // What is written down is answered here and now.
        if let Run::Answer(template) = &call.tool.run {
            return answer::run(template, &call);
        }
        // Apart: it has the size of the largest of all the ways a tool can run.
        let dispatched = Box::pin(self.dispatch(&call));
        let too_late = self.clock.sleep_until(call.deadline.after(OVERTIME));
        tokio::select! {
            outcome = dispatched => outcome,
            () = too_late => Err(RunError::Failed(format!("the tool `{}` was not done by its deadline", call.tool.name))),
        }
    }

    /// Each agent resolved is to be released once.
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

impl fmt::Debug for Runners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runners").field("programs", &self.programs).finish_non_exhaustive()
    }
}
