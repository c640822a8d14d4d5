//! Connects to the servers that an agent uses, for `nuncio lint --connect`. No tool is called.

use std::sync::Arc;
use std::time::Duration;

use nuncio_anp::client::AgentTarget;
use nuncio_core::agent::{Agent, BrainSpec, McpServerSpec, McpTransport, Tool, ToolRunSpec};
use nuncio_core::ids::ToolName;
use nuncio_skill::client::SkillTarget;
use url::Url;

use super::http::request_origin;
use super::{McpServerTools, ToolRunner};
use crate::brains::{AapBrain, ModelBrain, model_address};
use crate::fetch::cause;
use crate::within;

/// Time limit of one connection. MCP servers have their own.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that an agent uses, and whether it could be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReachability {
    /// Part of the agent that uses the server, such as `mcp "files"` or `tool "weather"`.
    pub part: String,
    /// Origin of the server, or its program.
    pub address: String,
    /// What the server answered, or why it could not be reached.
    pub outcome: Result<String, String>,
}

impl ToolRunner {
    /// Starts the agent's MCP servers, lists their tools and ends them; opens a connection to every other server.
    pub async fn reach(&self, agent: &Agent) -> Vec<ServerReachability> {
        let mut reached = Vec::new();
        for server in &agent.mcp {
            let outcome = self.servers.offer(agent, server).await;
            reached.push(ServerReachability {
                part: format!("mcp {:?}", server.name.as_str()),
                address: match &server.transport {
                    McpTransport::Stdio { command, .. } => command.program.clone(),
                    McpTransport::Http { url, .. } => url.origin().ascii_serialization(),
                },
                outcome: outcome.and_then(|offer| describe_offer(agent, server, &offer)),
            });
        }
        self.servers.release(agent).await;
        reached.extend(self.reach_brain(agent).await);
        let tools =
            agent.tools.iter().filter_map(|tool| Some((format!("tool {:?}", tool.name.as_str()), tool_url(tool)?)));
        for (part, url) in tools {
            reached.push(match url {
                Ok(url) => {
                    let outcome = self.connect_to(&url).await;
                    ServerReachability { part, address: url.origin().ascii_serialization(), outcome }
                }
                Err(why) => ServerReachability { part, address: String::new(), outcome: Err(why) },
            });
        }
        reached
    }

    /// Asks a model's server for its models, or another agent's server for its agents.
    async fn reach_brain(&self, agent: &Agent) -> Option<ServerReachability> {
        let (url, outcome) = match &agent.brain {
            BrainSpec::Model(spec) => {
                let brain = ModelBrain::new(spec, Arc::clone(&self.services));
                (model_address(spec), brain.check_server(agent, CONNECT_TIMEOUT).await)
            }
            BrainSpec::Aap(spec) => {
                let brain = AapBrain::new(spec, Arc::clone(&self.services));
                (Ok(spec.url.clone()), brain.check_server(agent, CONNECT_TIMEOUT).await)
            }
            BrainSpec::Rules(_) | BrainSpec::Script | BrainSpec::Process(_) => return None,
        };
        let address = url.map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Some(ServerReachability { part: "brain".to_owned(), address, outcome })
    }

    /// Sends a `HEAD` request for `/` of the server. Any answer counts: nothing is known about its addresses, and a
    /// request to one of them could have an effect.
    async fn connect_to(&self, url: &Url) -> Result<String, String> {
        let mut root = url.clone();
        root.set_path("/");
        root.set_query(None);
        root.set_fragment(None);
        let request = self.services.http.head(root).send();
        match within(&*self.services.clock, CONNECT_TIMEOUT, request).await {
            Some(Ok(answer)) => Ok(format!("answers (HEAD / gave {}); the tool was not called", answer.status())),
            Some(Err(error)) => Err(format!("cannot be reached: {}", cause(&error))),
            None => Err(format!("did not answer within {CONNECT_TIMEOUT:?}")),
        }
    }
}

/// Counts the tools of an MCP server, and checks that it has those that the agent names.
fn describe_offer(agent: &Agent, server: &McpServerSpec, offer: &McpServerTools) -> Result<String, String> {
    let named = agent.tools.iter().filter_map(|tool| match &tool.run {
        ToolRunSpec::Mcp { server: name, tool } if *name == server.name => Some(tool.as_str()),
        _ => None,
    });
    let imported = server.import.iter().filter_map(|import| import.only.as_ref()).flatten();
    let has = |name: &str| {
        offer.tools.iter().any(|offered| offered.tool.name.as_str() == name)
            || offer.unusable.iter().any(|why| why.contains(name))
    };
    match named.chain(imported.map(ToolName::as_str)).find(|name| !has(name)) {
        Some(missing) => {
            let names: Vec<&str> = offer.tools.iter().map(|offered| offered.tool.name.as_str()).collect();
            Err(format!("has no tool `{missing}`; it has: {}", names.join(", ")))
        }
        None => {
            let count = offer.tools.len();
            Ok(format!("has {count} {}", if count == 1 { "tool" } else { "tools" }))
        }
    }
}

fn tool_url(tool: &Tool) -> Option<Result<Url, String>> {
    match &tool.run {
        ToolRunSpec::Http(run) => Some(request_origin(run)),
        ToolRunSpec::Skill(run) => {
            let target = SkillTarget::parse(&run.target);
            Some(target.map(|target| target.host()).map_err(|error| error.to_string()))
        }
        ToolRunSpec::Anp(run) => Some(match AgentTarget::parse(&run.target) {
            Ok(AgentTarget::Description(url) | AgentTarget::Host(url)) => Ok(url),
            Ok(AgentTarget::Did(did)) => Url::parse(&did.resolution_url()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }),
        ToolRunSpec::Mcp { .. }
        | ToolRunSpec::Command(_)
        | ToolRunSpec::Human(_)
        | ToolRunSpec::Answer(_)
        | ToolRunSpec::Device(_) => None,
    }
}
