//! The commands and their flags.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use nuncio_server::ListenOn;

mod device;
mod diff;
mod skills;

pub(crate) use device::{DeviceHome, DeviceSubcommand, PassphraseFrom, StorageSource};
pub(crate) use diff::Diff;
pub(crate) use skills::{
    CallerCredentials, Discover, DocumentKind, Invoke, Negotiate, OutboundOptions, Show, SigningAgent, Validate,
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
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve agents
    Serve(Serve),
    /// Write a commented agent file to start from
    Init(Init),
    /// Check agent files, and say what each protocol cannot express
    Lint {
        /// An agent file, or a folder as `serve` takes it
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Key(Key),
    /// Give scopes to callers, list them, take them back
    #[command(subcommand)]
    Grant(Grant),
    /// Invite people, list them, and take their devices away
    #[command(subcommand)]
    User(User),
    /// Be a person's own device: allow agents things, and be asked before they happen
    #[command(subcommand)]
    Device(DeviceSubcommand),
    /// Answer the calls that wait for an operator's approval
    #[command(subcommand)]
    Approve(Approve),
    /// Do the work that agents hand to people
    #[command(subcommand)]
    Task(Task),
    /// List skills of other domains beside our own
    #[command(subcommand)]
    Registry(Registry),
    /// Show who this server and its agents are to others, and give them new keys
    #[command(subcommand)]
    Did(Did),
    /// Read and prove the record of every tool call
    #[command(subcommand)]
    Audit(Audit),
    /// Check the stored data
    #[command(subcommand)]
    Store(Store),
    /// Talk to an agent on any AAP server
    Chat(Chat),
    /// List the skills and the agents that a host offers
    Discover(Discover),
    /// Show what a skill or an agent is, takes and answers, and what of it could be verified
    Show(Show),
    /// Ask an agent which of its interfaces to use for something
    Negotiate(Negotiate),
    /// Have somebody else's skill or agent do something, and wait for the result
    Invoke(Invoke),
    /// Check a document of Skill Sharing or ANP
    Validate(Validate),
    /// Say what a new manifest breaks, and whose consent it needs again
    Diff(Diff),
    /// Say what an error code means and what to do
    Explain {
        /// The code; all are listed when it is left out
        code: Option<String>,
    },
    /// Print a completion script for a shell
    #[command(
        after_help = "bash:  nuncio completions bash > \\\n           ~/.local/share/bash-completion/completions/nuncio\nzsh:   nuncio completions zsh > \"${fpath[1]}/_nuncio\"\nfish:  nuncio completions fish > ~/.config/fish/completions/nuncio.fish"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write all of them
    Man {
        /// Write a page for every command into this folder
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Tool servers that the examples use (MCP on standard input and output)
    #[command(subcommand)]
    Demo(Demo),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio init my-agent \\\n    --from-mcp \"npx -y @modelcontextprotocol/server-everything\"\n  nuncio init my-agent --from-mcp https://mcp.example.com/mcp \\\n    --model anthropic/claude-sonnet-4-5\n  nuncio init my-agent --model ollama/qwen3"
)]
pub(crate) struct Init {
    /// The folder to write agent.toml into
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Take over the tools of this MCP server: the command that starts it, or its address
    #[arg(long, value_name = "COMMAND|URL")]
    pub(crate) from_mcp: Option<String>,
    /// Think with this language model, such as openai/gpt-5 or ollama/qwen3
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// An agent file, a folder with agent.toml, or a folder of such folders; the Grand Hotel
    /// example when left out
    pub(crate) agents: Option<PathBuf>,
    /// Where to listen; `localhost` means both loopback addresses
    #[arg(
        long, value_name = "HOST:PORT", default_value = "localhost:7400", env = "NUNCIO_LISTEN", value_parser = listen
    )]
    pub(crate) listen: ListenOn,
    #[command(flatten)]
    pub(crate) data: Data,
    /// The settings file [default: nuncio.toml in the data directory]
    #[arg(long, value_name = "FILE", env = "NUNCIO_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The address under which others reach this server
    #[arg(long, value_name = "URL", env = "NUNCIO_PUBLIC_URL")]
    pub(crate) public_url: Option<url::Url>,
    /// Serve TLS with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "NUNCIO_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "NUNCIO_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Believe these certificate authorities too (PEM)
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
}

