//! The commands of `nuncio` and their flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use nuncio_server::{
    ListenAddress, McpStartOptions, OperatorError, SECRET_KEY_VARIABLE, SecretKeySource, StoreLocation,
};

mod caller_key;
mod device;
mod diff;
#[cfg(test)]
mod documented_commands;
mod operator;
mod skills;

pub(crate) use caller_key::{CallerKey, given};
pub(crate) use device::{DeviceArguments, DeviceHomeOptions, DeviceSubcommand, PassphraseSource, StorageKeySource};
pub(crate) use diff::DiffArguments;
pub(crate) use operator::{
    AgentSubcommand, ApproveSubcommand, AuditSubcommand, DidSubcommand, GrantSubcommand, KeySubcommand,
    RegistrySubcommand, StoreSubcommand, TaskActor, TaskSubcommand, UserSubcommand,
};
pub(crate) use skills::{
    CallerCredentials, DiscoverArguments, InvokeArguments, NegotiateArguments, OutboundOptions, ShowArguments,
    SigningAgent, ValidateArguments, ValidatedDocumentKind, VerificationOptions,
};

/// Puts an agent on the network: describe it once, serve it over every protocol.
#[derive(Debug, Parser)]
#[command(name = "nuncio", version, about, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "First steps:\n  nuncio serve            serve the Grand Hotel example at http://localhost:7400\n  nuncio init my-agent    write an agent file of your own\n  nuncio serve my-agent   serve it"
)]
pub(crate) struct Cli {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Serve agents
    Serve(ServeArguments),
    /// Write a commented agent file to start from
    Init(InitArguments),
    /// Check agent files, and list what each protocol cannot express; starts no program and opens no connection
    Lint {
        /// An agent file, or a folder as `serve` takes it
        #[arg(default_value = ".")]
        path: PathBuf,
        /// Also start MCP servers and connect to every server that the agents use; calls no tool
        #[arg(long)]
        connect: bool,
    },
    /// Create, list and revoke API keys
    Key(DataDirCommand<KeySubcommand>),
    /// Grant scopes to callers, list and revoke grants
    Grant(DataDirCommand<GrantSubcommand>),
    /// Invite people, list them and remove their devices
    User(DataDirCommand<UserSubcommand>),
    /// Compare keys with the people who use your agents
    Agent(DataDirCommand<AgentSubcommand>),
    /// Run this machine as a person's device: grant agents permissions and approve their calls
    Device(DeviceArguments),
    /// Answer calls that wait for an operator's approval
    Approve(DataDirCommand<ApproveSubcommand>),
    /// Do the tasks that agents give to people
    Task(DataDirCommand<TaskSubcommand>),
    /// List skills and agents of other hosts beside this server's own
    Registry(DataDirCommand<RegistrySubcommand>),
    /// Show the DIDs of this server and its agents, and rotate their keys
    Did(DataDirCommand<DidSubcommand>),
    /// Read and verify the record of every tool call
    Audit(DataDirCommand<AuditSubcommand>),
    /// Check the store, show its size, or move it to another place
    Store(DataDirCommand<StoreSubcommand>),
    /// Write everything in the store into a file, also while the server runs; the secret key is not in it
    #[command(
        after_help = "Keep secret.key apart from the backup: without it, the secrets in the backup\ncannot be read. The folders programs/ and seals/, and nuncio.toml, are not in a\nbackup."
    )]
    Backup {
        /// File to write, which must not exist
        file: PathBuf,
        #[command(flatten)]
        data: DataDirOption,
    },
    /// Restore a backup into a data directory that contains only secret.key, or into an empty PostgreSQL database
    #[command(
        after_help = "Unused invites and one-time grants, open approvals and signatures made before\nthe restore are void. Agents make new keys for people's devices, and people\nsee that these keys changed."
    )]
    Restore {
        /// File that `nuncio backup` wrote
        file: PathBuf,
        #[command(flatten)]
        data: DataDirOption,
    },
    /// Talk to an agent on any AAP server
    Chat(ChatArguments),
    /// List the skills and agents that a host offers
    Discover(DiscoverArguments),
    /// Show the interface of a skill or an agent, and what could be verified about it
    Show(ShowArguments),
    /// Ask an agent which of its interfaces to use for an intent
    Negotiate(NegotiateArguments),
    /// Call a remote skill or agent and wait for the result
    Invoke(InvokeArguments),
    /// Validate a document of Skill Sharing or ANP
    Validate(ValidateArguments),
    /// Show what a new manifest breaks and which permissions need new consent
    Diff(DiffArguments),
    /// Explain an error code, or a key of the agent file such as agent.tool.run
    #[command(
        after_help = "nuncio explain tool_not_found     the page of an error code\nnuncio explain agent              the sections of the agent file\nnuncio explain agent.tool.run     a key: type, default, example, meaning"
    )]
    Explain {
        /// The code, or `agent.` and the path of a key; lists all codes when omitted
        #[arg(value_name = "CODE|KEY")]
        code: Option<String>,
        /// Print the JSON Schema of agent files, for editors
        #[arg(long, conflicts_with = "code")]
        schema: bool,
    },
    /// Print a completion script for a shell
    #[command(
        after_help = "bash:  nuncio completions bash > \\\n           ~/.local/share/bash-completion/completions/nuncio\nzsh:   nuncio completions zsh > \"${fpath[1]}/_nuncio\"\nfish:  nuncio completions fish > ~/.config/fish/completions/nuncio.fish"
    )]
    Completions {
        /// Shell to print the script for
        shell: Shell,
    },
    /// Print the manual page, or write all of them
    Man {
        /// Write a page for every command into this folder
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// MCP servers on standard input and output that the examples use
    #[command(subcommand)]
    Demo(DemoSubcommand),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio init my-agent \\\n    --from-mcp \"npx -y @modelcontextprotocol/server-everything\"\n  nuncio init my-agent --from-mcp https://mcp.example.com/mcp \\\n    --model anthropic/claude-sonnet-4-5\n  nuncio init my-agent --model ollama/qwen3\n  nuncio init my-agent --model openai/qwen3 --base-url http://localhost:8080/v1\n  nuncio init my-agent --from-openapi https://api.example.com/openapi.json\n  nuncio init my-agent --process python"
)]
pub(crate) struct InitArguments {
    /// Folder to write agent.toml into
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Import the tools of this MCP server: the command that starts it, or its URL
    #[arg(long, value_name = "COMMAND|URL")]
    pub(crate) from_mcp: Option<String>,
    /// Import the operations of this OpenAPI document (3.0 or 3.1, JSON or YAML) as HTTP tools
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) from_openapi: Option<String>,
    /// Use this language model as the brain, such as openai/gpt-5 or ollama/qwen3
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// With --model: address of the model's interface if it is not the provider's own; for openai, any compatible server
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) base_url: Option<String>,
    /// Write an agent that acts on a person's device
    #[arg(long)]
    pub(crate) device: bool,
    /// Use your own program as the brain; writes an example in this language
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) process: Option<ProcessLanguage>,
    /// With --from-mcp: import tools that may change something without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// With --from-mcp: seconds that the server may take to start; its packages may be downloaded first
    #[arg(
        long, value_name = "SECONDS", default_value_t = McpStartOptions::TIMEOUT.as_secs(),
        env = "NUNCIO_LIMITS_MCP_START_SECONDS", value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) mcp_start_seconds: u64,
}

