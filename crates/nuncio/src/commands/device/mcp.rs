//! MCP servers of the person, each declared in a small file: how to reach it, and the permissions that its tools need.
//! A server is started when first needed, again after it was lost, and ends with the device.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_backend::runners::{ToolRunner, ToolRunnerConfig};
use nuncio_core::agent::{Agent, CommandLine, McpServerSpec, McpTransport, Tool};
use nuncio_core::call_source::CallSource;
use nuncio_core::ids::{BackendName, CallId, ScopeId, ToolName};
use nuncio_core::message::Content;
use nuncio_core::principal::Principal;
use nuncio_device::tools::{LocalTool, LocalToolFailure, LocalToolSource, LocalTools};
use nuncio_engine::ports::runner::{
    AuthorizedToolCall, ProgramStartSignal, SentCallMessages, ToolOutput, ToolRunError,
};
use nuncio_engine::ports::{Clock as _, Runner as _};
use nuncio_server::fetch::install_crypto;
use nuncio_server::{SystemClock, local_runners_config};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use url::{Host, Url};

use super::home::{config_error, files};

/// The placeholder agent under which the runners start the device's MCP servers.
const DEVICE: &str = "[agent]\nname = \"device\"\nversion = \"1.0.0\"\n";

/// An MCP server, as its file declares it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredMcpServer {
    command: Option<Vec<String>>,
    url: Option<Url>,
    scope: Option<ScopeId>,
    #[serde(default)]
    tools: BTreeMap<ToolName, ScopeId>,
}

/// Adds the tools of all MCP servers that have a file in the device's folder.
pub(super) fn add(home: &Path, mut tools: LocalTools) -> anyhow::Result<LocalTools> {
    let folder = home.join("mcp");
    let mut runners = None;
    for (path, text) in files(&folder)? {
        let file: DeclaredMcpServer = toml::from_str(&text).map_err(|why| config_error(&path, &why))?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = BackendName::parse(name).map_err(|why| config_error(&path, &format!("the file's name: {why}")))?;
        let transport = transport(&file).map_err(|why| config_error(&path, &why))?;
        if file.scope.is_none() && file.tools.is_empty() {
            let message = "`scope` is missing: name the permission of its tools here, or of each tool below [tools]";
            return Err(config_error(&path, &message));
        }
        let runners = match &runners {
            Some(runners) => Arc::clone(runners),
            None => Arc::clone(runners.insert(runners_in(&folder)?)),
        };
        let server = Arc::new(ConnectedMcpServer::new(runners, McpServerSpec { name, transport, import: None })?);
        for (name, scope) in file.tools {
            if tools.has(&name) {
                return Err(config_error(
                    &path,
                    &format!("`tools.{name}`: this device has a tool of that name already"),
                ));
            }
            tools = tools.named(name.clone(), scope, Arc::new(McpTool { server: Arc::clone(&server), name }));
        }
        if let Some(scope) = file.scope {
            tools = tools.family(scope, Arc::new(McpToolSource(server)));
        }
    }
    Ok(tools)
}

