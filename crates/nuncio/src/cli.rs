//! The commands of `nuncio` and their flags.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use nuncio_server::{
    ListenAddress, McpStartOptions, OperatorError, SECRET_KEY_VARIABLE, SecretKeySource, StoreLocation,
};

mod caller_key;
mod device;
mod diff;
#[cfg(test)]
mod documented_commands;
mod skills;

pub(crate) use caller_key::{CallerKey, given};
pub(crate) use device::{DeviceArguments, DeviceHomeOptions, DeviceSubcommand, PassphraseSource, StorageKeySource};
pub(crate) use diff::DiffArguments;
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
    /// Restore a backup into a data directory that contains only secret.key
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
    #[arg(long, value_name = "URL", env = "NUNCIO_PUBLIC_URL")]
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
pub(crate) enum KeySubcommand {
    /// Create a key, which is printed once and never again
    Create {
        /// Name of the key
        #[arg(long)]
        name: Option<String>,
        /// Person that the key belongs to
        #[arg(long)]
        person: Option<String>,
        /// Scope that the key may use (repeatable); all scopes when omitted
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Create a secret that signs requests and is never sent with them
        #[arg(long)]
        signing: bool,
        /// Let the key read the metrics and use the console, as an operator does
        #[arg(long, conflicts_with = "signing")]
        operator: bool,
        /// Expiry: a duration (90m, 12h or 30d) or a time (2027-01-01T00:00:00Z)
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Do not ask before the first key closes a server that is open to this machine
        #[arg(long)]
        yes: bool,
    },
    /// List the keys, and say whether requests without a key are served
    List,
    /// Revoke a key
    Revoke {
        /// Id or name of the key
        key: String,
    },
    /// Give a key a new secret, printed once; id, scopes, grants and sessions stay
    Rotate {
        /// Id or name of the key
        #[arg(value_name = "ID_OR_NAME")]
        key: String,
        /// Expiry of the new secret, as for `create`; when omitted, a key created with a duration gets the same
        /// duration again
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// How long the old secret stays valid, such as 30m, 12h or 3d [default: not at all]
        #[arg(long, value_name = "TIME")]
        overlap: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantSubcommand {
    /// Grant scopes of an agent to a caller
    Create {
        /// The caller: anonymous, key:ID, person:NAME, oauth:ISSUER#SUBJECT or a DID
        principal: String,
        /// Name of the agent
        agent: String,
        /// Scopes to grant
        #[arg(required = true, value_name = "SCOPE")]
        scopes: Vec<String>,
        /// End of the grant: a duration such as 12h or 30d, a day or a time such as 2027-01-01T00:00:00Z
        #[arg(long, value_name = "TIME", conflicts_with = "once")]
        until: Option<String>,
        /// Grant for one call only
        #[arg(long)]
        once: bool,
    },
    /// List the grants
    List,
    /// Revoke a grant
    Revoke {
        /// Id of the grant
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserSubcommand {
    /// Invite a person, or another device of a person; the link is printed once and never again
    Invite {
        /// The person's name on this server: letters, digits, '_', '-', '.' and '@'
        name: String,
        /// How long the link is valid, such as 30m, 12h or 3d [default: 7d]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// List the people with an account
    List,
    /// List a person's devices
    Devices {
        /// The person's name
        name: String,
    },
    /// Erase a person's data; the audit record and the ledgers stay verifiable
    Forget {
        /// The person's name
        name: String,
    },
    /// Remove a device of a person, or all of them
    #[command(
        group = ArgGroup::new("which").args(["device", "all"]).required(true),
        override_usage = "nuncio user revoke [OPTIONS] <NAME> <DEVICE|--all>"
    )]
    Revoke {
        /// The person's name
        name: String,
        /// Id of the device
        device: Option<String>,
        /// All devices of the person
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentSubcommand {
    /// Show the number that you and a person compare, to be sure that nobody intercepts your messages
    SafetyNumber {
        /// Name of the agent
        name: String,
        /// Name of the person
        person: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApproveSubcommand {
    /// List the calls that wait for approval
    List,
    /// Allow a call to run once, with the arguments shown
    Allow {
        /// Id of the approval
        id: String,
    },
    /// Deny a call
    Deny {
        /// Id of the approval
        id: String,
        /// Reason, which the agent gets
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskSubcommand {
    /// List the open tasks
    List,
    /// Show a task: what to do, its details, and the form of the result
    Show {
        /// Id of the task
        id: String,
    },
    /// Take a task, so that others see who is working on it
    Take {
        /// Id of the task
        id: String,
        /// Take the task even if another person has it
        #[arg(long)]
        over: bool,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Return a task to the inbox
    GiveBack {
        /// Id of the task
        id: String,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Finish a task with its result
    #[command(
        after_help = "Examples:\n  nuncio task finish ID weight_kg=2.4 shelf=B7 damaged=false\n  nuncio task finish ID --output '{\"weight_kg\": 2.4, \"shelf\": \"B7\"}'\n  nuncio task finish ID --output - < result.json\n  nuncio task finish ID \"The parcel is at the desk.\"   # where it is one text"
    )]
    Finish {
        /// Id of the task
        id: String,
        /// The result, field by field: NAME=VALUE, PART.NAME=VALUE; or the text, for a task without a form
        #[arg(value_name = "NAME=VALUE", conflicts_with = "output")]
        fields: Vec<String>,
        /// The result as JSON; `-` reads standard input
        #[arg(long, value_name = "JSON")]
        output: Option<String>,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Refuse a task; the requester is notified
    Refuse {
        /// Id of the task
        id: String,
        /// Reason, which the requester gets
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        actor: TaskActor,
    },
}

/// The person who acts on a task.
#[derive(Debug, Args)]
pub(crate) struct TaskActor {
    /// Your name as others see it [default: your login name]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistrySubcommand {
    /// Follow a domain: its skills are listed at /registry/skills and read again periodically
    Follow {
        /// Domain, such as example.com or localhost:7400
        domain: String,
    },
    /// Stop following a domain
    Unfollow {
        /// Domain that is followed
        domain: String,
    },
    /// List the followed domains and their state
    List,
    /// List an agent of another host at /registry/agents after verifying its description
    Add {
        /// URL of the agent's description, or its DID
        target: String,
    },
    /// Remove an agent of another host from the directory
    Remove {
        /// Id, DID or description URL of the agent
        which: String,
    },
    /// List the agents of other hosts in the directory, and the directories that list this server's agents
    Agents,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DidSubcommand {
    /// Show the DIDs of the service and of every agent
    Show {
        /// Show only this agent's DID
        agent: Option<String>,
    },
    /// Link a DID to a person, whose permissions its requests then use
    Link {
        /// The DID to link
        did: String,
        /// Name of the person
        #[arg(long, value_name = "NAME")]
        person: String,
    },
    /// Remove the link of a DID to a person
    Unlink {
        /// The linked DID
        did: String,
    },
    /// List the DIDs that are linked to people
    Links,
    /// Make a new key; an agent then gets a new DID, which its old DID document names
    #[command(
        after_help = "Examples:\n  nuncio did rotate hotel                          # the agent's key leaked\n  nuncio did rotate --service                      # the server's own key did\n  nuncio did rotate --to https://new.example.com   # the address changed\n\nWhen the server's own key changes, the tokens that it issued stop working.\nStop the server before you change its address."
    )]
    #[command(group = ArgGroup::new("which").args(["agent", "service", "to"]).required(true))]
    Rotate {
        /// Name of the agent
        agent: Option<String>,
        /// Rotate the key of this server itself
        #[arg(long)]
        service: bool,
        /// Move all DIDs to another public URL
        #[arg(long, value_name = "URL")]
        to: Option<url::Url>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditSubcommand {
    /// List the audit records, newest first
    #[command(
        after_help = "Examples:\n  nuncio audit list --since 24h\n  nuncio audit list --agent hotel --tool book_room --limit 20\n  nuncio audit list --caller my-app     # the name of a key"
    )]
    List {
        /// Only records of this agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Only calls of this tool
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Only records of this caller: the name or id of a key, a person, an account of this machine, or a principal
        /// such as local or did:…
        #[arg(long, value_name = "CALLER")]
        caller: Option<String>,
        /// Only records since then: a duration (90m, 12h or 3d), a day (2026-01-31) or a time (2026-01-31T12:00:00Z)
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// List the records after this number, oldest first, to read the whole log page by page
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// Maximum number of records, at most 1000
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Verify that no record was changed, removed or inserted
    Verify,
    /// Delete old records; the remaining ones stay verifiable
    Prune {
        /// Delete records that ended before this day (2026-01-31) or time (2026-01-31T12:00:00Z)
        #[arg(long, value_name = "TIME")]
        before: String,
    },
    /// Show everything recorded about a call, verify that it agrees, and name changed records
    Explain {
        /// Id of the call, or the number of its record in `nuncio audit list`
        call: String,
        /// Also compare with a device's record, from `nuncio device audit --json`
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreSubcommand {
    /// Check the database and its write-ahead file for damage, completely
    Check,
    /// Show which store this is, its size per table and its oldest unfinished work
    Status,
    /// Replace the secret key: everything that it encrypts is encrypted under a new one, also while the server runs
    #[command(
        after_help = "The new key takes the place of the old file. Copy it to where you keep it\napart from backups."
    )]
    Rekey,
    /// Copy a store into an empty one, which is used from then on; the first one does not open any more
    #[command(
        after_help = "Stop the server first. An interrupted copy is continued by the same command.\nThe settings and the folder programs/ are not copied."
    )]
    Copy {
        /// Data directory to copy from
        from: String,
        /// Data directory to copy to, which must be empty
        to: String,
    },
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
}