/// A language in which `nuncio init` writes an example of a brain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProcessLanguage {
    Python,
    Node,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// An agent file, a folder with agent.toml, or a folder of such folders; the Grand Hotel example when omitted
    pub(crate) agents: Option<PathBuf>,
    /// Address to listen on; `localhost` means both loopback addresses
    #[arg(
        long, value_name = "HOST:PORT", default_value = "localhost:7400", env = "NUNCIO_LISTEN", value_parser = listen
    )]
    pub(crate) listen: ListenAddress,
    #[command(flatten)]
    pub(crate) data: DataDirOption,
    /// Settings file [default: nuncio.toml in the data directory]
    #[arg(long, value_name = "FILE", env = "NUNCIO_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// URL under which others reach this server
    #[arg(long, value_name = "URL", env = "NUNCIO_PUBLIC_URL", value_parser = absolute_url)]
    pub(crate) public_url: Option<url::Url>,
    /// Serve TLS with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "NUNCIO_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "NUNCIO_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Trust these certificate authorities too (PEM)
    #[arg(long, value_name = "FILE", env = "NUNCIO_EXTRA_CA")]
    pub(crate) extra_ca: Option<PathBuf>,
    /// Allow plain http to peers on this machine, for development
    #[arg(long)]
    pub(crate) dev: bool,
    /// Serve beyond this machine without keys
    #[arg(long)]
    pub(crate) open: bool,
    /// Serve tools that need another person's approval although this system cannot confine programs
    #[arg(long)]
    pub(crate) unconfined: bool,
    /// Print one line for every request
    #[arg(long)]
    pub(crate) verbose: bool,
}