/// How an MCP server is reached: a program, or an address of this machine.
fn transport(file: &DeclaredMcpServer) -> Result<McpTransport, String> {
    match (&file.command, &file.url) {
        (Some(words), None) => match CommandLine::literal(words) {
            Some(command) => Ok(McpTransport::Stdio { command, env: Vec::new() }),
            None => Err("`command` names no program".to_owned()),
        },
        (None, Some(url)) => {
            let is_loopback = match url.host() {
                Some(Host::Domain(name)) => name == "localhost",
                Some(Host::Ipv4(address)) => address.is_loopback(),
                Some(Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            };
            match is_loopback && matches!(url.scheme(), "http" | "https") {
                true => Ok(McpTransport::Http { url: url.clone(), headers: Vec::new() }),
                false => {
                    Err(format!("`url`: {url} is no http address of this machine, such as http://127.0.0.1:8000/mcp"))
                }
            }
        }
        _ => Err("give either `command` or `url`, not both".to_owned()),
    }
}

/// The runners of the device's MCP servers; relative paths are resolved in the folder.
fn runners_in(folder: &Path) -> anyhow::Result<Arc<ToolRunner>> {
    install_crypto();
    let config = local_runners_config(std::env::current_exe()?, std::path::absolute(folder)?);
    Ok(Arc::new(ToolRunner::new(ToolRunnerConfig { confined: false, ..config.map_err(anyhow::Error::msg)? })))
}

/// An MCP server, and its tools once they were listed.
#[derive(Debug)]
struct ConnectedMcpServer {
    runners: Arc<ToolRunner>,
    name: BackendName,
    agent: Arc<Agent>,
    listed: OnceCell<ListedMcpTools>,
}

#[derive(Debug)]
struct ListedMcpTools {
    tools: BTreeMap<ToolName, Arc<Tool>>,
    /// Reasons why other tools of the MCP server cannot be used.
    unusable: Vec<String>,
}

impl ConnectedMcpServer {
    fn new(runners: Arc<ToolRunner>, server: McpServerSpec) -> anyhow::Result<Self> {
        let mut agent = nuncio_agent_file::parse("device", DEVICE).map_err(anyhow::Error::msg)?.agent;
        let name = server.name.clone();
        agent.mcp.push(server);
        Ok(Self { runners, name, agent: Arc::new(agent), listed: OnceCell::new() })
    }

    /// Lists the tools of the MCP server once; later calls use the same list.
    async fn listed(&self) -> Result<&ListedMcpTools, LocalToolFailure> {
        let list = async || {
            let offers = self.runners.listed(&self.agent).await.map_err(LocalToolFailure::Unavailable)?;
            let mut listed = ListedMcpTools { tools: BTreeMap::new(), unusable: Vec::new() };
            for offer in offers {
                listed
                    .tools
                    .extend(offer.tools.into_iter().map(|offered| (offered.tool.name.clone(), Arc::new(offered.tool))));
                listed.unusable.extend(offer.unusable);
            }
            Ok(listed)
        };
        self.listed.get_or_try_init(list).await
    }

    async fn call(&self, tool: Arc<Tool>, arguments: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        if let Err(faults) = tool.input.check(arguments) {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            return Err(LocalToolFailure::Arguments(faults.join("; ")));
        }
        let id = CallId::parse("device").map_err(|why| LocalToolFailure::Failed(why.to_string()))?;
        let call = AuthorizedToolCall {
            agent: Arc::clone(&self.agent),
            tool,
            id,
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            caller: Principal::Local,
            person: None,
            source: CallSource {
                caller: Principal::Local.to_string(),
                app: None,
                key_created_at: None,
                conversation: None,
            },
            deadline: SystemClock.now().after(time),
            trace: BTreeMap::new(),
            program_start: ProgramStartSignal::default(),
            sent: SentCallMessages::default(),
            inbox: None,
        };
        match self.runners.run(call).await {
            Ok(output) => Ok(result(&output)),
            Err(ToolRunError::Unavailable(why)) => Err(LocalToolFailure::Unavailable(why)),
            Err(
                ToolRunError::Failed(why)
                | ToolRunError::Refused { message: why, .. }
                | ToolRunError::NoOutcome { message: why, .. },
            ) => Err(LocalToolFailure::Failed(why)),
        }
    }
}

/// Tool result for an agent: the structured content, or else the text.
fn result(output: &ToolOutput) -> Value {
    match (output.structured.clone(), output.message_content()) {
        (Some(structured), _) => structured,
        (None, Content::Text(text)) => json!({"text": text}),
        (None, blocks @ Content::Blocks(_)) => json!({"content": blocks}),
    }
}

/// Tool source with all tools of an MCP server.
#[derive(Debug)]
struct McpToolSource(Arc<ConnectedMcpServer>);

#[async_trait]
impl LocalToolSource for McpToolSource {
    async fn tool(&self, name: &ToolName) -> Result<Option<Arc<dyn LocalTool>>, LocalToolFailure> {
        let Self(server) = self;
        let exists = server.listed().await?.tools.contains_key(name);
        Ok(exists.then(|| Arc::new(McpTool { server: Arc::clone(server), name: name.clone() }) as _))
    }
}

#[derive(Debug)]
struct McpTool {
    server: Arc<ConnectedMcpServer>,
    name: ToolName,
}

#[async_trait]
impl LocalTool for McpTool {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        let ListedMcpTools { tools, unusable } = self.server.listed().await?;
        let Some(tool) = tools.get(&self.name) else {
            let quoted = format!("`{}`", self.name);
            let why = unusable.iter().find(|why| why.contains(&quoted)).cloned();
            let has = tools.keys().map(ToolName::as_str).collect::<Vec<_>>().join(", ");
            let none = || format!("the MCP server `{}` has no tool {quoted}; it has {has}", self.server.name);
            return Err(LocalToolFailure::Unavailable(why.unwrap_or_else(none)));
        };
        self.server.call(Arc::clone(tool), arguments, time).await
    }
}