fn listen(text: &str) -> Result<ListenOn, String> {
    ListenOn::parse(text).map_err(|_| match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => format!("{port:?} is no port; it is a number from 0 to 65535"),
        None if text.parse::<u16>().is_ok() => format!("the host is missing; write localhost:{text}"),
        _ => "write HOST:PORT, such as localhost:7400 or 0.0.0.0:7400".to_owned(),
    })
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// The server: its address, its domain, or localhost:PORT; `/aap` is tried when it names no path
    pub(crate) target: String,
    /// The agent, when the server has several
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    pub(crate) agent: Option<String>,
    /// The key to show; better set in the environment, where others do not see it
    #[arg(long, env = "NUNCIO_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Offer a tool that runs here, by a file with name, description, parameters and command
    #[arg(long = "tool", value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,
    /// Let every tool run without asking
    #[arg(long)]
    pub(crate) trust: bool,
    /// Believe these certificate authorities too (PEM)
    #[arg(long, value_name = "FILE", env = "NUNCIO_EXTRA_CA")]
    pub(crate) extra_ca: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Data {
    /// The data directory
    #[arg(long = "data", value_name = "DIR", default_value = "nuncio-data", env = "NUNCIO_DATA")]
    pub(crate) path: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key; it is printed once and never again
    Create {
        /// What to call it
        #[arg(long)]
        name: Option<String>,
        /// The person it belongs to
        #[arg(long)]
        person: Option<String>,
        /// A scope it may use; all when left out, several by repeating
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Make a secret that signs requests and is never sent with them
        #[arg(long)]
        signing: bool,
        /// Let it read the metrics and work in the console, as an operator does
        #[arg(long, conflicts_with = "signing")]
        operator: bool,
        /// Refuse it after a span of time (90m, 12h or 30d) or from a moment on (2027-01-01T00:00:00Z)
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        #[command(flatten)]
        data: Data,
    },
    /// List the keys
    List {
        #[command(flatten)]
        data: Data,
    },
    /// Take a key back
    Revoke {
        /// Its id or name
        key: String,
        #[command(flatten)]
        data: Data,
    },
    /// Give a key a new secret, printed once; it keeps its id, scopes, grants and sessions
    Rotate {
        /// Its id or name
        #[arg(value_name = "ID_OR_NAME")]
        key: String,
        /// When the new secret expires, as for `create`; a key made for a span of time lasts that long again when left out
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// How long the old secret works beside the new one, such as 30m, 12h or 3d [default: not at all]
        #[arg(long, value_name = "TIME")]
        overlap: Option<String>,
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Grant {
    /// Give scopes of an agent to a caller
    Create {
        /// Who: anonymous, key:ID, oauth:ISSUER#SUBJECT or a DID
        principal: String,
        /// The agent
        agent: String,
        /// The scopes
        #[arg(required = true, value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Until this moment, such as 2027-01-01T00:00:00Z
        #[arg(long, value_name = "TIME", conflicts_with = "once")]
        until: Option<String>,
        /// For one call only
        #[arg(long)]
        once: bool,
        #[command(flatten)]
        data: Data,
    },
    /// List what was given
    List {
        #[command(flatten)]
        data: Data,
    },
    /// Take a grant back
    Revoke {
        /// Its id
        id: String,
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Invite a person, or a further device of theirs; the code is printed once and never again
    Invite {
        /// Their name here: letters, digits, '_', '-', '.' and '@'
        name: String,
        /// How long the code is good, such as 30m, 12h or 3d [default: 7d]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        #[command(flatten)]
        data: Data,
    },
    /// List the people with an account
    List {
        #[command(flatten)]
        data: Data,
    },
    /// List a person's devices
    Devices {
        /// Their name
        name: String,
        #[command(flatten)]
        data: Data,
    },
    /// Erase a person's data; the audit record and the ledgers can still be proved
    Forget {
        /// Their name
        name: String,
        #[command(flatten)]
        data: Data,
    },
    /// Take a device of a person away, or all of them
    #[command(
        group = ArgGroup::new("which").args(["device", "all"]).required(true),
        override_usage = "nuncio user revoke [OPTIONS] <NAME> <DEVICE|--all>"
    )]
    Revoke {
        /// Their name
        name: String,
        /// The device's id
        device: Option<String>,
        /// Every device they have
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Approve {
    /// List the calls that wait
    List {
        #[command(flatten)]
        data: Data,
    },
    /// Let a call run, once, with the arguments shown
    Allow {
        /// The approval's id
        id: String,
        #[command(flatten)]
        data: Data,
    },
    /// Refuse a call
    Deny {
        /// The approval's id
        id: String,
        /// Why; the agent is told
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// List what waits
    List {
        #[command(flatten)]
        data: Data,
    },
    /// Show a task: what to do, with what, and what the result must hold
    Show {
        /// The task's id
        id: String,
        #[command(flatten)]
        data: Data,
    },
    /// Take a task, so that others see who is at it
    Take {
        /// The task's id
        id: String,
        /// Also when somebody else has it
        #[arg(long)]
        over: bool,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Give a task back to everyone
    GiveBack {
        /// The task's id
        id: String,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Finish a task with its result
    #[command(
        after_help = "Examples:\n  nuncio task finish ID weight_kg=2.4 shelf=B7 damaged=false\n  nuncio task finish ID --output '{\"weight_kg\": 2.4, \"shelf\": \"B7\"}'\n  nuncio task finish ID --output - < result.json\n  nuncio task finish ID \"The parcel is at the desk.\"   # where it is one text"
    )]
    Finish {
        /// The task's id
        id: String,
        /// The result, field by field: NAME=VALUE, PART.NAME=VALUE; or the text, where it is one
        #[arg(value_name = "NAME=VALUE", conflicts_with = "output")]
        fields: Vec<String>,
        /// The result as JSON; `-` reads it from standard input
        #[arg(long, value_name = "JSON")]
        output: Option<String>,
        #[command(flatten)]
        actor: TaskActor,
    },
    /// Refuse a task; whoever asked for it is told
    Refuse {
        /// The task's id
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        actor: TaskActor,
    },
}

/// Who does something with a task, and where.
#[derive(Debug, Args)]
pub(crate) struct TaskActor {
    /// Who you are to others [default: your login name]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Registry {
    /// Follow a domain: its skills are listed at /registry/skills, and read again from time to time
    Follow {
        /// The domain, such as example.com or localhost:7400
        domain: String,
        #[command(flatten)]
        data: Data,
    },
    /// Follow a domain no more
    Unfollow {
        /// The domain
        domain: String,
        #[command(flatten)]
        data: Data,
    },
    /// List the domains that are followed, and how they are
    List {
        #[command(flatten)]
        data: Data,
    },
    /// List an agent of another host at /registry/agents, once its description was verified
    Add {
        /// The address of its description, or its DID
        target: String,
        #[command(flatten)]
        data: Data,
    },
    /// List an agent of another host no more
    Remove {
        /// Its id, its DID, or the address of its description
        which: String,
        #[command(flatten)]
        data: Data,
    },
    /// List the agents of other hosts that are listed here, and the directories ours are registered with
    Agents {
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Did {
    /// Show the DIDs: the service's and every agent's
    Show {
        /// Only this agent's
        agent: Option<String>,
        #[command(flatten)]
        data: Data,
    },
    /// Say that a DID belongs to a person; what it asks for is theirs
    Link {
        /// The DID
        did: String,
        /// The person
        #[arg(long, value_name = "NAME")]
        person: String,
        #[command(flatten)]
        data: Data,
    },
    /// Say that a DID belongs to nobody
    Unlink {
        /// The DID
        did: String,
        #[command(flatten)]
        data: Data,
    },
    /// List the DIDs that belong to people
    Links {
        #[command(flatten)]
        data: Data,
    },
    /// Make a new key; an agent has a new DID then, and the old one says so
    #[command(
        after_help = "Examples:\n  nuncio did rotate hotel                          # the agent's key leaked\n  nuncio did rotate --service                      # the server's own key did\n  nuncio did rotate --to https://new.example.com   # the address changed\n\nWhen the server's own key changes, the tokens it gave are worthless.\nThe address is changed while the server is stopped."
    )]
    #[command(group = ArgGroup::new("which").args(["agent", "service", "to"]).required(true))]
    Rotate {
        /// The agent
        agent: Option<String>,
        /// This server's own key
        #[arg(long)]
        service: bool,
        /// All of them, moved to another public address
        #[arg(long, value_name = "URL")]
        to: Option<url::Url>,
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List the records, oldest first
    List {
        /// Begin behind this number
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// How many at most
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        data: Data,
    },
    /// Prove that no record was changed, removed or put in between
    Verify {
        #[command(flatten)]
        data: Data,
    },
    /// Delete old records; what is left can still be proved
    Prune {
        /// Those that ended before this day (2026-01-31) or moment (2026-01-31T12:00:00Z)
        #[arg(long, value_name = "TIME")]
        before: String,
        #[command(flatten)]
        data: Data,
    },
    /// Show what all records say about a call, prove that they agree, and name those that were changed
    Explain {
        /// The call's id
        call: String,
        /// Also hold them against a device's record, from `nuncio device audit --json`
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Look for damage in the database and its write-ahead file, however long that takes
    Check {
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Demo {
    /// The Grand Hotel's rooms and reservations
    Hotel {
        /// The file they are kept in [default: hotel.db in the folder named by NUNCIO_STATE, or here]
        #[arg(long, value_name = "FILE")]
        db: Option<PathBuf>,
    },
    /// `add`, `lookup`, `echo` and `fail`, for the script example
    Script,
}