fn listen(text: &str) -> Result<ListenAddress, String> {
    ListenAddress::parse(text).map_err(|_| match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => format!("{port:?} is not a port; a port is a number from 0 to 65535"),
        None if text.parse::<u16>().is_ok() => format!("the host is missing; write localhost:{text}"),
        _ => "write HOST:PORT, such as localhost:7400 or 0.0.0.0:7400".to_owned(),
    })
}

fn absolute_url(text: &str) -> Result<url::Url, String> {
    url::Url::parse(text).map_err(|_| "write the whole URL, such as https://agents.example.com".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ChatArguments {
    /// The server: its URL, its domain, or localhost:PORT; `/aap` is tried when there is no path
    pub(crate) target: String,
    /// The agent, if the server has several
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    pub(crate) agent: Option<String>,
    /// API key; better set in the environment, where others cannot see it
    #[arg(long, env = "NUNCIO_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Continue this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Set an option of the agent for this session (repeatable); `/options` in the chat lists them
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = crate::commands::chat::options::parse_option)]
    pub(crate) options: Vec<(String, String)>,
    /// Offer a tool that runs on this machine, from a file with name, description, parameters and command
    #[arg(long = "tool", value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,
    /// Run every tool without asking
    #[arg(long)]
    pub(crate) trust: bool,
    /// Trust these certificate authorities too (PEM)
    #[arg(long, value_name = "FILE", env = "NUNCIO_EXTRA_CA")]
    pub(crate) extra_ca: Option<PathBuf>,
}

/// Data directory of commands without `--data`, below the folder that they are run in.
pub(crate) const DEFAULT_DATA: &str = "nuncio-data";

#[derive(Debug, Args)]
pub(crate) struct DataDirOption {
    /// Data directory
    #[arg(long = "data", value_name = "DIR", default_value = DEFAULT_DATA, env = "NUNCIO_DATA", global = true)]
    pub(crate) path: PathBuf,
    /// Key that encrypts stored secrets, 32 bytes; or set NUNCIO_SECRET_KEY, in base64 [default: secret.key in the data
    /// directory]
    #[arg(long = "secret-key", value_name = "FILE", global = true)]
    secret_key_file: Option<PathBuf>,
    /// PostgreSQL database with everything that is stored: postgres://USER@HOST/DATABASE?sslmode=verify-full; or set
    /// NUNCIO_STORE [default: a SQLite file in the data directory]
    #[arg(long = "store", value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
}

impl DataDirOption {
    pub(crate) fn store(&self) -> Result<StoreLocation, OperatorError> {
        StoreLocation::chosen(self.store.as_deref(), &self.path)
    }

    pub(crate) fn secret_key(&self) -> Result<SecretKeySource, OperatorError> {
        // Text that is not Unicode is no base64 either.
        let variable = std::env::var_os(SECRET_KEY_VARIABLE);
        let variable = variable.map(|text| text.into_string().unwrap_or_else(|_| "?".to_owned()));
        SecretKeySource::chosen(self.secret_key_file.as_deref(), variable.as_deref())
    }
}

/// A group of commands on one data directory.
#[derive(Debug, Args)]
pub(crate) struct DataDirCommand<C: Subcommand> {
    #[command(subcommand)]
    pub(crate) command: C,
    #[command(flatten)]
    pub(crate) data: DataDirOption,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoSubcommand {
    /// MCP server of the Grand Hotel: its rooms and reservations
    Hotel {
        /// Database file [default: hotel.db in the folder named by NUNCIO_STATE, or in the current folder]
        #[arg(long, value_name = "FILE")]
        db: Option<PathBuf>,
    },
    /// MCP server with `add`, `lookup`, `echo` and `fail`, for the script example
    Script,
    /// MCP server with the tools of MCP's conformance suite, for conformance/mcp
    #[command(hide = true)]
    Conformance,
}
